"""T5's buckets against a table made by hand, and the bias by its definition."""

import pytest
import torch

from tupe_fairseq.position import RelativePositionBias, relative_position_bucket

# |distance| at which each bucket of 32 over 128 begins, by hand: 8 * 16 ** (k / 8), rounded up
BEGINNINGS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]


def test_every_boundary_of_the_default_buckets():
    for bucket, start in enumerate(BEGINNINGS):
        end = BEGINNINGS[bucket + 1] if bucket < 15 else 1000
        distances = torch.tensor([start, end - 1])
        back = relative_position_bucket(-distances, 32, 128)
        assert back.tolist() == [bucket, bucket], f"distances {distances.tolist()}"
        if start:
            ahead = relative_position_bucket(distances, 32, 128)
            assert ahead.tolist() == [16 + bucket] * 2


def test_distances_on_an_edge_are_counted_in_float32():
    """Of 18 buckets over 128, of which 4 are exact, the others begin at 4 * 2**k.

    In float64 log(2**k) / log(32) * 5 is a little below k for some k, and these distances would
    fall into the bucket before.
    """
    edges = torch.tensor([4, 8, 16, 32, 64])
    assert relative_position_bucket(-edges, 18, 128).tolist() == [4, 5, 6, 7, 8]
    assert relative_position_bucket(1 - edges, 18, 128).tolist() == [3, 4, 5, 6, 7]


def test_bucket_16_is_free_for_cls():
    assert 16 not in relative_position_bucket(torch.arange(-600, 601), 32, 128)


@pytest.mark.parametrize("num_buckets, max_distance", [(4, 2), (8, 5), (10, 7), (64, 300)])
def test_other_sizes_cover_all_buckets_once_in_order(num_buckets, max_distance):
    back = relative_position_bucket(-torch.arange(max_distance + 50), num_buckets, max_distance)
    assert back[0] == 0 and (back.diff() >= 0).all() and back[-1] == num_buckets // 2 - 1
    assert back[max_distance] == num_buckets // 2 - 1
    exact = num_buckets // 4
    assert back[: exact + 1].tolist() == list(range(exact + 1))


def test_depends_on_the_difference_alone_except_for_cls():
    bias = RelativePositionBias(3, 8, 5, untie_cls=True)
    out = bias(11)
    assert out.shape == (3, 11, 11)
    for offset in range(-9, 10):
        assert len(out[:, 1:, 1:].diagonal(offset, 1, 2).unique(dim=1)[0]) == 1
    table = bias.relative_attention_bias.weight
    assert out[:, 0].equal(table[4][:, None].expand(3, 11))
    assert out[:, 1:, 0].equal(table[8][:, None].expand(3, 10))


def test_longer_than_max_distance_and_longer_than_before():
    bias = RelativePositionBias(2, 8, 5)
    assert bias(40)[:, 1:11, 1:11].equal(bias(11)[:, 1:, 1:])


def test_half_precision_gives_a_float32_bias():
    assert RelativePositionBias(2).half()(5).dtype == torch.float32


def test_no_buckets_in_the_state_dict():
    assert list(RelativePositionBias(2).state_dict()) == ["relative_attention_bias.weight"]


@pytest.mark.parametrize(
    "num_buckets, max_distance, message",
    [
        (7, 128, r"rel_pos_buckets \(7\) must be even .*--rel-pos-buckets"),
        (2, 128, r"rel_pos_buckets \(2\) .*at least 4"),
        (32, 8, r"max_rel_pos \(8\) must be above .*\(8, .*--max-rel-pos"),
    ],
    ids=["odd", "few", "max_distance"],
)
def test_bad_sizes(num_buckets, max_distance, message):
    with pytest.raises(ValueError, match=message):
        RelativePositionBias(2, num_buckets, max_distance)
