"""Loads a fine-tuned encoder and its head; needs torch alone, and runs no code of the file."""

from typing import Any, NamedTuple

from torch import Tensor, nn

from tupe_fairseq.checkpoint.allowed_options import own_options
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, loading, read
from tupe_fairseq.checkpoint.state_dict import POOLING, classification_heads
from tupe_fairseq.files.names import CLS, MEAN
from tupe_fairseq.inference.load_model import (
    WordEncoder,
    build_encoder,
    check_vocabulary,
    symbols_in,
)
from tupe_fairseq.labelled.trained_kind import trained_kind
from tupe_fairseq.modules.pooling import POOLINGS
from tupe_fairseq.modules.tupe_encoder_layer import ACTIVATIONS


class TaskHead(nn.Module):
    """out_proj(activation(dense(x))) of each text, x = the pooled hidden states.

    A head that has no other layer than out_proj gives it for each token.

    Args:
        tensors (dict): the head's part of a state dict.
        activation (str): the name of the activation function.
        pooling (str): one of ``POOLINGS``.
    Shape:
        hidden states (B, L, D), which tokens are real, bool (B, L) -> (B, C), or (B, L, C).
    Raises:
        KeyError, RuntimeError, ValueError: if they do not make a head, or were trained with
            another pooling.
    """

    def __init__(self, tensors: dict[str, Tensor], activation: str, pooling: str):
        super().__init__()
        self.dense: nn.Linear | None = None
        if "dense.weight" in tensors:
            inner, width = tensors["dense.weight"].shape
            self.dense = nn.Linear(width, inner)
        outputs, inner = tensors["out_proj.weight"].shape
        self.out_proj = nn.Linear(inner, outputs)
        self._activation = ACTIVATIONS[activation]
        self._pool = POOLINGS[pooling]
        recorded = MEAN if POOLING in tensors else CLS
        if recorded != pooling:
            raise ValueError(f"pooling is {pooling} in its options and {recorded} in its head")
        self.load_state_dict({name: x for name, x in tensors.items() if name != POOLING})

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        if self.dense is None:
            return self.out_proj(hidden)
        x = self._pool(hidden, real).to(hidden.dtype)
        return self.out_proj(self._activation(self.dense(x)))


class FineTuned(NamedTuple):
    """A checkpoint that predicts labels.

    Args:
        encoder (WordEncoder): in evaluation mode on the CPU, float32.
        head (TaskHead): its head.
        kind (str): one of :data:`tupe_fairseq.labelled.task_description.KINDS`.
        outputs (int): of the head.
        symbols (list of str): those of its dictionary in order, ``<mask>`` included.
    """

    encoder: WordEncoder
    head: TaskHead
    kind: str
    outputs: int
    symbols: list[str]


def load_fine_tuned(path: str, dictionary: str) -> FineTuned:
    """Read a fine-tuned checkpoint.

    Args:
        path (str): the file.
        dictionary (str): its dict.txt.
    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it is refused, damaged, of another model, or has no head, or several.
        ValueError: if dict.txt is not the checkpoint's.
    """
    checkpoint = read(path)
    tensors = checkpoint.tensors
    options = own_options(checkpoint.options, tensors, path)
    name, outputs = _head(options, tensors, path)
    symbols = symbols_in(dictionary)
    prefix = f"classification_heads.{name}."
    own = {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
    with loading(path):
        check_vocabulary(tensors, symbols)
        encoder = build_encoder(options, tensors, len(symbols))
        activation = options.get("pooler_activation_fn", "tanh")
        pooling = options.get("pooling", CLS)
        head = TaskHead(own, activation, pooling)
    return FineTuned(encoder, head.eval(), trained_kind(options), outputs, symbols)


def _head(options: dict[str, Any], tensors: dict[str, Tensor], path: str):
    """Name and outputs of the head."""
    heads = classification_heads(tensors)
    if not heads:
        raise CheckpointError(
            f"{path} has no classification head: it is pre-trained only; fine-tune it first "
            "(tupe-finetune)"
        )
    name = options.get("classification_head_name")
    if name not in heads:
        if len(heads) > 1:
            raise CheckpointError(
                f"{path} has {len(heads)} classification heads, {', '.join(sorted(heads))}, and "
                "does not say which was trained last"
            )
        (name,) = heads
    return name, heads[name]
