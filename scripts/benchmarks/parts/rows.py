"""One comparison: its competitors' samples, and the one they are compared with."""

from typing import Dict, NamedTuple

from parts.timing import Sample, ratio, spread


class Row(NamedTuple):
    """A case and its competitors' measurements.

    Args:
        title (str): the case.
        samples (dict): competitor -> sample.
        base (str): the competitor that the others are compared with.
        ours (str): the competitor that the case is about.
        words (int): words in a call, if words per second are compared; the ratio is then theirs.
    """

    title: str
    samples: Dict[str, Sample]
    base: str
    ours: str
    words: int = 0

    def ratio(self, name: str) -> float:
        value = ratio(self.samples[name], self.samples[self.base])
        return 1 / value if self.words else value

    def spread(self, name: str) -> float:
        return spread(self.samples[name], self.samples[self.base])

    def as_json(self) -> dict:
        return {
            "case": self.title,
            "base": self.base,
            "ours": self.ours,
            "words": self.words,
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
