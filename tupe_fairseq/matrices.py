"""Marks the weights that are matrices of layers, which --optimizer muon updates as such."""

from torch import Tensor, nn


class Matrices(str):
    """fairseq's name of a parameter's group: "default", as that of all others.

    An optimizer of fairseq gets parameters without their names, with 16 bits float32 copies of
    them, to which fairseq copies this attribute and none of ours. So ``composite`` sees no
    difference, and ``number``, of matrices that are stacked in the weight, is for muon alone.
    """

    number: int

    def __new__(cls, number: int):
        group = super().__new__(cls, "default")
        group.number = number
        return group


def mark_matrices(*modules: nn.Module | None) -> None:
    """Mark the weights of all linear maps within these modules."""
    parts = (part for module in modules if module is not None for part in module.modules())
    for part in parts:
        if isinstance(part, nn.Linear):
            part.weight.param_group = Matrices(1)  # type: ignore[assignment]
        elif isinstance(weight := getattr(part, "in_proj_weight", None), Tensor):
            weight.param_group = Matrices(3)  # type: ignore[attr-defined]


def stacked_matrices(weight: Tensor) -> int:
    """The number of matrices in a marked weight; 0 for all others."""
    return getattr(getattr(weight, "param_group", None), "number", 0)
