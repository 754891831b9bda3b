"""From texts to one vector each, as sentence-transformers makes them."""

from collections.abc import Sequence

import numpy as np

from tupe_fairseq.prediction.batched_encoder import BatchedEncoder
from tupe_fairseq.prediction.text_sequences import Counts, TextSequences


class Embedder:
    """From texts to vectors.

    Args:
        to_sequences (TextSequences): encodes the texts.
        run (BatchedEncoder): the model, which ends with a pooling.
    """

    def __init__(self, to_sequences: TextSequences, run: BatchedEncoder):
        self._to_sequences = to_sequences
        self._run = run

    def __call__(self, rows: Sequence[Sequence[str]]) -> tuple[list[np.ndarray], Counts]:
        """The vector of each row, float32 (D), and what was read.

        Args:
            rows (sequence): one text each, or two.
        """
        counts = Counts()
        return self._run(self._to_sequences(rows, counts)), counts
