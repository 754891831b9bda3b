"""What the Triton kernels get of a bias multiplies out to it; no kernel is needed for that."""

import math

import pytest
import torch
from tupe_fairseq.attention.kernel_bias import dotted_columns, kernel_bias

from tupe_fairseq.attention import Bias

HEADS, SEQ_LEN = 3, 7


def factors_of(width, has_distances=False, spares_first=False):
    products = torch.randn(2, HEADS, SEQ_LEN, width).unbind() if width else (None, None)
    by_distance = torch.randn(HEADS, 2 * SEQ_LEN - 1) if has_distances else None
    return Bias.of_factors(*products, by_distance, spares_first)


def multiplied_out(given):
    """As the kernels do it, in float64 and entry by entry where it is a matter of places."""
    whole = torch.zeros(HEADS, SEQ_LEN, SEQ_LEN, dtype=torch.float64)
    if given.factors is not None:
        # 2 x H x L x W: the sum of the parts
        queries, keys = given.factors.double().sum(dim=1)
        whole += queries @ keys.mT
    for h in range(HEADS):
        for i in range(SEQ_LEN):
            for j in range(SEQ_LEN):
                for column in range(given.columns):
                    of_query = given.vectors[h, column * SEQ_LEN + i].double()
                    whole[h, i, j] += (
                        of_query * given.vectors[h, (given.columns + column) * SEQ_LEN + j]
                    )
                if given.distances_from is not None and min(i, j) >= given.distances_from:
                    first = 2 * given.columns * SEQ_LEN
                    whole[h, i, j] += given.vectors[h, first + j - i + SEQ_LEN - 1]
    return whole * math.log(2)


@pytest.mark.parametrize(
    "width, distances",
    [(2, ()), (7, (True,)), (18, ()), (18, (True, True)), (21, (True,)), (0, (True, True))],
    ids=str,
)
@pytest.mark.parametrize(
    # rounding of float32; of the second of two parts, of sums of 21 products of at most 16
    "dtype, tolerance",
    [(torch.float32, 1e-5), (torch.float16, 1e-3), (torch.bfloat16, 1e-3)],
)
def test_it_is_the_bias(width, distances, dtype, tolerance):
    bias = factors_of(width, *distances)
    given = kernel_bias(bias, dtype, is_padded=False)
    assert given.whole is None and given.columns == width - dotted_columns(width)
    expected = bias.whole().double()
    torch.testing.assert_close(multiplied_out(given), expected, rtol=0, atol=tolerance)


def test_few_columns_do_not_double_the_product():
    found = {width: dotted_columns(width) for width in (0, 2, 4, 5, 16, 18, 20, 21, 66, 69, 130)}
    assert found == {
        0: 0, 2: 0, 4: 0, 5: 5, 16: 16, 18: 16, 20: 16, 21: 21, 66: 64, 69: 69, 130: 128,
    }  # fmt: skip


def test_layers_share_the_copies():
    bias = factors_of(18, True)
    bias.values.requires_grad_()
    first, second = (kernel_bias(bias, torch.bfloat16, is_padded) for is_padded in (False, True))
    assert first.factors is second.factors and first.vectors is second.vectors
    assert not (first.factors.requires_grad or first.vectors.requires_grad)
    exact = kernel_bias(bias, torch.float32, False)
    assert exact.factors.dtype == torch.float32 and exact.vectors is first.vectors
    copies = (first.factors, exact.factors, first.vectors, bias.values)
    assert bias.num_bytes == sum(x.numel() * x.element_size() for x in copies)


def test_a_whole_bias_is_copied_where_sequences_are_full():
    bias = Bias(torch.randn(HEADS, SEQ_LEN, SEQ_LEN))
    assert kernel_bias(bias, torch.bfloat16, False).whole.equal(bias.copy_in(torch.bfloat16))
    assert kernel_bias(bias, torch.bfloat16, True).whole.equal(bias.values)
    assert set(kernel_bias(None, torch.float32, False).arguments().values()) == {None, 0}
