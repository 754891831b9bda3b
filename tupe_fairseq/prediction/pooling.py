"""One vector for each sequence, as the pooling of sentence-transformers makes it."""

from typing import Callable, Dict, List, Sequence, Tuple

import numpy as np
from torch import Tensor

from tupe_fairseq.files.names import CLS, MEAN
from tupe_fairseq.prediction.batched_encoder import BatchedEncoder
from tupe_fairseq.prediction.text_sequences import Counts, TextSequences


def _mean(hidden: Tensor, real: Tensor) -> Tensor:
    """The mean of all tokens, ``<s>`` and ``</s>`` among them: (B, L, D), (B, L) -> (B, D)."""
    # what stands at padding is finite and undefined; half precision would overflow in long sums
    total = (hidden.float() * real.unsqueeze(-1)).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True)


def _first(hidden: Tensor, real: Tensor) -> Tensor:
    return hidden[:, 0]


#: what --pooling may be -> hidden states (B, L, D) and which tokens are real (B, L) -> (B, D)
POOLINGS: Dict[str, Callable[[Tensor, Tensor], Tensor]] = {MEAN: _mean, CLS: _first}


class Embedder:
    """From texts to vectors.

    Args:
        to_sequences (TextSequences): encodes the texts.
        run (BatchedEncoder): the model, which ends with one of :data:`POOLINGS`.
    """

    def __init__(self, to_sequences: TextSequences, run: BatchedEncoder):
        self._to_sequences = to_sequences
        self._run = run

    def __call__(self, rows: Sequence[Sequence[str]]) -> Tuple[List[np.ndarray], Counts]:
        """The vector of each row, float32 (D), and what was read.

        Args:
            rows (sequence): one text each, or two.
        """
        counts = Counts()
        return self._run(self._to_sequences(rows, counts)), counts
