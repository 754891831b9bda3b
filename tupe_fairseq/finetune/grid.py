"""The runs of a grid: learning rates by seeds."""

import math
from dataclasses import dataclass
from typing import Tuple

from tupe_fairseq.training.seeds import parse_numbers


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
    return tuple(
        parse_numbers("--lrs", text, float, lambda lr: 0 < lr < math.inf, "number above 0")
    )
