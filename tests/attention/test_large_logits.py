"""Logits of +-1e4 in every dtype: finite, and within the bounds that the roundings allow."""

import pytest
import torch

from helpers.attention_cases import BATCH, HEADS, Request, lengths_of, mask_of
from tupe_fairseq.attention import IMPLEMENTATIONS, Padding

LARGE = 1e4
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = [name for name in IMPLEMENTATIONS if name != "triton"]
LAYOUTS = {
    "alone": (6, [6], False),
    "one token": (1, [1] * BATCH, False),
    "padded": (9, lengths_of("mixed", 9), False),
    "packed": (9, lengths_of("mixed", 9), True),
    "empty rows": (9, lengths_of("empty", 9), False),
    "empty rows, packed": (9, lengths_of("empty", 9), True),
}  # fmt: skip

every_path = pytest.mark.parametrize(
    "name, layout, dtype",
    [(name, layout, dtype) for name in NAMES for layout in LAYOUTS for dtype in DTYPES],
)


def request_of(layout, dtype):
    seq_len, lengths, packed = LAYOUTS[layout]
    made = Request(seq_len, lengths, packed=packed, batch=len(lengths))
    # what 16 bits hold, so that both sides begin with the same numbers
    made.qkv = made.qkv.to(DTYPES[dtype])
    return made


def answer_of(request, name, scaling):
    try:
        return request.answer(name, scaling=scaling)
    except RuntimeError as error:
        if "not implemented for 'Half'" not in str(error):
            raise
        pytest.skip(f"this torch has no kernel: {error}")


class Exact:
    """The answer in float64, and how far roundings by a unit u can move each part of it.

    With |error of the logit (i, j)| <= d_ij and E_i = sum_j p_ij (exp(d_ij) - 1), a row of
    probabilities moves by at most 2 E_i / (1 - E_i) in its sum of absolute values; to which come u
    for its own rounding, and for that of what it is multiplied with and of the result.

    Args:
        request (Request): qkv in the dtype of the attempt.
        scaling (float): of its scores.
        logit_errors (callable): the exact products q_ik k_jk scaling, and the bias, to d_ij.
    """

    def __init__(self, request, scaling, logit_errors):
        self.unit = torch.finfo(request.qkv.dtype).eps / 2
        qkv, bias = request.qkv.double(), request.bias.double()
        weights = request.weights
        self.out, self.grad_qkv = torch.zeros_like(qkv[:, :, 0]), torch.zeros_like(qkv)
        self.grad_bias = torch.zeros_like(bias)
        self.out_error, self.grad_qkv_error = torch.zeros(()), torch.zeros(3)
        self.grad_bias_error = torch.zeros(())
        for b, length in enumerate(request.lengths):
            if length:
                self._add(
                    b, length, qkv[b, :length], bias[:, :length, :length],
                    weights[b, :length].transpose(0, 1), scaling, logit_errors,
                )  # fmt: skip

    def _add(self, b, length, qkv, bias, g, scaling, logit_errors):
        q, k, v = qkv.permute(1, 2, 0, 3)  # H x L x K
        products = q[:, :, None] * k[:, None] * scaling
        p = torch.softmax(products.sum(-1) + bias, dim=-1)
        out, grad_p = p @ v, g @ v.transpose(1, 2)
        grad_s = p * (grad_p - (g * out).sum(-1, keepdim=True))
        self.out[b, :length] = out.transpose(0, 1)
        grads = (grad_s @ k * scaling, grad_s.transpose(1, 2) @ q * scaling, p.transpose(1, 2) @ g)
        for part, grad in enumerate(grads):
            self.grad_qkv[b, :length, part] = grad.transpose(0, 1)
        self.grad_bias[:, :length, :length] += grad_s

        u = self.unit
        e = (p * torch.expm1(logit_errors(products, bias))).nan_to_num().sum(-1).max()
        assert e < 0.5, "no bound at all"
        moved = 2 * e / (1 - e) + u  # of a row of p
        of_v, of_g, largest = v.abs().max(), g.abs().max(), (g.abs() @ v.abs().mT).max()
        # p moves, v is exact, the result is rounded
        out_error = moved * of_v + u * out.abs().max()
        # the row of p, twice next to grad_p; the roundings of grad_p and of the sum with the output
        score_error = largest * (3 * moved + 6 * u) + out_error * (g.abs().sum(-1).max())
        grad_errors = torch.stack([
            scaling * score_error * k.abs().max(),
            # a column has as many rows as the sequence
            scaling * score_error * q.abs().max() * length,
            # of p, each entry moves no more than its row
            moved * of_g * length,
        ]) + 2 * u * torch.stack([grad.abs().max() for grad in grads])  # fmt: skip
        self.out_error = torch.maximum(self.out_error, out_error)
        self.grad_qkv_error = torch.maximum(self.grad_qkv_error, grad_errors)
        self.grad_bias_error = self.grad_bias_error + score_error + 2 * u * grad_s.abs().max()

    def assert_near(self, answer):
        out, grad_qkv, grad_bias = (part.double() for part in answer)
        assert out.isfinite().all() and grad_qkv.isfinite().all() and grad_bias.isfinite().all()
        assert (out - self.out).abs().max() <= self.out_error
        for part, bound in enumerate(self.grad_qkv_error):
            assert (grad_qkv - self.grad_qkv)[:, :, part].abs().max() <= bound, "qkv"[part]
        assert (grad_bias - self.grad_bias).abs().max() <= self.grad_bias_error


FLOAT = torch.finfo(torch.float32).eps / 2


@every_path
def test_a_bias_of_1e4(name, layout, dtype):
    """The whole row, some keys, or one: what 16 bits cannot hold next to the scores."""
    request = request_of(layout, dtype)
    bias = request.bias + LARGE * torch.randint(-1, 2, request.bias[:, :, :1].shape)
    bias[1] += LARGE * torch.randint(-1, 2, bias[1].shape)
    # in the longest row only: what is there decides nothing in a shorter sequence
    bias[..., -1] += LARGE
    request.bias = bias.float()
    unit = torch.finfo(DTYPES[dtype]).eps / 2

    def logit_errors(products, bias):
        # q and the score are rounded; the bias is to its maximum's distance, then, in float32, the
        # sum (three operations); the products are added up in float32
        size = products.abs().sum(-1)
        distance = bias.amax(-1, keepdim=True) - bias
        return unit * (2 * size + distance) + FLOAT * (3 * bias.abs() + 8 * size + 3 * distance)

    exact = Exact(request, 0.3, logit_errors)
    exact.assert_near(answer_of(request, name, 0.3))


@every_path
def test_scores_of_1e4(name, layout, dtype):
    """Powers of two, so that 16 bits hold every score: what decides is the bias."""
    request = request_of(layout, dtype)
    signs = torch.randint(0, 2, request.qkv[:, :, :2].shape) * 2 - 1
    signs[..., 4:] = 0  # sums of four: multiples of 2^11, up to 2^13
    request.qkv[:, :, :2] = (signs * 2**6).to(request.qkv.dtype)
    request.bias = request.bias.float()
    unit = torch.finfo(DTYPES[dtype]).eps / 2

    def logit_errors(products, bias):
        assert not (products.sum(-1) % 2**11).any()
        size = products.sum(-1).abs()
        distance = bias.amax(-1, keepdim=True) - bias
        return unit * distance + FLOAT * 4 * (size + bias.abs() + distance)

    exact = Exact(request, 0.5, logit_errors)
    exact.assert_near(answer_of(request, name, 0.5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_rows_of_nothing_but_padding_next_to_large_logits(name, dtype):
    """Padding in the middle, too: the mask must not win, nor overflow, against +-1e4."""
    request = Request(7, batch=3)
    mask = mask_of([7, 7, 0], 7)
    mask[1, 2:4] = True
    request.padding, request.real = Padding(mask), ~mask
    request.weights[mask] = 0
    request.qkv = request.qkv.to(DTYPES[dtype])
    request.bias = torch.where(torch.rand(HEADS, 7, 7) < 0.5, -LARGE, LARGE)
    out, *grads = answer_of(request, name, 0.3)
    assert all(part.isfinite().all() for part in (out, *grads))
    others = request.qkv.clone()
    others[mask] = 50.0
    request.qkv = others
    # what is at the padding reaches nobody
    assert answer_of(request, name, 0.3)[0][~mask].equal(out[~mask])
    # nor does the bias there
    request.bias[..., 2:4] += 3 * LARGE
    assert answer_of(request, name, 0.3)[0][1][~mask[1]].equal(out[1][~mask[1]])
