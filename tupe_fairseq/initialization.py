"""BERT's initial values: N(0, 0.02), biases zero."""

import functools

from torch import nn


def draw(module: nn.Linear | nn.Embedding) -> None:
    nn.init.normal_(module.weight, std=0.02)
    if getattr(module, "bias", None) is not None:
        nn.init.zeros_(module.bias)


def initialized(module):
    """Give a Linear or an Embedding these values, now and in its ``reset_parameters``.

    Code that builds a model on the meta device resets each module, children after their parents.
    """
    module.reset_parameters = functools.partial(draw, module)
    module.reset_parameters()
    return module
