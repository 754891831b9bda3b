"""Activation functions by name; the names are fairseq's."""

import functools

import torch
import torch.nn.functional as F


def _identity(x):
    return x


ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_accurate": functools.partial(F.gelu, approximate="tanh"),
    "linear": _identity,
    "relu": F.relu,
    "tanh": torch.tanh,
}


def get_activation_fn(name: str):
    """The function from tensor to tensor of that name.

    Raises:
        ValueError: if there is none; the message lists the known names.
    """
    if name not in ACTIVATIONS:
        raise ValueError(
            f"unknown activation function {name!r}; --activation-fn is one of "
            + ", ".join(sorted(ACTIVATIONS))
        )
    return ACTIVATIONS[name]
