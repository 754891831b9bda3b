"""Sums of scores: log-likelihood, loss and pseudo-perplexity of many sentences together."""

import math
from typing import Any

from tupe_fairseq.files.markdown import markdown_table

# exp() of more is beyond all floats
_MOST = 700.0


class Total:
    """The scores of some sentences, each piece of which counts alike.

    Loss is minus the mean log-probability of a piece, in natural logarithms; pseudo-perplexity is
    its exponential (Salazar et al. 2020, Eq. 3).
    """

    def __init__(self) -> None:
        self.sentences = self.pieces = 0
        self.score = 0.0

    def add(self, pieces: int, score: float) -> None:
        """Count a sentence."""
        self.sentences += 1
        self.pieces += pieces
        self.score += score

    def to_dict(self) -> dict[str, Any]:
        """As recorded in results.json."""
        loss = -self.score / self.pieces
        return {
            "sentences": self.sentences,
            "pieces": self.pieces,
            "pseudo_log_likelihood": self.score,
            "loss": loss,
            "pseudo_perplexity": math.exp(min(loss, _MOST)),
        }


def totals_table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown of what :meth:`Total.to_dict` gives, by name."""
    header = ["", "pseudo-perplexity", "loss", "sentences", "pieces"]
    rows = [
        [name, f"{one['pseudo_perplexity']:.2f}", f"{one['loss']:.4f}",
         f"{one['sentences']:,}", f"{one['pieces']:,}"]
        for name, one in found.items()
    ]  # fmt: skip
    return markdown_table(header, rows)
