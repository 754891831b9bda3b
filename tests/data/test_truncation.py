"""Pairs are cut longest first; every word of a long sentence is tagged in one window."""

import numpy as np

from tupe_fairseq.data.truncation import Window, pair_lengths, windows


def test_pairs_lose_tokens_one_by_one():
    for first in range(9):
        for second in range(9):
            for room in range(12):
                a, b = first, second
                while a + b > room:
                    a, b = (a - 1, b) if a > b else (a, b - 1)
                assert tuple(map(int, pair_lengths(first, second, room))) == (a, b)


def sentences():
    """Words of 1 to 3 tokens, some of far more, and any room."""
    draw = np.random.default_rng(1)
    for number in range(400):
        sizes = draw.integers(1, 4, draw.integers(1, 60))
        if number % 3 == 0:
            sizes[draw.integers(0, len(sizes), 2)] = draw.integers(1, 40, 2)
        starts = np.cumsum(sizes) - sizes
        yield sizes, starts, starts + sizes, int(sum(sizes)), int(draw.integers(1, 30))


def test_every_word_is_tagged_where_it_has_most_context():
    for sizes, starts, ends, tokens, room in sentences():
        found = windows(starts, tokens, room)
        words = [word for one in found for word in range(one.first, one.last)]
        assert words == list(range(len(sizes)))
        for one in found:
            assert 0 <= one.start < one.stop <= tokens and one.stop - one.start <= room
            assert one.start in starts and one.first < one.last
            for word in range(one.first, one.last):
                assert one.start <= starts[word] < one.stop
                if sizes[word] <= room // 2:
                    assert ends[word] <= one.stop
                context = {}
                for other in found:
                    if other.start <= starts[word] < other.stop:
                        left = starts[word] - other.start if other.start else np.inf
                        right = other.stop - ends[word] if other.stop < tokens else np.inf
                        context[other] = min(left, right)
                assert context[one] == max(context.values())


def test_a_quarter_of_the_room_is_context():
    starts, room = np.arange(0, 400, 2), 40
    for one in windows(starts, 400, room):
        for word in range(one.first, one.last):
            assert one.start == 0 or starts[word] - one.start >= room // 4 - 2
            assert one.stop == 400 or one.stop - starts[word] - 2 >= room // 4 - 2


def test_windows_by_hand():
    assert windows([0, 2, 3], 5, 5) == [Window(0, 5, 0, 3)]
    assert windows([], 0, 5) == []
    # six words of one token: 0 1 2 3 and 2 3 4 5; word 2 has 1 token after it, and 0 before it
    assert windows(range(6), 6, 4) == [Window(0, 4, 0, 3), Window(2, 6, 3, 6)]
    # a word of nine tokens between others
    expected = [Window(0, 4, 0, 1), Window(1, 5, 1, 2), Window(10, 11, 2, 3)]
    assert windows([0, 1, 10], 11, 4) == expected
