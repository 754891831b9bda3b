"""Loads a trained model with torch alone; no code of the file runs."""

import functools
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tupe_fairseq.checkpoint.checkpoint import (
    ENCODER,
    LM_HEAD,
    CheckpointError,
    classification_heads,
    loading,
    symbols_of,
)
from tupe_fairseq.checkpoint.model import read_model
from tupe_fairseq.data.dictionary import UNK
from tupe_fairseq.data.task import trained_kind
from tupe_fairseq.data.tokenizer import Tokenizer, find_dictionary
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.modules.heads import LMHead, TaggingHead, TextHead, recorded_pooling, sized_head
from tupe_fairseq.options import TupeConfig


class TrainedModel:
    """The encoder of a checkpoint, and its heads, which are built when they are first used.

    The checkpoint is ours, or one of fairseq's RoBERTa or the TUPE authors, which is converted as
    by tupe-convert. Everything is float32, on the CPU and in evaluation mode.

    Args:
        folders: the first one with a dict.txt must have the checkpoint's.
    Attributes:
        encoder: has its word embedding, ``embed_tokens``.
        symbols: the symbols of ``dictionary``, its dict.txt, and ``<mask>``.
        heads: the classification heads: name to number of outputs.
        origin: the program that wrote the file, in words; "" for this project.
    """

    def __init__(self, path: str, *folders: str):
        self.path, self.dictionary = path, find_dictionary(folders)
        model = read_model(path, self.dictionary)
        self.options, self.origin = vars(model.options), model.origin
        self.symbols = symbols_of(model.lines)
        self._tensors = {k: x for k, x in model.tensors.items() if not k.startswith(ENCODER)}
        self.heads = classification_heads(self._tensors)
        with loading(path):
            config = TupeConfig.from_roberta_options(model.options)
            self.encoder = TupeEncoder(config)
            self.encoder.embed_tokens = nn.Embedding(len(self.symbols), config.embed_dim)
            self.encoder.load_state_dict(_part(model.tensors, ENCODER))
        self.encoder.eval()

    @property
    def max_positions(self) -> int:
        """The length of its longest sequence, ``<s>`` and ``</s>`` included."""
        return self.encoder.config.max_positions

    @functools.cached_property
    def lm_head(self) -> LMHead:
        tensors = _part(self._tensors, LM_HEAD)
        if "weight" not in tensors:
            raise CheckpointError(f"{self.path} has no LM head, which predicts masked tokens")
        # tensors that are made in inference mode cannot be changed later
        with torch.inference_mode(False), loading(self.path):
            weight = nn.Parameter(tensors["weight"].float())
            head = LMHead(*reversed(weight.shape), self.encoder.config.activation_fn, weight)
            head.load_state_dict(tensors)
            return head.eval()

    def masked_logits(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The LM head's logits at some positions.

        Shape: tokens without padding, int64 (B, L); positions int64 (B, P) -> (B, P, V).
        """
        x = self.encoder(self.encoder.embed_tokens(tokens))
        x = x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.size(2)))
        return self.lm_head(x)

    @property
    def kind(self) -> str:
        """What it was fine-tuned for, one of ``data.task.KINDS``."""
        return trained_kind(self.options)

    @functools.cached_property
    def head(self) -> TextHead | TaggingHead:
        """The head that was trained last."""
        name = trained_head(self.heads, self.options.get("classification_head_name"), self.path)
        with torch.inference_mode(False), loading(self.path):
            tensors = _part(self._tensors, f"classification_heads.{name}.")
            recorded = recorded_pooling(tensors)
            pooling = self.options.get("pooling", "cls")
            if recorded != pooling:
                raise ValueError(f"pooling is {pooling} in its options and {recorded} in its head")
            activation_fn = self.options.get("pooler_activation_fn", "tanh")
            head = sized_head(tensors, activation_fn, 0.0, pooling)
            head.load_state_dict(tensors)
            return head.eval()


def trained_head(heads: Collection[str], name: str | None, path: str) -> str:
    """The name of the head that was trained last, or of the only one."""
    if not heads:
        raise CheckpointError(
            f"{path} has no classification head: it is pre-trained only; fine-tune it first "
            "(tupe-finetune)"
        )
    if name not in heads and len(heads) > 1:
        raise CheckpointError(
            f"{path} has {len(heads)} classification heads, {', '.join(sorted(heads))}, and does "
            "not say which was trained last"
        )
    return name if name in heads else next(iter(heads))


def load_with_tokenizer(
    path: str, folders: Sequence[str], vocabulary: tuple[str, Sequence[str]] | None = None
) -> tuple[TrainedModel, Tokenizer]:
    """A model and its tokenizer, from the folders or from ``vocabulary``: its kind and files."""
    model = TrainedModel(path, *folders)
    tokenizer = Tokenizer.load(folders, vocabulary)
    if model.origin:  # the authors' code has symbols that dict.txt does not list
        ids = {word: number for number, word in enumerate(model.symbols)}
        tokenizer.ids.update((word, ids[word]) for word, i in tokenizer.ids.items() if i != UNK)
    return model, tokenizer


def _part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: x for name, x in tensors.items() if name.startswith(prefix)}
