"""Converts a foreign checkpoint into one of this project."""

import argparse
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint import from_authors, from_roberta
from tupe_fairseq.checkpoint.allowed_options import check_sizes, in_brief
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, check_finite
from tupe_fairseq.checkpoint.state_dict import POOLING, classification_heads
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, CLS, MEAN
from tupe_fairseq.options import TupeConfig

#: the file that tupe-convert and tupe-extend write
MODEL = "model.pt"


def converter_of(options: dict[str, Any], own: ModuleType | None = None) -> ModuleType:
    """The module that converts the checkpoints of the code that wrote these options.

    It has ``NAME``, ``HIDDEN_SYMBOLS``, ``convert_options`` and ``rename_tensors``.

    Args:
        options (dict): those of the file.
        own (module, optional): what converts this project's own; None refuses them.
    Raises:
        CheckpointError: if the architecture is one of this project, or unknown.
    """
    arch = options.get("arch")
    if not isinstance(arch, str):
        raise CheckpointError(f"the checkpoint's arch is {in_brief(arch)}, not a name")
    if arch.startswith("bert"):
        return from_authors
    if arch.startswith("roberta") or arch == "xlm":  # stock fairseq's xlm is a size of RoBERTa
        return from_roberta
    if arch.startswith("tupe_roberta"):
        if own is not None:
            return own
        raise CheckpointError(
            f"the checkpoint's arch is {in_brief(arch)}, one of this project's; use it without "
            "converting, or make TUPE of a learned one with --untie"
        )
    raise CheckpointError(
        f"the checkpoint's arch is {in_brief(arch)}, neither one of the TUPE authors' bert_* nor a "
        "stock fairseq roberta_*"
    )


def convert_dictionary(lines: list[str], path: str, hidden: Sequence[str] = ()) -> list[str]:
    """The dict.txt with which stock fairseq gives every word its old id.

    Args:
        lines (list of str): their dict.txt.
        path (str): its name, for messages.
        hidden (sequence of str): the symbols that their code has after fairseq's four without
            listing them in dict.txt; none in stock fairseq, whose file is right as it is.
    Raises:
        CheckpointError: if a line is not "symbol count", or a symbol is a built-in one or listed
            twice.
    """
    seen = {*BUILT_IN_SYMBOLS, *hidden}
    for number, line in enumerate(lines, 1):
        symbol, _, count = line.rpartition(" ")
        if not symbol or not count.isdigit():
            raise CheckpointError(f"{path}, line {number}: {line!r} is not 'symbol count'")
        if symbol in seen:
            raise CheckpointError(f"{path}, line {number}: {symbol!r} is built in or listed twice")
        seen.add(symbol)
    return [f"{symbol} 0" for symbol in hidden] + lines


def _expected_shapes(
    args: argparse.Namespace, vocab_size: int, heads: dict[str, int], encoder: TupeEncoder
) -> dict[str, list[int]]:
    """Names and shapes of a whole tupe_roberta state dict."""
    dim = args.encoder_embed_dim
    prefix = "encoder.sentence_encoder."
    shapes = {prefix + name: list(tensor.shape) for name, tensor in encoder.state_dict().items()}
    shapes[prefix + "embed_tokens.weight"] = [vocab_size, dim]
    shapes["encoder.lm_head.weight"] = [vocab_size, dim]
    shapes["encoder.lm_head.bias"] = [vocab_size]
    shapes["encoder.lm_head.dense.weight"] = [dim, dim]
    for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias"):
        shapes["encoder.lm_head." + name] = [dim]
    name = getattr(args, "classification_head_name", None)
    of_words = f"classification_heads.{name}." if args.task == "token_tagging" else None
    for head, num_classes in heads.items():
        if head != of_words:
            shapes[head + "dense.weight"] = [dim, dim]
            shapes[head + "dense.bias"] = [dim]
            if getattr(args, "pooling", CLS) == MEAN:
                shapes[head + POOLING] = []
        shapes[head + "out_proj.weight"] = [num_classes, dim]
        shapes[head + "out_proj.bias"] = [num_classes]
    return shapes


def convert_tensors(
    renamed: dict[str, Tensor],
    args: argparse.Namespace,
    vocab_size: int,
) -> dict[str, Tensor]:
    """The state dict of tupe_roberta that computes the same numbers, in float32.

    Args:
        renamed (dict): the foreign state dict, as :func:`tensors_in` gives it, under our names.
        args (Namespace): the converted options.
        vocab_size (int): symbols of the converted dictionary, ``<mask>`` included.
    Raises:
        CheckpointError: if the dictionary is of another size; if a tensor is missing,
            superfluous or of another shape, each named; or if the LM head is not tied to the word
            embedding and ``args`` says that it is.
    """
    model = {name: tensor.float() for name, tensor in renamed.items()}
    embedding = model.get("encoder.sentence_encoder.embed_tokens.weight")
    if embedding is not None and embedding.size(0) != vocab_size:
        raise CheckpointError(
            f"the word embedding has {embedding.size(0)} rows, and the dictionary with its "
            f"built-in symbols and <mask> {vocab_size}; give the --dict of this checkpoint"
        )
    check_sizes(vars(args), model, "the checkpoint")
    check_finite(model, "the checkpoint")
    encoder = TupeEncoder(TupeConfig.from_roberta_options(args))
    version = "encoder.sentence_encoder.position_version"
    model[version] = encoder.position_version
    heads = {f"classification_heads.{k}.": n for k, n in classification_heads(model).items()}
    if getattr(args, "pooling", CLS) == MEAN:
        model.update({head + POOLING: torch.ones((), dtype=torch.int64) for head in heads})
    expected = _expected_shapes(args, vocab_size, heads, encoder)
    problems = [f"missing {name}" for name in sorted(set(expected) - set(model))]
    problems += [f"unexpected {name}" for name in sorted(set(model) - set(expected))]
    problems += [
        f"{name} is {list(model[name].shape)}, not {shape}"
        for name, shape in sorted(expected.items())
        if name in model and list(model[name].shape) != shape
    ]
    if problems:
        raise CheckpointError(f"{len(problems)} tensors are wrong: " + "; ".join(problems))
    untied = getattr(args, "untie_weights_roberta", False)
    if not untied and not model["encoder.lm_head.weight"].equal(embedding):
        raise CheckpointError("lm_head.weight is not the word embedding, to which it must be tied")
    return model


def fine_tuning_options(
    options: argparse.Namespace,
    head: str,
    num_classes: int,
    task: str = "sentence_prediction",
    **switches: bool,
) -> argparse.Namespace:
    """The options with which fairseq's task of a fine-tuned head is set up again.

    Args:
        options (Namespace): of the model, for pre-training.
        head (str): the name of the head to go on with.
        num_classes (int): of the head.
        task (str): the name of the task, which its criterion has, too.
        switches (bool): other options of the task.
    """
    fine_tuning = {"task": task, "criterion": task, "classification_head_name": head}
    fine_tuning.update(num_classes=num_classes, init_token=0, separator_token=2)
    # left out, fairseq would take it for True
    fine_tuning["regression_target"] = False
    return argparse.Namespace(**{**vars(options), **fine_tuning, **switches})


def new_state(model: dict[str, Tensor], args: argparse.Namespace) -> dict[str, Any]:
    """A checkpoint with a new training state: epoch 1, update 0, no optimizer state.

    Args:
        model (dict): converted tensors.
        args (Namespace): converted options.
    """
    return {
        "args": args,
        "model": model,
        "optimizer_history": [
            {
                "criterion_name": "",
                "optimizer_name": "",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True}},
        "last_optimizer_state": None,
    }
