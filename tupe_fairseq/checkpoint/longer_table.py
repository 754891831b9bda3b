"""A trained table of positions for longer sequences."""

import torch
from torch import Tensor

from tupe_fairseq.position import PositionEncoding


def longer_table(position: PositionEncoding, max_positions: int, method: str) -> Tensor:
    """The table of an encoding, with rows for positions up to ``max_positions`` - 1.

    The rows of [CLS] stay as they are: position 0's, and tupe's row before it.  Of the others,
    1 .. M - 1 of the trained table, ``tile`` repeats all in order, and ``zero`` keeps them and adds
    zeros.  ``interpolate`` spreads them evenly over 1 .. N - 1, first and last included, and is
    linear in between: position i is old position 1 + (i - 1) (M - 2) / (N - 2).

    A layer norm follows the tables of tupe and disentangled and makes one vector, its bias, of
    every row of zeros: new positions cannot be told apart until they are trained.

    Args:
        position (PositionEncoding): with a table (``TABLE``) for M = ``position.max_positions``.
        max_positions (int): the new number of positions, N, above M.
        method (str): one of ``TABLE_METHODS``.
    Returns:
        Tensor: (rows, D), rows being N, for tupe N + 1; dtype and device of the table.
    Raises:
        ValueError: if the table has no row to make others of.
    """
    assert position.TABLE is not None and max_positions > position.max_positions
    table = position.get_parameter(position.TABLE).detach()
    # tupe's table has a row more than positions
    of_cls = table.size(0) - position.max_positions + 1
    cls, others = table[:of_cls], table[of_cls:]
    number = max_positions - 1
    if method == "zero":
        added = others.new_zeros(number - len(others), others.size(1))
        return torch.cat([cls, others, added])
    if not len(others):
        raise ValueError(
            f"a table of max_positions ({position.max_positions}) has no position after [CLS] of "
            f"which --method {method} could make others; use --method zero"
        )
    if method == "tile":
        return torch.cat([cls, others[torch.arange(number) % len(others)]])
    # in float64, and exact at the old rows
    places = torch.arange(number, dtype=torch.float64) * (len(others) - 1) / (number - 1)
    before = places.long().clamp(max=len(others) - 1)
    after = (before + 1).clamp(max=len(others) - 1)
    share = (places - before).unsqueeze(1)
    mixed = (1 - share) * others[before].double() + share * others[after].double()
    return torch.cat([cls, mixed.to(others.dtype)])
