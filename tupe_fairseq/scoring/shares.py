"""The share of minimal pairs that are ranked right, by file and phenomenon."""

import math
from collections.abc import Iterable
from typing import Any

from tupe_fairseq.files.markdown import markdown_table


class Share:
    """How many of some pairs are ranked right; a tie is not.

    The standard error is that of a share p of n independent pairs, sqrt(p (1 - p) / n).
    """

    def __init__(self) -> None:
        self.pairs = self.right = self.ties = 0

    def add(self, good: float, bad: float) -> None:
        """Count a pair with these scores."""
        self.pairs += 1
        self.right += good > bad
        self.ties += good == bad

    @property
    def accuracy(self) -> float:
        return self.right / self.pairs

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.accuracy * (1 - self.accuracy) / self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """As recorded in results.json."""
        return {
            "pairs": self.pairs,
            "right": self.right,
            "ties": self.ties,
            "accuracy": self.accuracy,
            "standard_error": self.standard_error,
        }


def mean_share(shares: Iterable[Share]) -> dict[str, Any]:
    """The mean of shares that count alike, whatever their pairs; and its standard error."""
    every = list(shares)
    variance = sum(share.standard_error**2 for share in every)
    return {
        "of": len(every),
        "accuracy": sum(share.accuracy for share in every) / len(every),
        "standard_error": math.sqrt(variance) / len(every),
    }


class Shares:
    """The shares of all pairs, of those of each file, and of those of each phenomenon."""

    def __init__(self) -> None:
        self.all = Share()
        self.files: dict[str, Share] = {}
        self.phenomena: dict[str, Share] = {}

    def add(self, file: str, phenomenon: str, good: float, bad: float) -> None:
        """Count a pair; one without a phenomenon counts for none."""
        groups = [self.all, self.files.setdefault(file, Share())]
        if phenomenon:
            groups.append(self.phenomena.setdefault(phenomenon, Share()))
        for share in groups:
            share.add(good, bad)

    def to_dict(self) -> dict[str, Any]:
        """As recorded in results.json."""
        found: dict[str, Any] = {
            "all": self.all.to_dict(),
            "mean_of_files": mean_share(self.files.values()),
        }
        if self.phenomena:
            found["mean_of_phenomena"] = mean_share(self.phenomena.values())
        for name in ("phenomena", "files"):
            groups = getattr(self, name)
            found[name] = {key: groups[key].to_dict() for key in sorted(groups)}
        return found


def shares_table(found: dict[str, Any]) -> str:
    """Markdown of what :meth:`Shares.to_dict` gives."""

    def row(name: str, share: dict[str, Any]) -> list[str]:
        counts = [f"{share[key]:,}" if key in share else "" for key in ("pairs", "ties")]
        return [name, *(f"{100 * share[key]:.2f}" for key in ("accuracy", "standard_error")),
                *counts]  # fmt: skip

    parts = []
    header = ["right, %", "standard error", "pairs", "ties"]
    rows = [row("all pairs", found["all"])]
    for name in ("files", "phenomena"):
        mean = found.get(f"mean_of_{name}")
        if mean:
            rows.append(row(f"mean of {name} ({mean['of']})", mean))
    parts.append(markdown_table(["", *header], rows))
    for name, title in (("phenomena", "phenomenon"), ("files", "file")):
        if found[name]:
            rows = [row(key, share) for key, share in found[name].items()]
            parts.append(markdown_table([title, *header], rows))
    return "\n".join(parts)
