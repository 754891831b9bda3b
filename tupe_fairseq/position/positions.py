"""Positions are integers, given for each token or counted from 0."""

import numbers
from typing import Optional, Tuple, Union, cast

import torch
from torch import Tensor

#: Positions of a sequence: an integer n, at least 1, stands for 0 .. n - 1; or integers (T), or
#: (B, T) if the sequences of a batch differ.
Positions = Union[int, Tensor]

WITHOUT_FLOAT64 = ("mps",)


def as_length(positions: Positions) -> Optional[int]:
    """n for the positions 0 .. n - 1; None if each is given.

    While a computation is recorded, n may be no int: ``torch.export`` has lengths that it leaves
    open, and in ``torch.jit.trace`` n is a tensor, for which this is None, too.

    Raises:
        TypeError: if they are neither an integer nor a tensor.
        ValueError: if n is less than 1, or no position is given.
    """
    if isinstance(positions, Tensor):
        if not positions.numel():
            raise ValueError("positions are empty; a sequence has at least one token")
        return None
    if isinstance(positions, numbers.Integral) and not isinstance(positions, bool):
        positions = int(positions)
    elif type(positions).__name__ != "SymInt":
        raise TypeError(
            f"positions are a {type(positions).__name__}; expected is a tensor of integers, or an "
            "integer n for 0 .. n - 1"
        )
    if positions < 1:
        raise ValueError(f"seq_len ({positions}) must be at least 1")
    return positions


def as_tensor(positions: Positions, device: torch.device) -> Tensor:
    """Positions as an int64 tensor: differences of shorter or unsigned integers could overflow.

    Raises:
        TypeError: if they are not integers.
        ValueError: if they are neither (T) nor (B, T), or there are none.
    """
    length = as_length(positions)
    if length is not None:
        return torch.arange(length, device=device)
    assert isinstance(positions, Tensor)
    if torch.jit.is_tracing() and not positions.dim():
        return torch.arange(cast(int, positions), device=device)
    if positions.dtype == torch.bool or positions.is_floating_point() or positions.is_complex():
        raise TypeError(f"positions are {positions.dtype}; they must be integers")
    if positions.dim() not in (1, 2):
        raise ValueError(
            f"positions have the shape {tuple(positions.shape)}; expected is (T), or (B, T)"
        )
    return positions.to(device, torch.int64)


def in_float64(positions: Tensor) -> Tensor:
    """Integers as float64, on the CPU if their device has none: what is made of them moves back."""
    if positions.device.type in WITHOUT_FLOAT64:
        positions = positions.cpu()
    return positions.to(torch.float64)


def table_rows(positions: Positions, max_positions: int) -> int:
    """How many rows of a table of ``max_positions`` hold all positions.

    Raises:
        ValueError: if one is not in 0 .. max_positions - 1, or there is none.
    """
    length = as_length(positions)
    if length is not None:
        if length > max_positions:
            raise ValueError(
                f"seq_len ({length}) is not in 1 .. max_positions ({max_positions}); "
                "raise --max-positions or lower --tokens-per-sample"
            )
        return length
    assert isinstance(positions, Tensor)
    if torch.jit.is_tracing():
        return max_positions  # they may be others when it runs
    lowest, highest = (int(x) for x in torch.aminmax(positions))
    if lowest < 0 or highest >= max_positions:
        raise ValueError(
            f"position {lowest if lowest < 0 else highest} is not in 0 .. max_positions - 1 "
            f"({max_positions - 1}); raise --max-positions, or give positions within it"
        )
    return highest + 1


def relative_positions(positions_q: Positions, positions_k: Positions, device) -> Tensor:
    """Key position minus query position: (Tq, Tk), or (B, Tq, Tk) if one of them is (B, T)."""
    q, k = as_tensor(positions_q, device), as_tensor(positions_k, device)
    return k.unsqueeze(-2) - q.unsqueeze(-1)


def distinct_relative_positions(
    positions_q: Positions, positions_k: Positions, device
) -> Tuple[Tensor, Tensor]:
    """The relative positions that occur, and the index of each pair's.

    What depends on the relative position alone is computed for few values, not for every pair.

    Shape:
        (N), and indices into it, int64 (Tq, Tk) or (B, Tq, Tk).
    """
    num_queries, num_keys = as_length(positions_q), as_length(positions_k)
    if num_queries is not None and num_keys is not None:
        distinct = torch.arange(1 - num_queries, num_keys, device=device)
        index = relative_positions(num_queries, num_keys, device) + (num_queries - 1)
        return distinct, index
    return torch.unique(relative_positions(positions_q, positions_k, device), return_inverse=True)
