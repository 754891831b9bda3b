"""Position functions at any distance, size and shift."""

import pytest
import torch
from tupe_fairseq.position.relative_position_bias import (
    RelativePositionBias,
    relative_position_bucket,
)
from tupe_fairseq.position.schemes.alibi import alibi_slopes

from helpers.drawn import drawn
from helpers.drawn import strategies as st
from tupe_fairseq.position import get_position_encoding

DIM, HEADS, MAX = 12, 2, 40
HALVES = st.integers(2, 40)
DISTANCES = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=30)
POSITIONS = st.lists(st.integers(1, MAX - 1), min_size=1, max_size=6)
SHIFTS = st.integers(-(10**6), 10**6)


def encoding(name, **options):
    torch.manual_seed(1)
    position = get_position_encoding(name)(DIM, HEADS, MAX, **options).double().eval()
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position.requires_grad_(False)


@drawn(40, half=HALVES, beyond=st.integers(1, 500), distances=DISTANCES)
def test_buckets_are_in_range_symmetric_and_rise_with_the_distance(half, beyond, distances):
    exact, buckets = half // 2, 2 * half
    far = exact + beyond
    given = torch.tensor(sorted({abs(d) for d in distances} | {0, 1, exact, far}))
    after = relative_position_bucket(given, buckets, far)
    before = relative_position_bucket(-given, buckets, far)
    assert 0 <= before.min() and before.max() < half and after.max() < buckets
    assert torch.equal(after - before, half * (given > 0).long())
    assert (before.diff() >= 0).all()
    # one bucket for each short distance, one for all long ones
    assert torch.equal(before[given < exact], given[given < exact])
    assert (before[given >= far] == half - 1).all()


@drawn(25, half=st.integers(2, 20), beyond=st.integers(1, 300), distances=DISTANCES)
def test_causal_buckets(half, beyond, distances):
    buckets, far = 2 * half, half + beyond
    given = torch.tensor(sorted({abs(d) for d in distances} | {0, 1, half, far}))
    found = relative_position_bucket(-given, buckets, far, causal=True)
    assert (
        (found.diff() >= 0).all() and found[0] == 0 and (found[given >= far] == buckets - 1).all()
    )
    assert (relative_position_bucket(given, buckets, far, causal=True) == 0).all()


@drawn(20, half=HALVES, rows=POSITIONS, columns=POSITIONS, shift=st.integers(0, 10**6))
def test_the_relative_bias_knows_the_difference_alone(half, rows, columns, shift):
    torch.manual_seed(1)
    bias = RelativePositionBias(HEADS, 2 * half, half + 9).requires_grad_(False)
    q, k = torch.tensor(rows), torch.tensor(columns)
    assert torch.equal(bias(q + shift, k + shift), bias(q, k))
    # [CLS], at position 0, looks at all alike, and all look alike at it
    zero = torch.zeros(1, dtype=torch.long)
    table = bias.relative_attention_bias.weight
    looks, is_seen = bias(zero, k + shift), bias(q + shift, zero)
    assert torch.equal(looks, table[bias.cls_to_other_row][:, None, None].expand_as(looks))
    assert torch.equal(is_seen, table[bias.other_to_cls_row][:, None, None].expand_as(is_seen))


@drawn(20, heads=st.integers(1, 70), rows=POSITIONS, columns=POSITIONS, shift=SHIFTS)
def test_alibi_is_linear_symmetric_and_knows_the_difference_alone(heads, rows, columns, shift):
    slopes = alibi_slopes(heads)
    assert len(set(slopes)) == heads and all(2**-8 <= slope < 1 for slope in slopes)
    position = get_position_encoding("alibi")(2 * heads, heads, MAX)
    q, k = torch.tensor(rows), torch.tensor(columns)
    bias = position.position_bias(q, k)
    distance = (k[None] - q[:, None]).abs()
    assert torch.equal(bias, distance * -torch.tensor(slopes)[:, None, None])
    assert torch.equal(position.position_bias(k, q).mT, bias)
    assert torch.equal(position.position_bias(q + shift, k + shift), bias)


@drawn(20, p=SHIFTS, r=SHIFTS, shift=SHIFTS, seed=st.integers(0, 2**31))
def test_a_rotation_knows_the_difference_alone_and_keeps_lengths(p, r, shift, seed):
    rope = encoding("rope")
    q, k = torch.randn(2, 1, DIM // HEADS, generator=torch.Generator().manual_seed(seed)).double()

    def rotated(x, position):
        return rope.transform(x, torch.tensor([position]))

    def score(p, r):
        return (rotated(q, p) * rotated(k, r)).sum()

    # angles of 10^6 are off by 10^6 times the last bit of a double
    torch.testing.assert_close(score(p + shift, r + shift), score(p, r), rtol=0, atol=1e-7)
    torch.testing.assert_close(rotated(q, p).norm(), q.norm(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("rel_pos", [False, True])
@drawn(20, length=st.integers(2, MAX), other=st.integers(2, MAX))
def test_untied_cls_of_tupe_has_two_values(rel_pos, length, other):
    """Eq. (11) of the paper: one for [CLS] to all, one for all others to [CLS], at any length."""
    options = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 9} if rel_pos else {}
    position = encoding("tupe", **options)
    bias, longer = position.position_bias(length), position.position_bias(other)
    row, column = bias[:, 0], bias[:, 1:, 0]
    assert torch.equal(row, row[:, :1].expand_as(row))
    assert torch.equal(column, column[:, :1].expand_as(column))
    assert (row[:, 0] != column[:, 0]).all()
    # a sum over the width may be taken in another order
    torch.testing.assert_close(longer[:, 0, 0], row[:, 0], rtol=1e-12, atol=0)
    torch.testing.assert_close(longer[:, 1, 0], column[:, 0], rtol=1e-12, atol=0)
