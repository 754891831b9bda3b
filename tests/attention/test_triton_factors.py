"""A bias in factors in the Triton kernels, in their interpreter: ``test_triton.py`` runs this."""

import pytest
import torch
from tupe_fairseq.attention.triton import triton_attention

from helpers.attention_cases import assert_near
from helpers.position_cases import REL_POS, SEQ_LEN, Case, encoder_of, random_input
from helpers.triton_cases import (
    INTERPRETED,
    bfloat16_products,
    hasten_interpreter,
    needs_triton,
    padded,
    set_tiles,
)
from tupe_fairseq.attention import Bias, choice, strips
from tupe_fairseq.attention.eager import eager_attention

HEADS, LENGTH = 2, 40
# sums of float32 in two orders, of their scale
CLOSE = 1e-5
# columns, by distance, [CLS] spared: TUPE-R, TUPE-A with a tied [CLS], ALiBi, T5 with an untied one
KINDS = {
    "tupe-r": (18, True, True),
    "tupe-a": (7, False, False),
    "alibi": (0, True, False),
    "t5": (2, True, True),
}
thorough = pytest.mark.thorough

if INTERPRETED:
    hasten_interpreter()


def bias_of(kind, scale=1.0):
    width, has_distances, spares_first = KINDS[kind]
    products = (None, None)
    if width:
        products = (scale * torch.randn(2, HEADS, LENGTH, width)).unbind()
    by_distance = torch.randn(HEADS, 2 * LENGTH - 1) if has_distances else None
    return Bias.of_factors(*products, by_distance, spares_first)


def answer(function, qkv, bias, padding=None, dropout=0.0, dtype=None, whole=False):
    """The output, zeros at padding, and the gradients of qkv and of each part of the bias."""
    qkv = qkv.detach().to(dtype or qkv.dtype, copy=True).requires_grad_()
    values = bias.values.detach().to(dtype or bias.values.dtype, copy=True).requires_grad_()
    given = Bias(values, bias.layout)
    packed = padding is not None and padding.packed
    q, k, v = (padding.pack(qkv) if packed else qkv).unbind(-3)
    torch.manual_seed(7)
    out = function(
        q, k, v, Bias(given.whole()) if whole else given, padding, scaling=0.4, dropout=dropout
    )
    if packed:
        out = padding.unpack(out)
    elif padding is not None:
        out = out.masked_fill(padding.mask[:, :, None, None], 0)
    weights = torch.cos(torch.arange(out.numel())).view(out.shape).to(out.dtype)
    if padding is not None:
        weights = weights * ~padding.mask[:, :, None, None]
    out.backward(weights)
    grads = given.parts(values.grad)
    return [out.detach(), qkv.grad, *(grad for grad in grads if grad is not None)]


def assert_same(found, expected, tolerance=CLOSE):
    assert len(found) == len(expected)
    for pair in zip(found, expected):
        assert_near(*([x] for x in pair), tolerance)


@needs_triton
class TestKernels:
    __test__ = INTERPRETED

    @pytest.fixture(autouse=True)
    def _several_strips_and_tiles(self, monkeypatch):
        monkeypatch.setattr(strips, "NUMBERS", 1)
        monkeypatch.setattr(strips, "ROWS", 32)
        set_tiles(monkeypatch, 32, 32)

    @pytest.mark.parametrize(
        "kind, layout",
        [
            ("tupe-r", "padded"),
            ("tupe-a", "packed"),
            ("alibi", "full"),
            pytest.param("t5", "packed", marks=thorough),
            pytest.param("t5", "full", marks=thorough),
            pytest.param("tupe-r", "packed", marks=thorough),
            pytest.param("tupe-r", "full", marks=thorough),
            pytest.param("tupe-a", "padded", marks=thorough),
            pytest.param("alibi", "padded", marks=thorough),
        ],
    )
    def test_as_eager(self, kind, layout):
        """In float64, multiplied out; whatever the factors are where there is padding alone."""
        qkv, bias = torch.randn(2, LENGTH, 3, HEADS, 5), bias_of(kind)
        padding = None
        if layout != "full":
            padding = padded([33, 9], layout == "packed", LENGTH)
            parts = bias.parts()
            if parts.queries is not None:
                parts.queries[:, 33:] = parts.keys[:, :, 33:] = 1e3
        found = answer(triton_attention, qkv, bias, padding)
        exact = answer(eager_attention, qkv, bias, padding, dtype=torch.float64)
        assert_same(found, exact)

    def test_dropout_is_that_of_a_whole_bias(self):
        qkv, bias = torch.randn(1, LENGTH, 3, HEADS, 5), bias_of("tupe-r")
        first, again, whole = (
            answer(triton_attention, qkv, bias, dropout=0.2, whole=whole)
            for whole in (False, False, True)
        )
        assert all(a.equal(b) for a, b in zip(first, again))
        assert_same(first, whole)

    @pytest.mark.parametrize(
        "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=thorough)], ids=str
    )
    def test_16_bits(self, dtype, monkeypatch):
        """No further from float32 on the same rounded q, k and v than roundings of these are."""
        bfloat16_products(monkeypatch)
        # rows whose scores of positions have 80 in common: in one part they would not pass
        qkv, bias = torch.randn(1, LENGTH, 3, HEADS, 8), bias_of("tupe-r", 0.5)
        bias.parts().queries[:, :, :16] += 10
        bias.parts().keys[:, :16] += 0.5
        qkv = qkv.to(dtype)
        found = answer(triton_attention, qkv, bias)
        assert found[0].dtype == found[1].dtype == dtype and found[2].dtype == torch.float32
        expected = answer(eager_attention, qkv, bias, dtype=torch.float32)
        # a few roundings of numbers around 1, each of at most half of this
        assert_same(found, expected, 4 * torch.finfo(dtype).eps)

    def test_layers(self, monkeypatch):
        """Of TUPE-R, from the embeddings to each parameter, without the whole bias."""
        case = Case("tupe", REL_POS)
        grads = []
        for name, dtype in (("eager", torch.float64), ("triton", torch.float32)):
            encoder = encoder_of(case, dtype, attn_impl=name)
            x = random_input(dtype=dtype).requires_grad_()
            mask = torch.arange(SEQ_LEN) >= torch.tensor([[SEQ_LEN], [4]])
            out = encoder(x, mask).masked_fill(mask[:, :, None], 0)
            (out * torch.cos(torch.arange(out.numel())).view(out.shape)).sum().backward()
            grads.append([out.detach(), x.grad, *(p.grad for p in encoder.parameters())])
            monkeypatch.setattr(choice, "MANY_FIXED_SCORES", 0)
            monkeypatch.setattr(Bias, "whole", None)
            assert choice.takes_factors(name, x, None, 3) == (name == "triton")
        assert_same(*reversed([[x for x in made if x is not None] for made in grads]), 1e-4)

    @pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
    def test_factors_are_taken_from_some_length_on(self, mode):
        length = round((choice.MANY_FIXED_SCORES / 4) ** 0.5)
        with mode():
            for seq_len, expected in ((length - 1, False), (length, True)):
                x = torch.empty(1, 1, 1).expand(1, seq_len, 8)
                assert choice.takes_factors("triton", x, None, 4) == expected
                # what the kernels refuse, others would have to multiply out in each layer
                assert not choice.takes_factors("triton", x.double(), None, 4)

    def test_nothing_large_is_saved(self):
        bias = bias_of("alibi")
        bias.values.requires_grad_()
        saved, qkv = [], torch.randn(1, LENGTH, 3, HEADS, 5, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
            for _ in range(2):
                triton_attention(*qkv.unbind(-3), bias, None, scaling=0.4, dropout=0.0)
        # each call its q, k, v, out and a number for each query, and both the same of the bias
        own = 2 * LENGTH * HEADS * (4 * 5 + 1)
        found = {x.data_ptr(): x.numel() for x in saved}
        assert sum(found.values()) <= own + 2 * bias.values.numel()
