"""Requests to attention, and eager's answers to them."""

import pytest
import torch

from helpers.tensors import assert_within
from tupe_fairseq.attention import IMPLEMENTATIONS, Bias, Padding, split_qkv

# all different, so that a wrong axis does not fit
BATCH, HEADS, HEAD_DIM = 4, 3, 5
SCALING = 0.3
# triton has its own tests
NOT_EAGER = [name for name in IMPLEMENTATIONS if name not in ("eager", "triton")]


def mask_of(lengths, seq_len):
    """True = padding, at the end."""
    return torch.arange(seq_len) >= torch.tensor(lengths)[:, None]


def lengths_of(pattern, seq_len):
    """Lengths of BATCH sequences; None for "none"."""
    return {
        "none": None,
        "mixed": [seq_len, 1, (seq_len + 1) // 2, max(seq_len - 1, 1)],
        "empty": [(seq_len + 2) // 3, seq_len, 0, 1],
    }[pattern]


class Request:
    """One projection, a bias, padding, and what weighs each output in the loss."""

    def __init__(
        self, seq_len, lengths=None, *, dtype=torch.float64, bias=True, packed=False, batch=BATCH
    ):
        self.lengths = [seq_len] * batch if lengths is None else lengths
        mask = mask_of(self.lengths, seq_len)
        self.real = ~mask
        self.padding = Padding(mask, packed) if mask.any() else None
        self.qkv = torch.randn(batch, seq_len, 3, HEADS, HEAD_DIM, dtype=dtype)
        self.bias = torch.randn(HEADS, seq_len, seq_len, dtype=dtype) if bias else None
        weights = torch.randn(batch, seq_len, HEADS, HEAD_DIM, dtype=dtype)
        self.weights = weights * self.real[:, :, None, None]

    def leaves(self, dtype=None):
        """Fresh copies of the projection and the bias that gather gradients."""
        given = (self.qkv, self.bias)
        return tuple(
            None if x is None else x.detach().to(dtype or x.dtype, copy=True).requires_grad_()
            for x in given
        )

    def attend(self, name, qkv, bias, **options):
        """The outputs (B, L, H, K), in any layout of the tokens; zeros at padding."""
        options = {"scaling": SCALING, "dropout": 0.0, **options}
        is_packed = self.padding is not None and self.padding.packed
        q, k, v = split_qkv(self.padding.pack(qkv) if is_packed else qkv)
        bias = as_bias(bias)
        skip_if_refused(name, q, bias, self.padding)
        out = IMPLEMENTATIONS[name].attend(q, k, v, bias, self.padding, **options)
        assert out.shape == q.shape and out.dtype == q.dtype
        if is_packed:
            return self.padding.unpack(out)
        return out.masked_fill(~self.real[:, :, None, None], 0)

    def answer(self, name, dtype=None, **options):
        """Outputs, gradient of the projection, gradient of the bias (None where there is none)."""
        qkv, bias = self.leaves(dtype)
        out = self.attend(name, qkv, bias, **options)
        (out * self.weights).sum().backward()
        return out.detach(), qkv.grad, None if bias is None else bias.grad


def as_bias(bias):
    """A tensor, or a bias already, or None."""
    return Bias(bias) if isinstance(bias, torch.Tensor) else bias


def skip_if_refused(name, q, bias, padding):
    reason = IMPLEMENTATIONS[name].refusal(q, bias, padding)
    if reason is not None:
        pytest.skip(f"{name}: {reason}")


def assert_near(actual, expected, tolerance):
    """As many parts of an answer as there are; see :func:`assert_within`."""
    parts = ("outputs", "gradient of the projection", "gradient of the bias")[: len(actual)]
    assert_within(dict(zip(parts, actual)), dict(zip(parts, expected)), tolerance)
