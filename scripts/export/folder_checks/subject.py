"""A model folder and what it should compute."""

import math

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

TOLERANCE = 1e-4  # float32, the same operations in another order
BATCH = 32


class Skip(Exception):
    """Raised by a check that does not apply, with the reason."""


class Subject:
    """A folder, its tokenizer and the reference outputs of its sentences.

    Args:
        folder (str): as written by tupe-export.
        reference (str): the file of outputs that ``reference.py`` wrote.
        few (int): how many sentences the checks use that need no more.
    """

    def __init__(self, folder, reference, few=64):
        self.folder = folder
        self.reference = torch.load(reference, weights_only=True)
        self.config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
        self.lines = self.reference["lines"]
        self.few = min(few, len(self.lines))

    def as_dictionary(self, ids):
        """Ids with <unk> for those after the dictionary's, which are of pieces that it lacks."""
        words = self.reference["logits"].size(1)
        return [number if number < words else self.tokenizer.unk_token_id for number in ids]

    @property
    def has_head(self):
        return self.reference["classes"] is not None

    @property
    def is_ours(self):
        """Whether the model needs the folder's own code."""
        return self.config.model_type == "tupe"

    def load(self, auto_class, **options):
        """The model of an auto class, in evaluation mode."""
        auto = getattr(transformers, auto_class)
        model = auto.from_pretrained(self.folder, trust_remote_code=True, **options)
        return model.eval()

    def encode(self, lines, **options):
        """The padded batch of these lines, each a text or a pair of them."""
        if isinstance(lines[0], str):
            texts = (list(lines),)
        else:
            texts = tuple(map(list, zip(*lines)))
        return self.tokenizer(*texts, padding=True, return_tensors="pt", **options)

    def batches(self, count=None):
        """(numbers of the sentences, their padded batch), in the order of the reference."""
        count = len(self.lines) if count is None else count
        for start in range(0, count, BATCH):
            numbers = list(range(start, min(start + BATCH, count)))
            yield numbers, self.encode([self.lines[n] for n in numbers])

    def batch(self, size=8):
        """One padded batch of sentences of different lengths."""
        return self.encode(self.lines[:size])

    def features(self, number):
        """The reference's (L, D) of a sentence."""
        start, end = self.reference["offsets"][number : number + 2]
        return self.reference["features"][start:end]


def largest(values):
    """The largest of some differences, which must be finite."""
    values = [float(value) for value in values]
    assert all(map(math.isfinite, values)), "a result is not finite"
    return max(values)


def within(values, tolerance=TOLERANCE):
    """The largest difference as text; it must not be above the tolerance."""
    value = largest(values)
    assert value <= tolerance, f"differs by {value:.2g}, above {tolerance:g}"
    return f"{value:.1e}"
