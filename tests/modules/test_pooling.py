"""Vectors of sequences against loops in float64."""

import pytest
import torch

from tupe_fairseq.modules.pooling import get_pooling

LENGTHS = [5, 1, 3]


def batch(dtype=torch.float64):
    """Hidden states, large where padding is, and which tokens are real."""
    real = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    hidden = torch.randn(3, 5, 4, dtype=torch.float64)
    return hidden.masked_fill(~real.unsqueeze(-1), 1e3).to(dtype), real


def mean_by_loops(hidden):
    rows = []
    for row, length in zip(hidden.double().tolist(), LENGTHS):
        rows.append([sum(token[d] for token in row[:length]) / length for d in range(4)])
    return torch.tensor(rows, dtype=torch.float64)


def test_the_mean_and_its_gradient():
    hidden, real = batch()
    hidden.requires_grad_()
    found = get_pooling("mean")(hidden, real)
    # another order of sums
    torch.testing.assert_close(found, mean_by_loops(hidden), rtol=0, atol=1e-15)
    weights = torch.randn(3, 4, dtype=torch.float64)
    (found * weights).sum().backward()
    for row, length in enumerate(LENGTHS):
        expected = (weights[row] / length).expand(length, 4)
        torch.testing.assert_close(hidden.grad[row, :length], expected, rtol=0, atol=1e-15)
        assert not hidden.grad[row, length:].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_it_is_summed_in_float32_at_least(dtype):
    hidden, real = batch(dtype)
    found = get_pooling("mean")(hidden, real)
    assert found.dtype == torch.float32
    # of float32, for sums of up to five numbers of about 1
    torch.testing.assert_close(found.double(), mean_by_loops(hidden), rtol=0, atol=1e-6)
    many = torch.full((1, 4000, 2), 60.0, dtype=dtype)  # the sum is beyond half precision
    assert (get_pooling("mean")(many, torch.ones(1, 4000, dtype=torch.bool)) == 60).all()


def test_the_first_token():
    hidden, real = batch()
    assert get_pooling("cls")(hidden, real).equal(hidden[:, 0])


def test_an_unknown_name():
    with pytest.raises(ValueError, match="unknown pooling 'max'; --pooling is one of cls, mean"):
        get_pooling("max")
