"""The gradient of factors from strips of that of the whole bias, against autograd's."""

import pytest
import torch
from tupe_fairseq.attention.strips import Strips

from tupe_fairseq.attention import Bias, strips

HEADS, SEQ_LEN, WIDTH = 2, 11, 3


@pytest.mark.parametrize("rows", [1, 4, 64])
@pytest.mark.parametrize(
    "has_products, has_distances, spares_first",
    [(True, False, False), (False, True, False), (True, True, True)],
)
def test_as_autograd(has_products, has_distances, spares_first, rows, monkeypatch):
    monkeypatch.setattr(strips, "ROWS", rows)
    monkeypatch.setattr(strips, "NUMBERS", 1 if rows < SEQ_LEN else 2**20)
    products = torch.randn(2, HEADS, SEQ_LEN, WIDTH).double().unbind()
    by_distance = torch.randn(HEADS, 2 * SEQ_LEN - 1).double() if has_distances else None
    bias = Bias.of_factors(*(products if has_products else (None, None)), by_distance, spares_first)
    bias.values.requires_grad_()
    whole = bias.whole()
    grad = torch.randn_like(whole)
    (expected,) = torch.autograd.grad(whole, bias.values, grad)
    with torch.no_grad():
        found = Strips(bias, torch.float64)
        assert found.rows == rows
        for first in range(0, SEQ_LEN, found.rows):
            strip = found.strip(first)
            strip.copy_(grad[:, first : first + strip.size(1)])
            found.gather(first)
    torch.testing.assert_close(found.grad, expected, rtol=0, atol=1e-13)


def test_memory_is_bounded():
    for heads, length in ((1, 2**12), (12, 2**13), (16, 2**15)):
        by_distance = torch.empty(heads, 2 * length - 1, device="meta")
        made = Strips(Bias.of_factors(None, None, by_distance), torch.bfloat16)
        (buffer,) = (x for x in vars(made).values() if is_buffer(x))
        assert buffer.numel() <= 2 * strips.NUMBERS


def is_buffer(x):
    return isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16
