"""The sequences of tokens that a model gets: long texts are cut, sentences split into windows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tupe_fairseq.data.dictionary import BOS, EOS


class Sample(NamedTuple):
    """A sequence of tokens for the model."""

    tokens: Sequence[int]
    is_whole: bool  # False: some tokens of the row are missing
    #: of words: where those begin that are predicted here, and the number of the first one
    starts: np.ndarray | None = None
    first: int = 0


def join_texts(texts: Sequence[list[int]], max_positions: int) -> Sample:
    """``<s> text </s>``, or ``<s> first </s> </s> second </s>``.

    Of texts that are too long, tokens are removed from the longer one, from the second if both are
    equally long (BERT's longest-first truncation).
    """
    first, *others = texts
    room = _room(max_positions, 2 * len(texts))
    rest = room - sum(map(len, others))
    # the shorter text keeps everything up to half of the room; an odd token goes to the first
    tokens = [BOS, *first[: max(rest, (room + 1) // 2)], EOS]
    for second in others:
        tokens += [EOS, *second[: max_positions - len(tokens) - 2], EOS]
    return Sample(tokens, len(first) <= rest)


def split_words(words: Sequence[list[int]], max_positions: int) -> list[Sample]:
    """``<s> words </s>`` for each window of a sentence, see :func:`windows`."""
    tokens = [token for ids in words for token in ids]
    starts = np.cumsum([0, *map(len, words)])[:-1]
    return [
        Sample(
            [BOS, *tokens[start:stop], EOS],
            stop - start == len(tokens),
            starts[first:last] - start + 1,
            first,
        )
        for start, stop, first, last in windows(starts, len(tokens), _room(max_positions, 2))
    ]


def _room(max_positions: int, special: int) -> int:
    if max_positions <= special:
        raise ValueError(f"--max-positions {max_positions} leaves no room for a token")
    return max_positions - special


class Window(NamedTuple):
    """Tokens ``start`` to ``stop`` of a sentence, in which words ``first`` to ``last`` are tagged.

    Both ranges exclude their end; the other words of the window are context.
    """

    start: int
    stop: int
    first: int
    last: int


def windows(word_starts: Sequence[int], tokens: int, room: int) -> list[Window]:
    """Overlapping windows of at most ``room`` tokens of a sentence, or one if it fits.

    A window begins at a word, about half of the room after the previous one. The words in an
    overlap are divided at its middle, so a word has about a quarter of the room on both sides.
    ``word_starts`` are the first tokens of the words; the first one is 0.
    """
    starts = np.asarray(word_starts, dtype=np.int64)
    if not len(starts):
        return []
    spans = _spans(starts, tokens, room)
    middles = [stop + begin for (_, stop), (begin, _) in zip(spans, spans[1:])]  # times 2
    window_of = np.searchsorted(middles, starts + np.append(starts[1:], tokens))
    words = [np.flatnonzero(window_of == number) for number in range(len(spans))]
    return [
        Window(*span, int(own[0]), int(own[-1]) + 1) for span, own in zip(spans, words) if len(own)
    ]


def _spans(starts: np.ndarray, tokens: int, room: int) -> list[tuple[int, int]]:
    """Where windows begin and end; every word begins in one of them."""
    spans = [(0, min(room, tokens))]
    rest_fits = starts[np.searchsorted(starts, tokens - room) :]
    while spans[-1][1] < tokens:
        begin = spans[-1][0]
        following = starts[np.searchsorted(starts, begin, side="right") :]
        if not len(following):  # the last word is longer than the room
            break
        near = following[following <= begin + room // 2]
        start = int(near[-1] if len(near) else following[0])
        if len(rest_fits) and begin < rest_fits[0] < start:
            start = int(rest_fits[0])  # the last window is as full as possible
        spans.append((start, min(start + room, tokens)))
    return spans
