"""Turns texts and pairs of texts into the sequences that fairseq's tasks make of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tupe_fairseq.labelled.pair_lengths import pair_lengths
from tupe_fairseq.text.to_tokens import UNKNOWN


@dataclass
class Counts:
    """What was read.

    Args:
        rows, pieces (int): how many; before they were cut.
        unknown (int): pieces that the vocabulary does not list.
        cut (int): rows that were longer than the model's longest sequence.
        empty (int): rows with a text of no piece.
        divided (int): sentences of words that were longer, and seen by the model in parts.
    """

    rows: int = 0
    pieces: int = 0
    unknown: int = 0
    cut: int = 0
    empty: int = 0
    divided: int = 0

    def add(self, other: "Counts") -> None:
        """Add those of other rows."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class TextSequences:
    """Makes ``<s> text </s>``, of pairs ``<s> first </s> </s> second </s>``.

    A row that is too long loses pieces from the end of its longer text, one by one, as in training.

    Args:
        to_tokens (callable): from a text to its ids, with ``<s>`` and ``</s>``.
        max_positions (int): the model's longest sequence, ``<s>`` and ``</s>`` included.
    """

    def __init__(self, to_tokens: Callable[[str], list[int]], max_positions: int):
        self._to_tokens = to_tokens
        self._max_positions = max_positions

    def __call__(self, rows: Sequence[Sequence[str]], counts: Counts) -> list[list[int]]:
        """The ids of each row.

        Args:
            rows (sequence): one text, or two, each; equally many in all rows.
            counts (Counts): what was read is added to it.
        """
        encoded = [[self._to_tokens(text) for text in texts] for texts in rows]
        sizes = np.array([[len(ids) - 2 for ids in texts] for texts in encoded])
        counts.rows += len(rows)
        if not rows:
            return []
        counts.pieces += int(sizes.sum())
        counts.unknown += sum(ids.count(UNKNOWN) for texts in encoded for ids in texts)
        counts.empty += int((sizes == 0).any(axis=1).sum())
        kept = self._kept(sizes)
        counts.cut += int((kept != sizes).any(axis=1).sum())
        return [_joined(texts, sizes) for texts, sizes in zip(encoded, kept.tolist())]

    def _kept(self, sizes: np.ndarray) -> np.ndarray:
        """How many pieces of each text there is room for."""
        room = self._max_positions - 2 * sizes.shape[1]
        if sizes.shape[1] == 1:
            return np.minimum(sizes, room)
        return np.stack(pair_lengths(*sizes.T, room), axis=1)


def _joined(texts: list[list[int]], kept: list[int]) -> list[int]:
    first = texts[0]
    found = [*first[: kept[0] + 1], first[-1]]
    for ids, size in zip(texts[1:], kept[1:]):
        # </s> stands where the second text would have its <s>
        found += [ids[-1], *ids[1 : size + 1], ids[-1]]
    return found
