"""One comparison: its competitors' samples, the one they are compared with, and the bound."""

from typing import Dict, NamedTuple, Optional

from benchmarking.timing import Sample, ratio, spread


class Row(NamedTuple):
    """A case and what its competitors showed.

    Args:
        title (str): the case.
        samples (dict): competitor -> sample.
        base (str): the competitor that the others are compared with.
        ours (str): the competitor that the bound is about.
        bound, reach (float, optional): the ratio that is wanted at most, and hoped for.
        words (int): words in a call, where words per second are what is compared; the ratio is
            then theirs and the bound a least one.
    """

    title: str
    samples: Dict[str, Sample]
    base: str
    ours: str
    bound: Optional[float] = None
    reach: Optional[float] = None
    words: int = 0

    def ratio(self, name: str) -> float:
        value = ratio(self.samples[name], self.samples[self.base])
        return 1 / value if self.words else value

    def spread(self, name: str) -> float:
        return spread(self.samples[name], self.samples[self.base])

    @property
    def verdict(self) -> str:
        """Met, if the median keeps the bound or misses it by less than the spread."""
        if self.bound is None:
            return ""
        value, sign, word = self.ratio(self.ours), 1, "<="
        if self.words:
            sign, word = -1, ">="
        if sign * (value - self.reach) <= 0:
            return f"{word} {self.reach:g} reached"
        if sign * (value - self.bound) <= 0:
            return f"{word} {self.bound:g} met"
        if sign * (value - self.bound) < self.spread(self.ours):
            return f"{word} {self.bound:g} within the spread"
        return f"{word} {self.bound:g} MISSED"

    def as_json(self) -> dict:
        return {
            "case": self.title,
            "base": self.base,
            "ours": self.ours,
            "bound": self.bound,
            "reach": self.reach,
            "verdict": self.verdict,
            "columns": {
                name: {
                    "median_s": sample.median,
                    "min_s": min(sample.seconds),
                    "seconds": sample.seconds,
                    "ratio": self.ratio(name),
                    "spread": self.spread(name),
                    "peak_bytes": sample.peak_bytes,
                    **({"words_per_s": self.words / sample.median} if self.words else {}),
                }
                for name, sample in self.samples.items()
            },
        }
