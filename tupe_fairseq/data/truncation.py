"""Texts that are longer than the model: pairs are cut, sentences are tagged in windows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


def pair_lengths(first, second, room: int) -> tuple[np.ndarray, np.ndarray]:
    """How many tokens of two texts are kept, together at most ``room``.

    Tokens are removed from the longer text one by one, from the second if both are equally long
    (BERT's longest-first truncation). The lengths are those of one pair, or arrays of many.
    """
    first, second = np.asarray(first), np.asarray(second)
    # the shorter text keeps everything up to half of the room; an odd token goes to the first
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return kept, np.minimum(second, room - kept)


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
