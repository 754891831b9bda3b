"""The head for tags of words, and how it comes out of a checkpoint."""

import logging
from typing import Dict

from torch import Tensor, nn

logger = logging.getLogger(__name__)

_HEADS = "classification_heads."


class TokenTaggingHead(nn.Module):
    """out_proj(dropout(x)), as transformers' classes for tags of tokens have it.

    Args:
        embed_dim (int): D, the width of the model.
        num_classes (int): C, the number of tags.
        dropout (float): probability.
    Shape:
        (..., D) -> (..., C).
    """

    def __init__(self, embed_dim: int, num_classes: int, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)

    def forward(self, features: Tensor) -> Tensor:
        return self.out_proj(self.dropout(features))


def take_tagging_heads(model: nn.Module, state_dict: Dict[str, Tensor], prefix: str):
    """Take the heads for tags out of a state dict, which fairseq expects to be its own.

    A head that the model does not have is made if ``load_checkpoint_heads`` is set, and otherwise
    left out, as fairseq does; so is one of another kind or size.

    Args:
        model (TupeRobertaModel): whose heads are looked at.
        state_dict (dict): is edited: none is left in it, nor a head of fairseq's in whose place the
            model has one for tags.
        prefix (str): what the names of the model's tensors begin with.
    Returns:
        dict: the tensors of those that fit the model.
    """
    names = {key[len(prefix + _HEADS) :].split(".")[0] for key in _of_heads(state_dict, prefix)}
    taken = {}
    for name in sorted(names):
        start = f"{prefix}{_HEADS}{name}."
        is_tagging = f"{start}dense.weight" not in state_dict
        if is_tagging and f"{start}out_proj.weight" not in state_dict:
            continue  # of no kind: fairseq refuses it
        heads = model.classification_heads
        if is_tagging and name not in heads and getattr(model.args, "load_checkpoint_heads", False):
            model.register_tagging_head(name, state_dict[f"{start}out_proj.weight"].size(0))
        own = heads[name] if name in heads else None
        if not is_tagging and not isinstance(own, TokenTaggingHead):
            continue  # fairseq's own
        found = {key: state_dict.pop(key) for key in _of_heads(state_dict, start, "")}
        tensors = {} if own is None else own.state_dict(prefix=start)
        if _shapes(tensors) == _shapes(found):
            taken.update(found)
        else:
            logger.warning(
                "left out the checkpoint's head %s: the model has %s", name,
                "none of this name" if own is None else "one of another kind or size",
            )  # fmt: skip
    return taken


def _shapes(tensors):
    return {key: tensor.shape for key, tensor in tensors.items()}


def _of_heads(state_dict, prefix, heads=_HEADS):
    return [key for key in state_dict if key.startswith(prefix + heads)]
