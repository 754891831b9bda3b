"""``TupeRobertaModel.from_pretrained``: loads a model from a file that may be untrusted.

fairseq's own loader builds whatever architecture and task a file names, and evaluates some of its
options. Here the file only sets sizes and switches, whose values are checked.
"""

import argparse
import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.data import encoders
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.roberta.hub_interface import RobertaHubInterface
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from fairseq.utils import import_user_module, model_eval, safe_getattr
from omegaconf import OmegaConf
from torch import Tensor

import tupe_fairseq
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, loading
from tupe_fairseq.checkpoint.find import find_checkpoint
from tupe_fairseq.checkpoint.model import Model, trained_head
from tupe_fairseq.data.dictionary import MASK
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.inference.bpe import TokenizedBpe, chosen_bpe, pop_options
from tupe_fairseq.inference.position_terms import PositionTerms, terms_by_layer
from tupe_fairseq.inference.texts import logits_of_tokens
from tupe_fairseq.kinds import kind_of_options, switches
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.options import FIXED_OPTIONS, RobertaOptions, check_names, fairseq_name

# options that fairseq's tasks take from other parts of a training config
FROM_OTHER_PARTS = {
    "classification_head_name": "",
    "seed": 1,
    "train_subset": "train",
}


def from_pretrained(
    folder: str,
    checkpoint_file: str,
    data: str,
    *,
    bpe: str | None = None,
    tokenizer: str | None = None,
    user_dir: str | None = None,
    **overrides: Any,
) -> "TupeRobertaHub":
    """fairseq's hub interface for a checkpoint of tupe_roberta.

    Args:
        folder: the checkpoint's folder.
        checkpoint_file: the file's name; for fairseq's default, model.pt, see ``find_checkpoint``.
        data: the folder with dict.txt; relative to ``folder`` if it begins with a dot.
        bpe: fairseq's --bpe, with its options, such as sentencepiece_model; files that are not
            given are those of ``data`` and ``folder``. By default it is the vocabulary that these
            folders have, and nothing is downloaded.
        tokenizer: fairseq's --tokenizer, with its options, which goes before the bpe.
        overrides: options that replace the file's.
    Raises:
        OSError, ValueError: if something is missing, refused, or does not fit.
    """
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder} is not a folder; give the folder of a checkpoint")
    if user_dir is not None:
        import_user_module(argparse.Namespace(user_dir=user_dir))
    requested = os.path.join(folder, checkpoint_file)
    path = find_checkpoint(requested)
    if path != requested:  # such as the best run's, if the folder is a task's
        folder = os.path.dirname(path)
    data = os.path.abspath(os.path.join(folder, data)) if data.startswith(".") else data
    names = {"tokenizer": tokenizer, "bpe": bpe}
    options = pop_options(names, overrides, [data, folder])
    model, task = load_model(path, data, **overrides)
    config = argparse.Namespace(bpe=None, task=task.cfg, model=model.args)
    hub = TupeRobertaHub(config, task, model)
    hub.folders = [data, folder]
    hub.bpe = chosen_bpe(bpe, options["bpe"], hub.folders)
    if tokenizer is not None:
        words = encoders.build_tokenizer(argparse.Namespace(**names, **options["tokenizer"]))
        hub.bpe = TokenizedBpe(words, hub.bpe)
    # these keep words apart by spaces, which their tokens do not have
    hub.joins_words = bpe not in ("bert", "fastbpe", "subword_nmt")
    return hub


def load_model(path: str, data: str, **overrides: Any):
    """Build a checkpoint's model and task from nothing but checked options and finite tensors."""
    tupe_fairseq.register()
    saved = Model.read(path, overrides=overrides)
    options = {**vars(saved.options), "data": data, "load_checkpoint_heads": True, **overrides}
    if options["arch"] not in ARCH_CONFIG_REGISTRY:
        raise CheckpointError(f"{path} is refused: there is no --arch {options['arch']}")
    of_model = (fairseq_name(option.name) for option in dataclasses.fields(RobertaOptions))
    more = "load_checkpoint_heads", *FIXED_OPTIONS
    check_overrides(overrides, options["task"], {*of_model, *more})
    return build(path, options, saved.tensors)


def check_overrides(overrides: Mapping[str, Any], task: str, of_model: Set[str]) -> None:
    """Refuse unknown options of ``from_pretrained``."""
    of_task = (option.name for option in dataclasses.fields(TASK_DATACLASS_REGISTRY[task]))
    check_names(overrides, "from_pretrained", {*of_model, *of_task, "arch", "task"})


def build(path: str, options: dict[str, Any], tensors: dict[str, Tensor], task: Any = None):
    """The model, and its task if it is not given, of what was read from a file and checked."""
    name = options["task"]
    defaults = TASK_DATACLASS_REGISTRY[name]()
    values = {**FROM_OTHER_PARTS, **options, "_name": name}
    values = {key: value for key, value in values.items() if hasattr(defaults, key)}
    with loading(path):
        config = OmegaConf.merge(OmegaConf.structured(defaults), values)
        task = task or TASK_REGISTRY[name].setup_task(config)
        model = task.build_model(argparse.Namespace(**{**options, "_name": options["arch"]}))
        model.load_state_dict(tensors)
    return model, task


class TupeRobertaHub(RobertaHubInterface):
    """fairseq's hub interface, with predictions for texts, position bias and attention weights.

    ``folders`` hold the vocabulary and the report.json of the data.
    """

    folders: Sequence[str] = ()
    joins_words = True

    def predict_texts(
        self, texts: Sequence[str | Sequence[str]], all_probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """What a fine-tuned model predicts for texts, as ``tupe-predict`` does.

        Args:
            texts: one text or several; pairs if the model takes pairs; lists of words for tagging.
            all_probabilities: also return, under this name, the probability of each label.
        Returns:
            For each text: label and probability; score; labels and probabilities; or tags.
        """
        if self.training:
            raise ValueError("dropout is on, so predictions differ at each call; call eval() first")
        options = {name: safe_getattr(self.task.cfg, name) for name in switches()}
        kind = kind_of_options({**options, "task": safe_getattr(self.task.cfg, "_name")})
        head, task = self._head(), Task.load(*self.folders)
        task.check_model("the checkpoint", kind, head.out_proj.out_features)
        texts = _list([texts] if isinstance(texts, str) else texts)
        if task.kind.of_words and any(isinstance(text, str) for text in texts):
            raise ValueError('the model takes lists of words, such as [["Ann", "left"]]')
        rows = [_list([text] if isinstance(text, str) else text) for text in texts]
        for row in rows:
            if not all(isinstance(text, str) for text in row):
                raise ValueError(f"{row!r:.80} must contain only texts")
            if task.kind.of_words and "" in row:
                raise ValueError(f"{row!r:.80} has an empty word")
            if not task.kind.of_words and len(row) != task.texts:
                raise ValueError(f"the model takes {task.texts} texts at a time, not {len(row)}")
        if all_probabilities and not task.labels:
            raise ValueError(f"{task.kind.name} has no probabilities; drop all_probabilities")
        encoder = self.model.encoder.sentence_encoder
        tokens = self._tokenizer.encode_rows(rows, task.kind.of_words)
        logits = logits_of_tokens(tokens, task, encoder, head)
        return [task.kind.predict(x, task, all_probabilities) for x in logits]

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.folders)

    def encode(self, sentence: str, *addl_sentences: str, no_separator: bool = False) -> Tensor:
        """As in fairseq."""
        for text in (sentence, *addl_sentences):
            if not isinstance(text, str):
                raise ValueError(f"{text!r:.80} is a {type(text).__name__}; give a text")
        self._need_bpe()
        return super().encode(sentence, *addl_sentences, no_separator=no_separator)

    def _need_bpe(self) -> None:
        if self.bpe is None:
            Tokenizer.load(self.folders)  # says what is missing

    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """As in fairseq, but a likely ``</s>`` does not shift the probabilities of later tokens."""
        if topk < 1:
            raise ValueError(f"topk ({topk}) must be 1 or more")
        if masked_input.count(MASK) != 1:
            raise ValueError(f"{masked_input!r} must contain one {MASK}")
        self._need_bpe()
        dictionary = self.task.source_dictionary
        before, after = (self.bpe.encode(text.rstrip()) for text in masked_input.split(MASK))
        line = f"<s> {before} {MASK} {after} </s>"
        tokens = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).long()
        self._check_length(tokens)
        with model_eval(self.model), torch.no_grad():
            logits, _ = self.model(tokens[None].to(self.device), features_only=False)
        probabilities = logits[0, tokens == dictionary.index(MASK)][0].softmax(dim=0)
        filled = []
        for index in probabilities.argsort(descending=True).tolist():
            if index not in (dictionary.bos(), dictionary.pad(), dictionary.eos()):
                token = dictionary[index]
                # decode drops the space before a word
                starts_word = token.startswith("\u2581") or not self.joins_words
                text = " " * starts_word + self.bpe.decode(token)
                place = f" {MASK}" if f" {MASK}" in masked_input else MASK
                probability = probabilities[index].item()
                filled.append((masked_input.replace(place, text), probability, text))
            if len(filled) == topk:
                break
        return filled

    def _head(self):
        heads = self.model.classification_heads
        name = safe_getattr(self.task.cfg, "classification_head_name")
        return heads[trained_head(heads, name, "the checkpoint")]

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """As in fairseq, with the model's pooling. Shape: tokens (L) or (B, L) -> (B, C)."""
        tokens = tokens.unsqueeze(0) if tokens.dim() == 1 else tokens
        self._check_length(tokens)
        heads = self.model.classification_heads
        if head not in heads:
            raise ValueError(f"there is no head {head!r}; there is {', '.join(heads) or 'none'}")
        logits, _ = self.model(tokens.to(self.device), classification_head_name=head)
        return logits if return_logits else F.log_softmax(logits, dim=-1)

    def position_bias(self, seq_len: int, layer: int | None = None) -> PositionTerms:
        """What positions add to the attention logits: absolute, relative and sum, (H, T, T) each.
        If each layer has its own position encoding, ``layer`` selects one."""
        if seq_len < 1:
            raise ValueError(f"seq_len ({seq_len}) must be at least 1")
        by_layer = terms_by_layer(self.model.encoder.sentence_encoder, seq_len)
        if layer not in by_layer:
            wanted = "all layers share the position encoding, so leave it out"
            if None not in by_layer:
                wanted = f"each layer has its own position bias; give 0 .. {len(by_layer) - 1}"
            raise ValueError(f"layer ({layer}) is not valid: {wanted}")
        return by_layer[layer]

    def extract_features(self, tokens, return_all_hiddens=False, return_attention=False):
        """As in fairseq; with ``return_attention``, features and the attention weights by layer.

        Shape: tokens (L) or (B, L) -> weights (B, H, L, L), rows are queries; 0 at padded keys.
        """
        self._check_length(tokens)
        features = super().extract_features(tokens, return_all_hiddens)
        if not return_attention:
            return features
        encoder = self.model.encoder.sentence_encoder
        tokens = (tokens.unsqueeze(0) if tokens.dim() == 1 else tokens).to(self.device)
        padding = tokens.eq(encoder.embed_tokens.padding_idx)
        return features, encoder.attention_weights(encoder.embed_tokens(tokens), padding)

    def decode(self, tokens: Tensor) -> str | list[str]:
        """As in fairseq, also for tokens on a GPU. Takes tokens (L); for a pair returns a list."""
        if tokens.dim() != 1 or len(tokens) == 0:
            raise ValueError(f"tokens are {tuple(tokens.shape)}; give one sequence, (L)")
        self._need_bpe()
        return super().decode(tokens.cpu())

    def _check_length(self, tokens: Tensor) -> None:
        longest = self.model.max_positions()
        if tokens.size(-1) > longest:
            raise ValueError(
                f"the text has {tokens.size(-1)} tokens, <s> and </s> included, and the model "
                f"takes {longest}; shorten it, or use predict_texts or tupe-predict, which truncate"
            )


def _list(texts: Any) -> list[Any]:
    if isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
        raise ValueError(f"{texts!r:.80} is a {type(texts).__name__}; give a text, or a list")
    return list(texts)
