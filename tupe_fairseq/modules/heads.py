"""Heads on the encoder: language model, text classification, tagging. Names are fairseq's."""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.attention.base import scores_dtype
from tupe_fairseq.modules.transformer import ACTIVATIONS

logger = logging.getLogger(__name__)
#: a buffer that marks heads with mean pooling; their weights would also load into a head for <s>
POOLING_RECORD = "pooling_version"
#: a buffer with the number of the activation in ``ACTIVATIONS``; older checkpoints have none
ACTIVATION_RECORD = "activation_version"


class LMHead(nn.Module):
    """LN(activation(dense(x))) E^T + b. E is ``weight``, the word embedding, or a new matrix.

    Shape: (..., D) -> (..., V).
    """

    def __init__(self, embed_dim: int, num_symbols: int, activation_fn: str, weight=None):
        super().__init__()
        self.dense = nn.Linear(embed_dim, embed_dim)
        self.activation_fn = activation_fn
        self.layer_norm = nn.LayerNorm(embed_dim)
        self.weight = nn.Linear(embed_dim, num_symbols).weight if weight is None else weight
        self.bias = nn.Parameter(torch.zeros(num_symbols))

    def forward(self, x: Tensor, masked_tokens: Tensor | None = None) -> Tensor:
        x = x if masked_tokens is None else x[masked_tokens]
        x = self.layer_norm(ACTIVATIONS[self.activation_fn](self.dense(x)))
        fill = -len(self.bias) % 8
        # not x.dtype: on a GPU, autocast's LayerNorm returns float32
        if scores_dtype(x).itemsize > 2 or not fill:
            return F.linear(x, self.weight, self.bias)
        # fairseq's vocabularies are one above a multiple of 8; without padding the product takes
        # four times as long on an H100
        weight, bias = F.pad(self.weight, (0, 0, 0, fill)), F.pad(self.bias, (0, fill))
        return F.linear(x, weight, bias)[..., :-fill]


def _mean_of_tokens(hidden: Tensor, real: Tensor) -> Tensor:
    # not in 16 bits, where long sums would overflow
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    weights = real.unsqueeze(-1).to(dtype)
    return (hidden.to(dtype) * weights).sum(dim=1) / weights.sum(dim=1)


#: --pooling -> a function of hidden states (B, L, D) and real tokens, bool (B, L), to (B, D)
POOLINGS = {"mean": _mean_of_tokens, "cls": lambda hidden, real: hidden[:, 0]}


def activation_record(name: str) -> Tensor:
    return torch.tensor(list(ACTIVATIONS).index(name), device="cpu")


class TextHead(nn.Module):
    """out_proj(dropout(activation(dense(dropout(x))))), where x is the pooled features of a text.

    Shape: features (B, L, D), is_token bool (B, L), only needed for the mean -> (B, C).
    """

    def __init__(
        self,
        embed_dim: int,
        inner_dim: int,
        num_classes: int,
        activation_fn: str = "tanh",
        dropout: float = 0.0,
        pooling: str = "cls",
    ):
        super().__init__()
        self.dense = nn.Linear(embed_dim, inner_dim)
        self.activation_fn, self.pooling = activation_fn, pooling
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(inner_dim, num_classes)
        if pooling == "mean":
            self.register_buffer(POOLING_RECORD, torch.ones((), dtype=torch.int64))
        self.register_buffer(ACTIVATION_RECORD, activation_record(activation_fn))

    def forward(self, features: Tensor, is_token: Tensor | None = None) -> Tensor:
        x = POOLINGS[self.pooling](features, is_token).to(features.dtype)
        x = ACTIVATIONS[self.activation_fn](self.dense(self.dropout(x)))
        return self.out_proj(self.dropout(x))

    def _load_from_state_dict(self, state_dict, prefix, *args):
        own = activation_record(self.activation_fn)
        saved = list(ACTIVATIONS)[state_dict.setdefault(prefix + ACTIVATION_RECORD, own)]
        if saved != self.activation_fn:
            raise ValueError(
                f"--pooler-activation-fn is {saved} in the checkpoint and {self.activation_fn} in "
                "this model; give the checkpoint's flag"
            )
        super()._load_from_state_dict(state_dict, prefix, *args)


class TaggingHead(nn.Module):
    """out_proj(dropout(x)), as in transformers' tagging heads. Shape: (..., D) -> (..., C)."""

    def __init__(self, embed_dim: int, num_classes: int, dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)

    def forward(self, features: Tensor, is_token: Tensor | None = None) -> Tensor:
        return self.out_proj(self.dropout(features))


def sized_head(
    tensors: dict[str, Tensor], activation_fn: str, dropout: float, pooling: str
) -> TextHead | TaggingHead:
    """A newly initialized head of the kind and sizes of these tensors."""
    num_classes, embed_dim = tensors["out_proj.weight"].shape
    if "dense.weight" not in tensors:
        return TaggingHead(embed_dim, num_classes, dropout)
    inner_dim, embed_dim = tensors["dense.weight"].shape
    return TextHead(embed_dim, inner_dim, num_classes, activation_fn, dropout, pooling)


def recorded_pooling(tensors: dict[str, Tensor]) -> str:
    """The pooling that the head with these tensors was trained with."""
    return "mean" if POOLING_RECORD in tensors else "cls"


def fit_heads(model: nn.Module, state_dict: dict[str, Tensor], is_whole: bool) -> None:
    """Make the heads in a checkpoint's state dict match the heads of the model.

    A head that the model lacks is removed, or registered with ``load_checkpoint_heads``. A head
    that the checkpoint lacks, or has in another size or kind, keeps the model's values.
    """
    start = "classification_heads."
    saved: dict[str, dict[str, Tensor]] = {}
    for key in [key for key in state_dict if key.startswith(start)]:
        name, _, rest = key[len(start) :].partition(".")
        saved.setdefault(name, {})[rest] = state_dict.pop(key)
    for name, tensors in saved.items():
        args = model.args
        if name not in model.classification_heads and args.load_checkpoint_heads:
            options = args.pooler_activation_fn, args.pooler_dropout, args.pooling
            model.classification_heads[name] = sized_head(tensors, *options)
    own = {name: head.state_dict() for name, head in model.classification_heads.items()}
    for name, tensors in saved.items():
        if _shapes(own.get(name, {})) != _shapes(tensors):
            logger.warning(
                "the checkpoint's head %s is ignored: the model has no head of this name, kind "
                "and size",
                name,
            )
            continue
        poolings = [*map(recorded_pooling, (tensors, own[name]))]
        if poolings[0] != poolings[1] and (is_whole or poolings[0] == "mean"):
            raise ValueError(
                f"--pooling of the head {name} is {poolings[0]} in the checkpoint and "
                f"{poolings[1]} in this model; give the checkpoint's flag"
            )
        own[name] = tensors
    for name, tensors in own.items():
        state_dict.update({f"{start}{name}.{key}": value for key, value in tensors.items()})


def _shapes(head: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {key: value.shape for key, value in head.items() if not key.endswith("_version")}
