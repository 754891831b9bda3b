"""Tags of the words of sentences of any length."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tupe_fairseq.labelled.windows import windows
from tupe_fairseq.prediction.batched_encoder import BatchedEncoder
from tupe_fairseq.prediction.text_sequences import Counts
from tupe_fairseq.text.to_tokens import BOS, EOS, UNKNOWN


class Tagger:
    """From the words of sentences to their tags; the same windows as in training.

    Args:
        to_words (callable): from words to the ids of the pieces of each.
        run (BatchedEncoder): the model, which gives a number for each token, int64 (L).
        max_positions (int): the model's longest sequence, ``<s>`` and ``</s>`` included.
        answer (callable): the numbers of a sentence's words, int64 (words) -> its values.
    """

    def __init__(
        self,
        to_words: Callable[[Sequence[str]], list[list[int]]],
        run: BatchedEncoder,
        max_positions: int,
        answer: Callable[[np.ndarray], list[Any]],
    ):
        self._to_words = to_words
        self._run = run
        self._room = max_positions - 2
        self._answer = answer

    def __call__(self, rows: Sequence[Sequence[str]]) -> tuple[list[list[Any]], Counts]:
        """The values of each sentence, and what was read.

        Args:
            rows (sequence): the words of each sentence.
        """
        counts = Counts(rows=len(rows))
        sequences: list[list[int]] = []
        # of each sequence its sentence, and where the words are in it that it decides
        places: list[tuple[int, np.ndarray]] = []
        for row, words in enumerate(rows):
            split = self._to_words(words)
            pieces = [one for ids in split for one in ids]
            starts = np.cumsum([0, *map(len, split)])[:-1]
            found = windows(starts, len(pieces), self._room)
            for start, stop, first, last in found:
                sequences.append([BOS, *pieces[start:stop], EOS])
                places.append((row, starts[first:last] - start + 1))
            counts.pieces += len(pieces)
            counts.unknown += pieces.count(UNKNOWN)
            counts.empty += not pieces
            counts.divided += len(found) > 1
        tags: list[list[int]] = [[] for _ in rows]
        for (row, words), numbers in zip(places, self._run(sequences)):
            tags[row] += numbers[words].tolist()
        return [self._answer(np.array(one)) for one in tags], counts
