"""Exports a checkpoint as a model folder of transformers: ``tupe-export``."""

import importlib.resources
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, LM_HEAD
from tupe_fairseq.checkpoint.model import Model, read_with_tokenizer
from tupe_fairseq.checkpoint.options import ExportOptions
from tupe_fairseq.data.dictionary import DICTIONARY, PAD, REPORT, UNK
from tupe_fairseq.data.truncation import join_texts
from tupe_fairseq.export.names import (
    LM_WEIGHT,
    ROBERTA,
    TUPE,
    Head,
    to_config,
    to_transformers,
)
from tupe_fairseq.export.source import model_code
from tupe_fairseq.files import new_output_folder, read_json, write_json
from tupe_fairseq.flags import takes
from tupe_fairseq.kinds import kind_of_head
from tupe_fairseq.labelled.task import Task, read_labels, recorded_columns
from tupe_fairseq.modules.heads import TaggingHead
from tupe_fairseq.options import POSITION_OPTIONS, flag
from tupe_fairseq.version import __version__

logger = logging.getLogger(__name__)

#: the code of a TUPE model
CODE = ("configuration_tupe.py", "modeling_tupe.py")
WEIGHTS = "model.safetensors"
#: files that only some exports write
SOME = (*CODE, REPORT, "onnx/model.onnx", "onnx/model_masked_lm.onnx")
# How far the logits of extra tokens are below that of <unk>: even thousands of them take no
# probability from other tokens, but the loss of such a token is still finite
_LESS = 20.0


@takes(ExportOptions)
def export_model(options: ExportOptions) -> None:
    """Write a folder for transformers, as tupe-export does."""
    from tupe_fairseq.export import check
    from tupe_fairseq.export.tokenizer import build_tokenizer

    checkpoint, model_type = options.checkpoint, options.model_type
    folders = options.folders()
    to_write = new_output_folder(
        options.output_dir, "config.json",
        sources=folders, others=SOME, overwrite=options.overwrite,
    )  # fmt: skip
    with to_write as folder, check.quiet_libraries():
        import transformers

        if options.onnx:  # imported first, in case a package is missing
            from tupe_fairseq.export.onnx_files import export_onnx
        logger.info("reading %s", checkpoint)
        model, tokenizer = read_with_tokenizer(checkpoint, folders, options.vocabulary_files())
        reports = [path for p in folders if os.path.isfile(path := os.path.join(p, REPORT))]
        symbols, length = model.symbols, model.max_positions
        chosen = _trained_head(model, folders)
        fast, unlisted = build_tokenizer(tokenizer.record, tokenizer.paths, symbols, length)
        config = to_config(model.options, symbols, model_type, chosen)
        state = model.module.state_dict()
        if unlisted:
            logger.info("%d tokens are not in dict.txt: they get the vector of <unk>", unlisted)
            state = with_unlisted(state, unlisted)
            config.update(vocab_size=len(symbols) + unlisted, unlisted_pieces=unlisted)
        tensors = to_transformers(state, model_type, chosen, config["tie_word_embeddings"])
        write_model(folder, config, tensors)
        write_sentence_files(folder, options.pooling, config["hidden_size"], length)
        fast.save_pretrained(folder)
        tokenizer.copy_to(folder)
        if chosen and (task := Task.find(*folders)):  # for tupe-predict, after tupe-convert
            own = {"description": task.to_record(), "columns": recorded_columns(*folders)}
            write_json(os.path.join(folder, REPORT), own)

        logger.info("comparing the folder with the checkpoint on %d texts", len(check.TEXTS))

        def encode(*texts: str) -> list[int]:
            return [*join_texts([*map(tokenizer.encode, texts)], sys.maxsize).tokens]

        def hidden(tokens: Tensor) -> Tensor:
            return model.encoder(model.encoder.embed_tokens(tokens), tokens.eq(PAD))

        logits: dict[str, Any] = {}
        if chosen:
            auto_class = f"AutoModel{chosen.kind.transformers_class}"
            logits[auto_class] = lambda x: model.head(hidden(x), x.ne(PAD))
        if chosen is None or model_type == TUPE:  # transformers' RoBERTa has one or the other
            logits["AutoModelForMaskedLM"] = lambda x: model.lm_head(hidden(x))
        differences = check.check_folder(folder, encode, logits, len(symbols), length)
        if options.onnx:
            logger.info("writing onnx/")
            differences.update(export_onnx(folder))
        for name, difference in differences.items():
            logger.info("%s: the same within %.1e", name, difference)
        card = model_card(
            config,
            chosen,
            read_json(reports[0]) if reports else {},
            name=os.path.basename(os.path.realpath(options.output_dir)),
            parameters=sum(tensor.numel() for tensor in tensors.values()),
            vocabulary=tokenizer,
            max_positions=length,
            onnx=options.onnx,
            texts=len(check.TEXTS),
            transformers=transformers.__version__,
            torch=torch.__version__.partition("+")[0],
            differences=differences,
        )
        with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
            file.write(card)


def _trained_head(model: Model, folders: Sequence[str]) -> Head | None:
    """The classification head, with its labels; None if there is none."""
    if not model.heads:
        return None
    name, kind = model.trained_head, model.kind
    outputs = model.heads[name]
    of_words = isinstance(model.head, TaggingHead)
    if of_words != kind.of_words or (outputs == 1 and not kind.may_be_empty):
        kind = kind_of_head(outputs, of_words)
    paths = [os.path.join(place, "label", DICTIONARY) for place in folders]
    path = next(filter(os.path.isfile, paths), None)
    if not kind.has_labels or path is None:
        labels = [f"LABEL_{n}" for n in range(outputs)] if kind.has_labels else ["score"]
        return Head(name, labels, kind)
    labels = read_labels(path)
    if len(labels) != outputs:
        raise ValueError(
            f"{path} lists {len(labels)} labels, but head {name} has {outputs} outputs; give "
            "--data, the folder that it was trained with"
        )
    return Head(name, labels, kind)


def write_model(folder: str, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write config.json, the weights and, of a TUPE model, the code."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    write_json(os.path.join(folder, "config.json"), config)
    try:
        save_file(tensors, os.path.join(folder, WEIGHTS), metadata={"format": "pt"})
    except SafetensorError as error:  # such as a full disk
        raise OSError(f"{WEIGHTS}: {str(error).rpartition(': ')[2]}") from error
    # safetensors does not let other users read it
    shutil.copymode(os.path.join(folder, "config.json"), os.path.join(folder, WEIGHTS))
    if "auto_map" in config:
        write_code(folder, config["position_encoding"])


def write_code(folder: str, position_encoding: str) -> None:
    """Write what the Auto classes of transformers load for a TUPE model."""
    configuration, modeling = (os.path.join(folder, name) for name in CODE)
    shutil.copyfile(os.path.join(os.path.dirname(__file__), CODE[0]), configuration)
    with open(modeling, "w", encoding="utf-8") as file:
        file.write(model_code(position_encoding))


def write_sentence_files(folder: str, pooling: str, hidden_size: int, max_length: int) -> None:
    """Write the files of sentence-transformers, in a form that embedding servers also read."""
    modules = "sentence_transformers.models"
    files = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{modules}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{modules}.Pooling"},
        ],
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden_size,
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
            "include_prompt": True,
        },
    }
    for name, content in files.items():
        write_json(os.path.join(folder, name), content)


# ---- The model card ----------------------------------------------------------------------------


def model_card(config: dict[str, Any], head: Head | None, report: dict[str, Any], **facts) -> str:
    """The text of README.md, from the template model_card.md; ``report`` is from report.json."""
    import jinja2

    template = importlib.resources.files(__package__).joinpath("model_card.md").read_text("utf-8")
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.ChainableUndefined
    )
    return environment.from_string(template).render(
        config=config,
        head=head,
        report=report,
        pipeline=head.kind.pipeline if head else "fill-mask",
        encoding=encoding(config),
        trust="" if config["model_type"] == ROBERTA else ", trust_remote_code=True",
        version=__version__,
        **facts,
    )


def encoding(config: dict[str, Any]) -> str:
    """The position encoding in words."""
    name = config.get("position_encoding", "learned")
    set_options = {option: config[option] for option in POSITION_OPTIONS if config.get(option)}
    options = [flag(k) if v is True else f"{flag(k)} {v}" for k, v in set_options.items()]
    words = ", ".join([f"the position encoding {name}", *options])
    return f"TUPE-{'R' if config.get('rel_pos') else 'A'} ({words})" if name == "tupe" else words


# ---- Tokens that dict.txt lacks -----------------------------------------------------------------


def with_unlisted(state: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """A checkpoint's tensors with ``count`` extra tokens that have the vectors of <unk>."""
    state = dict(state)
    for name in (EMBEDDING, LM_WEIGHT):
        state[name] = torch.cat([state[name], state[name][UNK].expand(count, -1)])
    bias = state[LM_HEAD + "bias"]
    state[LM_HEAD + "bias"] = torch.cat([bias, (bias[UNK] - _LESS).expand(count)])
    return state


def without_unlisted(state: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """Undo :func:`with_unlisted`."""
    names = (EMBEDDING, LM_WEIGHT, LM_HEAD + "bias")
    return {
        name: tensor[: len(tensor) - count].clone() if name in names else tensor
        for name, tensor in state.items()
    }
