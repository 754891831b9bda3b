"""Turns rows into tokens, and counts what their sentences are made of."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tupe_fairseq.text.reading import TEXT_CHARACTERS


@dataclass
class Counts:
    """What was read.

    Args:
        rows, sentences, pieces (int): how many.
        unknown (int): pieces that the vocabulary does not list.
        cut (int): sentences that were longer than the model's longest sequence.
    """

    rows: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown: int = 0
    cut: int = 0


class RowEncoder:
    """Encodes the sentences of rows.

    Args:
        to_tokens (callable): from a sentence to its ids, with ``<s>`` and ``</s>``.
        unknown (int): the id of ``<unk>``.
        max_positions (int): the model's longest sequence, ``<s>`` and ``</s>`` included.
        to_cut (bool): score the first pieces of longer ones; else refuse them.

    Attributes:
        counts (Counts): of the rows that were encoded.
    """

    def __init__(
        self, to_tokens: Callable[[str], list[int]], unknown: int, max_positions: int, to_cut: bool
    ):
        self._to_tokens = to_tokens
        self._unknown = unknown
        self._longest = max_positions - 2
        self._to_cut = to_cut
        self.counts = Counts()

    def __call__(self, rows: Iterable[Any]) -> Iterator[tuple[Any, list[list[int]]]]:
        """Each row, and the tokens of its sentences.

        Raises:
            ValueError: if a sentence has no piece, or more than the model takes; the message says
                where it stands.
        """
        for row in rows:
            encoded = [self._encoded(sentence, row.place) for sentence in row.sentences]
            self.counts.rows += 1
            yield row, encoded

    def _encoded(self, sentence: str, place: str) -> list[int]:
        if len(sentence) > TEXT_CHARACTERS:
            raise ValueError(
                f"{place}: {len(sentence):,} characters are more than {TEXT_CHARACTERS:,}"
            )
        tokens = self._to_tokens(sentence)
        pieces = len(tokens) - 2
        if not pieces:
            raise ValueError(f"{place}: {sentence[:50]!r} has no piece of the vocabulary")
        if pieces > self._longest:
            if not self._to_cut:
                raise ValueError(
                    f"{place}: the sentence has {pieces} pieces, but the model takes "
                    f"{self._longest} at most; shorten it, or give --cut to score the first ones"
                )
            tokens = [*tokens[: self._longest + 1], tokens[-1]]
            self.counts.cut += 1
        self.counts.sentences += 1
        self.counts.pieces += len(tokens) - 2
        self.counts.unknown += tokens.count(self._unknown)
        return tokens
