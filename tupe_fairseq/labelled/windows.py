"""Splits a sentence that is longer than the model into parts that overlap."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """A part of a sentence, and the words that are predicted in it.

    Args:
        start, stop (int): its pieces, the second one not included; the first one begins a word.
        first, last (int): its words, the second one not included; the others of the part are only
            context, and belong to other windows.
    """

    start: int
    stop: int
    first: int
    last: int


def windows(word_starts: Sequence[int], pieces: int, room: int) -> list[Window]:
    """The windows of a sentence, in order; one if it fits.

    Every word is predicted in exactly one window, also if it has more pieces than there is room
    for: where it has most context on its poorer side (the ends of the sentence are no lack of it),
    if tied the first such window.  A window begins at a word about half of the room after the one
    before, so each word has a quarter of the room on both sides, more or less a word.

    Args:
        word_starts (sequence of int): the place of the first piece of each word, from 0 on.
        pieces (int): the length of the sentence in pieces.
        room (int): the most pieces of a window, 1 or more.
    Raises:
        ValueError: if the words are not in order, or begin after the sentence ends.
    """
    starts = np.asarray(word_starts, dtype=np.int64)
    ends = np.append(starts[1:], pieces)
    if len(starts) and (starts[0] != 0 or (ends <= starts).any()):
        raise ValueError(
            f"words that begin at {starts[:5].tolist()} ... are not those of {pieces} pieces: the "
            "first is to begin at 0, and each to have a piece or more"
        )
    if not len(starts):
        return []
    if pieces <= room:
        return [Window(0, pieces, 0, len(starts))]
    spans = _spans(starts, pieces, room)
    context = np.stack([_context(span, starts, ends, pieces) for span in spans])
    best = context.argmax(axis=0)
    found = []
    for number, (start, stop) in enumerate(spans):
        words = np.flatnonzero(best == number)
        if len(words):
            found.append(Window(start, stop, int(words[0]), int(words[-1]) + 1))
    return found


def _spans(starts, pieces: int, room: int):
    """Where windows begin and end; every word begins in one of them."""
    spans = [(0, room)]
    last = starts[np.searchsorted(starts, pieces - room) :]  # from which the rest fits
    while spans[-1][1] < pieces:
        begin = spans[-1][0]
        following = starts[np.searchsorted(starts, begin, side="right") :]
        if not len(following):  # the last word is longer than the room
            break
        near = following[following <= begin + room // 2]
        start = int(near[-1] if len(near) else following[0])
        if len(last) and begin < last[0] < start:
            start = int(last[0])  # as much context as there is room for
        spans.append((start, min(start + room, pieces)))
    return spans


def _context(span, starts, ends, pieces: int) -> np.ndarray:
    """The pieces on the poorer side of each word; of one that begins outside less than any."""
    start, stop = span
    left = starts - start if start else np.full_like(starts, pieces)
    right = stop - ends if stop < pieces else np.full_like(starts, pieces)
    outside = (starts < start) | (starts >= stop)
    return np.where(outside, -2 * pieces, np.minimum(left, right))
