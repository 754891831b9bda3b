"""The runs of a grid: learning rates by seeds."""

import math
from dataclasses import dataclass
from typing import List, Tuple


@dataclass(frozen=True)
class Run:
    """One fine-tuning run.

    Args:
        lr (float): the peak learning rate.
        seed (int): fairseq's seed: the new head, the order of the batches, dropout.
    """

    lr: float
    seed: int

    @property
    def lr_text(self) -> str:
        """The learning rate, exact: 2e-5."""
        return repr(self.lr).replace("e-0", "e-")

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return f"lr{self.lr_text}-seed{self.seed}"


def parse_lrs(text: str) -> Tuple[float, ...]:
    """Read --lrs, numbers above 0 with commas between them, each once.

    Raises:
        ValueError: if it is anything else; the message names the flag and the bad part.
    """
    return tuple(_parse("--lrs", text, float, lambda lr: 0 < lr < math.inf, "number above 0"))


def parse_seeds(text: str) -> Tuple[int, ...]:
    """Read --seeds, whole numbers from 1 to 2^32 - 1 with commas between them, each once.

    Raises:
        ValueError: if it is anything else; the message names the flag and the bad part.
    """
    # numpy, which fairseq seeds with it, takes 32 bits
    kind = "whole number from 1 to 4294967295"
    return tuple(_parse("--seeds", text, int, lambda seed: 0 < seed < 2**32, kind))


def _parse(flag, text, convert, allowed, kind) -> List:
    values = []
    for part in text.split(","):
        try:
            value = convert(part)
        except ValueError:
            value = None
        if value is None or not allowed(value):
            raise ValueError(f"{flag} {text}: {part!r} is not a {kind}")
        if value in values:
            raise ValueError(f"{flag} {text}: {part} is listed twice")
        values.append(value)
    return values
