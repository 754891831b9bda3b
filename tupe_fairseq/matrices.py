"""Marks the weights that are matrices of layers, which --optimizer muon updates as such."""

from torch import Tensor


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


def mark_matrices(*weights: Tensor, stacked: int = 1) -> None:
    """Mark weights; each has ``stacked`` matrices, one below the other."""
    for weight in weights:
        weight.param_group = Matrices(stacked)  # type: ignore[attr-defined]


def stacked_matrices(weight: Tensor) -> int:
    """The number of matrices in a marked weight; 0 for all others."""
    return getattr(getattr(weight, "param_group", None), "number", 0)
