"""A new LM head for an encoder that was saved without one, as RoBERTa initializes it."""

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.state_dict import EMBEDDING

_LM_HEAD = "encoder.lm_head."
_SPREAD = 0.02  # of RoBERTa's initial weights
_SEED = 1  # the same folder becomes the same checkpoint


def lacks_lm_head(model: dict[str, Tensor]) -> bool:
    """Whether a state dict has no LM head, but for the word embedding that it may be tied to."""
    return not any(name.startswith(_LM_HEAD) and name != f"{_LM_HEAD}weight" for name in model)


def with_lm_head(model: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with an LM head: its own, or a new one whose matrix is the word embedding.

    Args:
        model (dict): the state dict of a tupe_roberta checkpoint; unchanged.
    """
    embedding = model.get(EMBEDDING)
    if embedding is None or embedding.dim() != 2 or not lacks_lm_head(model):
        return model
    words, dim = embedding.shape
    generator = torch.Generator().manual_seed(_SEED)
    new = {
        "weight": embedding,
        "bias": torch.zeros(words),
        "dense.weight": torch.empty(dim, dim).normal_(0, _SPREAD, generator=generator),
        "dense.bias": torch.zeros(dim),
        "layer_norm.weight": torch.ones(dim),
        "layer_norm.bias": torch.zeros(dim),
    }
    return {**{_LM_HEAD + name: tensor for name, tensor in new.items()}, **model}
