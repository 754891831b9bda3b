"""Draws the rows that are put aside from the training set to validate with."""

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence


def put_aside(
    strata: Sequence[Hashable], labels: Sequence[tuple[str, ...]], share: float, seed: int
) -> set[int]:
    """Draw a share of the rows, as evenly as possible from each stratum.

    A row stays if it has a label that no other row would have that stays, so a few less may be
    drawn.  The same rows give the same draw on every machine.

    Args:
        strata (sequence): of each row, what is to be as frequent in the draw as in all rows.
        labels (sequence of tuples of str): all labels of each row.
        share (float): of the rows, above 0 and below 1.
        seed (int): of the draw.
    Returns:
        set of int: the rows drawn, by their places.
    """
    draw = random.Random(seed)
    members: dict[Hashable, list[int]] = defaultdict(list)
    for row, stratum in enumerate(strata):
        members[stratum].append(row)
    # the strata in the order in which they begin
    quotas = {stratum: share * len(rows) for stratum, rows in members.items()}
    sizes = {stratum: int(quota) for stratum, quota in quotas.items()}
    # a tie is decided at random: there may be more strata of one row than rows to draw
    rest = sorted(quotas, key=lambda s: (sizes[s] - quotas[s], draw.random()))
    for stratum in rest[: max(0, round(share * len(strata)) - sum(sizes.values()))]:
        sizes[stratum] += 1
    drawn = {row for s, rows in members.items() for row in draw.sample(rows, sizes[s])}
    left = Counter(label for one in labels for label in one)
    for row in drawn:
        left.subtract(labels[row])
    for row in sorted(drawn):
        if any(not left[label] for label in labels[row]):
            drawn.remove(row)
            left.update(labels[row])
    return drawn
