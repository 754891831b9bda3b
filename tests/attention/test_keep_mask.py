"""Dropout masks: their share, their scale, and that a seed repeats them."""

import pytest
import torch

from tupe_fairseq.attention import KeepMask

SHAPE = (7, 300, 401)  # not divisible by the four elements that one draw serves
SIZE = 7 * 300 * 401


def kept(p, seed=3, shape=SHAPE, dtype=torch.float32):
    ones = torch.ones(shape, dtype=dtype)
    return KeepMask(p, seed).drop(ones, out=torch.empty_like(ones))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("p", [1e-4, 0.1, 0.25, 0.5, 0.9])
def test_the_rate_and_the_mean(p, dtype):
    mask = kept(p, dtype=dtype)
    assert mask.dtype == dtype and mask.unique().tolist() == [0, 1]
    rounded = round(p * 2**16) / 2**16
    sigma = (SIZE * rounded * (1 - rounded)) ** 0.5
    assert abs(mask.sum().item() - SIZE * (1 - rounded)) < 5 * sigma
    scale = KeepMask(p).scale
    assert abs(mask.sum().item() * scale - SIZE) < 5 * sigma * scale


@pytest.mark.parametrize("p", [1e-4, 0.1, 1 / 3, 0.5, 0.9999])
def test_the_scale_is_that_of_the_rounded_probability(p):
    assert KeepMask(p).scale == 65536 / (65536 - round(65536 * p))


@pytest.mark.parametrize(
    "p, survives", [(0.0, True), (1e-9, True), (1 - 1e-9, False), (1.0, False)]
)
def test_the_ends(p, survives):
    """No draw is outside the range: nothing dropped, or nothing kept, of millions."""
    assert (kept(p, shape=2**22) == survives).all()
    assert KeepMask(p).scale == float(survives)


def test_the_least_probability_that_drops():
    dropped = 2**22 - kept(2**-16, shape=2**22).sum().item()
    assert 64 - 5 * 8 < dropped < 64 + 5 * 8


def test_dropped_elements_are_zero_and_kept_ones_as_they_were():
    x = torch.randn(SHAPE)
    mask = kept(0.3, seed=5).bool()
    out = KeepMask(0.3, 5).drop(x, out=torch.empty_like(x))
    assert out[mask].equal(x[mask]) and not out[~mask].any()


def test_zeros_where_x_is_not_finite():
    x = torch.full((40,), float("inf"))
    assert not KeepMask(1.0).drop(x, out=x).any()


@pytest.mark.parametrize("in_place", [False, True])
def test_out_is_what_is_returned(in_place):
    x = torch.randn(SHAPE)
    before = x.clone()
    out = x if in_place else torch.empty_like(x)
    returned = KeepMask(0.3, 5).drop(x, out=out)
    assert returned.data_ptr() == out.data_ptr()
    assert out.equal(before * kept(0.3, seed=5))
    assert in_place or x.equal(before)


@pytest.mark.parametrize("size", range(10))
def test_sizes_that_no_draw_divides(size):
    for seed in range(50):
        mask = kept(0.5, seed, (size,))
        assert mask.shape == (size,)
        # elements are in order, whatever the size
        assert mask.equal(kept(0.5, seed, (12,))[:size])
    if size:
        assert len({tuple(kept(0.5, seed, (size,)).tolist()) for seed in range(50)}) > 1


def test_a_stream_continues():
    keep = KeepMask(0.5, 7)
    first, second = (keep.drop(torch.ones(64), out=torch.empty(64)) for _ in range(2))
    assert not first.equal(second)
    again = KeepMask(0.5, 7).drop(torch.ones(128), out=torch.empty(128))
    assert torch.cat([first, second]).equal(again)


def test_parts_have_streams_of_their_own():
    def mask(seed, *part):
        keep = KeepMask(0.5, seed)
        keep.drop(torch.ones(8), out=torch.empty(8))  # whatever came before
        keep.begin(*part)
        return tuple(keep.drop(torch.ones(64), out=torch.empty(64)).tolist())

    parts = [(head, sequence) for head in range(3) for sequence in range(3)]
    masks = [mask(seed, *part) for seed in (5, 6) for part in parts]
    assert len(set(masks)) == 18
    assert masks == [mask(seed, *part) for seed in (5, 6) for part in parts]


def test_a_seed_repeats_and_another_does_not():
    assert kept(0.3, 5).equal(kept(0.3, 5))
    assert not kept(0.3, 5).equal(kept(0.3, 6))
    # half and half: adjacent seeds are independent
    agree = (kept(0.5, 5) == kept(0.5, 6)).sum().item()
    assert abs(agree - SIZE / 2) < 5 * SIZE**0.5 / 2


def test_torchs_generator_governs_the_seed():
    torch.manual_seed(11)
    first, second = KeepMask(0.3), KeepMask(0.3)
    torch.manual_seed(11)
    again = KeepMask(0.3)
    assert first.seed == again.seed != second.seed
    state = torch.get_rng_state()
    KeepMask(0.3, seed=5)
    assert torch.get_rng_state().equal(state)


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("lag", [1, 2, 3, 4])
def test_neighbours_are_not_correlated(lag, p):
    dropped = (1 - kept(p).view(-1).double()) - p
    correlation = (dropped[lag:] * dropped[:-lag]).mean().item() / (p * (1 - p))
    assert abs(correlation) < 5 / (SIZE - lag) ** 0.5
