"""Sines and cosines: the formula, and fairseq's own vectors."""

import math

import pytest
import torch

from tupe_fairseq.position import build_position_encoding

BATCH, SEQ_LEN = 2, 5
DTYPES = [torch.float32, torch.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
POSITIONS = {
    "counted": None,
    "far": [100000, 3, -20, 0, 3],
    "by_row": [[4, 1, 0, 3, 9], [7, 6, 5, 0, 512]],
}


def sinusoidal(dim, dtype, **options):
    position = build_position_encoding(
        "sinusoidal", embed_dim=dim, num_heads=1, max_positions=4, **options
    )
    return position.to(dtype)


def oracle(position, dim):
    """One vector, value by value."""
    half = dim // 2
    angles = [position * 10000 ** (-i / (half - 1)) for i in range(half)]
    values = [math.sin(a) for a in angles] + [math.cos(a) for a in angles] + [0.0] * (dim % 2)
    return torch.tensor(values, dtype=torch.float64)


@dtypes
@pytest.mark.parametrize("dim", [4, 7, 64])
def test_vectors_and_gradient_are_fairseqs(dim, dtype):
    modules = pytest.importorskip("fairseq.modules", reason="it compares with fairseq")
    theirs = modules.SinusoidalPositionalEmbedding.get_embedding(600, dim).to(dtype)
    x = torch.randn(BATCH, 600, dim, dtype=dtype, requires_grad=True)
    weights = torch.randn_like(x)
    actual, expected = sinusoidal(dim, dtype).forward_input(x), x + theirs
    # their angles, up to 600, are float32 whatever the dtype: 600 * 6e-8, and the rounded
    # frequency as much again
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)
    # where the angles are small both are right to the last digits
    torch.testing.assert_close(actual[:, :8], expected[:, :8], rtol=1e-6, atol=1e-6)
    for out in (actual, expected):
        (grad,) = torch.autograd.grad((out * weights).sum(), x)
        assert grad.equal(weights)


@dtypes
@pytest.mark.parametrize("dim", [4, 7, 64])
@pytest.mark.parametrize("name", POSITIONS)
def test_any_position_agrees_with_the_oracle(name, dim, dtype):
    positions = POSITIONS[name]
    x = torch.randn(BATCH, SEQ_LEN, dim, dtype=dtype)
    given = None if positions is None else torch.tensor(positions)
    actual = sinusoidal(dim, dtype).forward_input(x, given)
    rows = list(range(SEQ_LEN)) if positions is None else positions
    rows = rows if isinstance(rows[0], list) else [rows] * BATCH
    added = torch.stack([torch.stack([oracle(p, dim) for p in row]) for row in rows])
    tolerance = 1e-6 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(actual, x + added.to(dtype), rtol=0, atol=tolerance)


def test_two_values_are_one_sine_and_one_cosine():
    """fairseq divides by zero here."""
    actual = sinusoidal(2, torch.float64).embed(torch.tensor([3]))
    expected = torch.tensor([[math.sin(3), math.cos(3)]], dtype=torch.float64)
    torch.testing.assert_close(actual, expected)


def test_nothing_is_learned_and_logits_are_those_of_the_words():
    position = sinusoidal(6, torch.float64)
    assert not list(position.parameters()) and not position.state_dict()
    q, k = torch.randn(2, BATCH, 1, SEQ_LEN, 6, dtype=torch.float64)
    expected = q @ k.transpose(2, 3) / math.sqrt(6)
    torch.testing.assert_close(position.forward_attn(q, k), expected)
