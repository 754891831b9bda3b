"""Truncation of one sentence and of two, compared with a loop that removes one token at a time."""

import numpy as np
import pytest
import torch
from fairseq.data import ListDataset
from tupe_fairseq.tasks.pair_lengths import pair_lengths

from tupe_fairseq.plugin.glue.truncate_pair import shorten

EOS = 2


def one_by_one(first, second, room):
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_lengths_equal_the_loop():
    for room in range(30):
        first, second = np.meshgrid(np.arange(16), np.arange(16))
        kept = pair_lengths(first, second, room)
        loop = [one_by_one(a, b, room) for a, b in zip(first.ravel(), second.ravel())]
        np.testing.assert_array_equal(np.stack([k.ravel() for k in kept], 1), loop)


def test_long_sentences_equal_the_loop():
    draw = np.random.default_rng(1)
    for first, second, room in draw.integers(0, 1000, (200, 3)).tolist():
        kept = pair_lengths(first, second, room)
        assert tuple(int(n) for n in kept) == one_by_one(first, second, room)


def sentences(lengths, start):
    """Words numbered from ``start``, and </s>."""
    items = [torch.tensor([*range(start, start + n), EOS]) for n in lengths]
    return ListDataset(items, np.array([len(item) for item in items]))


@pytest.mark.parametrize("limit", [2, 3, 7, 8, 30])
def test_a_pair_keeps_its_beginnings_and_each_end(limit):
    lengths = [(9, 3), (3, 9), (6, 6), (1, 1), (0, 12), (12, 0)]
    inputs = [sentences(side, start) for side, start in zip(zip(*lengths), (100, 200))]
    shortened, too_long = shorten(inputs, limit)
    assert too_long.tolist() == [a + b + 2 > limit for a, b in lengths]
    for row, pair in enumerate(lengths):
        for dataset, kept, start in zip(shortened, one_by_one(*pair, limit - 2), (100, 200)):
            assert dataset[row].tolist() == [*range(start, start + kept), EOS]
            assert dataset.sizes[row] == dataset.size(row) == dataset.num_tokens(row) == kept + 1


@pytest.mark.parametrize("limit", [1, 4, 20])
def test_a_single_sentence_keeps_its_beginning_and_end(limit):
    (dataset,), too_long = shorten([sentences([0, 3, 4, 12], 100)], limit)
    for row, words in enumerate([0, 3, 4, 12]):
        kept = min(words, limit - 1)
        assert dataset[row].tolist() == [*range(100, 100 + kept), EOS]
        assert dataset.sizes[row] == kept + 1
        assert too_long[row] == (words + 1 > limit)


def test_no_room_for_the_ends_is_refused():
    with pytest.raises(ValueError, match="1 tokens for 2 sentences.*--max-positions"):
        shorten([sentences([1], 100), sentences([1], 200)], 1)
