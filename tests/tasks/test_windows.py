"""Windows of long sentences: every word is in exactly one, where it has most context."""

import numpy as np
import pytest

from tupe_fairseq.labelled.windows import Window, windows


def cases():
    """Sentences of words with 1 to 3 pieces, some with far more, and rooms of all kinds."""
    draw = np.random.default_rng(1)
    for number in range(400):
        sizes = draw.integers(1, 4, draw.integers(1, 60))
        if number % 3 == 0:
            sizes[draw.integers(0, len(sizes), 2)] = draw.integers(1, 40, 2)
        yield sizes, int(draw.integers(1, 30))


def places(sizes):
    starts = np.cumsum(sizes) - sizes
    return starts, starts + sizes, int(sum(sizes))


def test_every_word_is_predicted_once_and_in_order():
    for sizes, room in cases():
        starts, _, pieces = places(sizes)
        found = windows(starts, pieces, room)
        words = [word for one in found for word in range(one.first, one.last)]
        assert words == list(range(len(sizes)))
        for one in found:
            assert 0 <= one.start < one.stop <= pieces and one.stop - one.start <= room
            assert one.start in starts and one.first < one.last
            # its first piece is there
            assert one.start <= starts[one.first] and starts[one.last - 1] < one.stop


def test_a_word_is_whole_if_there_is_room_for_it():
    for sizes, room in cases():
        starts, ends, pieces = places(sizes)
        for one in windows(starts, pieces, room):
            for word in range(one.first, one.last):
                if sizes[word] <= room // 2:
                    assert ends[word] <= one.stop


def test_a_word_is_where_it_has_most_context():
    """Against all windows that there are, by a loop."""
    for sizes, room in cases():
        starts, ends, pieces = places(sizes)
        found = windows(starts, pieces, room)
        for one in found:
            for word in range(one.first, one.last):
                context = {}
                for other in found:
                    if other.start <= starts[word] < other.stop:
                        left = starts[word] - other.start if other.start else np.inf
                        right = other.stop - ends[word] if other.stop < pieces else np.inf
                        context[other] = min(left, right)
                assert context[one] == max(context.values())


@pytest.mark.parametrize("room", [12, 40])
def test_a_quarter_of_the_room_is_context(room):
    starts, ends, pieces = places([2] * 200)
    for one in windows(starts, pieces, room):
        for word in range(one.first, one.last):
            assert one.start == 0 or starts[word] - one.start >= room // 4 - 2
            assert one.stop == pieces or one.stop - ends[word] >= room // 4 - 2


def test_by_hand():
    assert windows([0, 2, 3], 5, 5) == [Window(0, 5, 0, 3)]
    assert windows([], 0, 5) == []
    # six words of one piece: 0 1 2 3 and 2 3 4 5; word 2 has 1 piece after it, and 0 before it
    assert windows(range(6), 6, 4) == [Window(0, 4, 0, 3), Window(2, 6, 3, 6)]
    # a word of nine pieces between others
    expected = [Window(0, 4, 0, 1), Window(1, 5, 1, 2), Window(10, 11, 2, 3)]
    assert windows([0, 1, 10], 11, 4) == expected
    assert windows([0], 9, 4) == [Window(0, 4, 0, 1)]


@pytest.mark.parametrize("starts", [[1, 2], [0, 2, 2], [0, 3, 1], [0, 5], [0, 7]])
def test_words_that_are_none_are_refused(starts):
    with pytest.raises(ValueError, match="are not those of 5 pieces: the first is to begin at 0"):
        windows(starts, 5, 4)
