"""What is put aside for validation: as much of each class, and no label as a whole."""

import random
from collections import Counter

import pytest

from tupe_fairseq.labelled.put_aside import put_aside


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_each_class_has_its_share(share):
    labels = [(f"class{n}",) for n, count in enumerate((400, 90, 11)) for _ in range(count)]
    random.Random(3).shuffle(labels)
    drawn = put_aside(labels, labels, share, 1)
    counts, of_drawn = Counter(labels), Counter(labels[row] for row in drawn)
    assert len(drawn) == round(share * len(labels))
    assert all(abs(of_drawn[label] - share * counts[label]) < 1 for label in counts)


def test_the_draw_is_random_and_repeatable():
    labels = [("x",)] * 200
    first = put_aside(labels, labels, 0.1, 1)
    assert first == put_aside(labels, labels, 0.1, 1) != put_aside(labels, labels, 0.1, 2)
    # as long as no release changes what was drawn before
    assert sorted(first)[:4] == [0, 7, 16, 24]
    assert min(first) < 50 and max(first) > 150


@pytest.mark.parametrize("seed", range(20))
def test_a_label_is_never_put_aside_as_a_whole(seed):
    draw = random.Random(seed)
    labels = [tuple(draw.sample("abcdefghijkl", draw.randint(0, 4))) for _ in range(40)]
    labels += [("once",), ("twice", "a"), ("twice",)]
    for strata in (labels, [()] * len(labels)):
        drawn = put_aside(strata, labels, 0.6, seed)
        left = {x for row, label in enumerate(labels) if row not in drawn for x in label}
        assert left == {x for label in labels for x in label}
        assert len(drawn) > 10


def test_among_strata_of_one_row_chance_decides():
    labels = [(str(n),) for n in range(100)]
    drawn = put_aside(labels, [()] * 100, 0.2, 5)
    assert len(drawn) == 20 and min(drawn) < 50 < max(drawn)
