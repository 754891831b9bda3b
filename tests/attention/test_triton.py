"""The kernels run in Triton's interpreter, on the CPU.

Triton decides at import time whether to interpret, and torch imports it silently; so the tests run
in a separate process: ``test_in_the_interpreter`` runs the class of this file, and that of
``test_triton_factors.py``.
"""

import functools
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from tupe_fairseq.attention.triton_refusal import triton_refusal

from helpers.attention_cases import as_bias
from helpers.triton_cases import (
    INTERPRETED,
    bfloat16_products,
    hasten_interpreter,
    needs_triton,
    padded,
    set_tiles,
)
from tupe_fairseq.attention import Documents, eager, triton

# float32 sums of at most 512 terms of size 1, in two orders
CLOSE = {"rtol": 0, "atol": 2e-5}
SCALING = 0.4

if INTERPRETED:
    hasten_interpreter()


@needs_triton
@pytest.mark.skipif(INTERPRETED, reason="this is that process")
def test_in_the_interpreter(run, request):
    words = ["--thorough"] if request.config.getoption("--thorough") else []
    factors = Path(__file__).with_name("test_triton_factors.py")
    run("python", "-m", "pytest", __file__, factors, "-k", "TestKernels", *words,
        env={"TRITON_INTERPRET": "1"})  # fmt: skip


def triton_attention(q, k, v, bias, padding, **options):
    return triton.triton_attention(q, k, v, as_bias(bias), padding, **options)


def eager_attention(q, k, v, bias, padding, **options):
    return eager.eager_attention(q, k, v, as_bias(bias), padding, **options)


def inputs(batch=2, seq_len=17, num_heads=3, head_dim=5):
    """q, k and v in one, (B, L, 3, H, K), and a bias."""
    qkv = torch.randn(batch, seq_len, 3, num_heads, head_dim)
    return qkv, torch.randn(num_heads, seq_len, seq_len)


def attend(qkv, bias, padding=None, dropout=0.0, grad=None, function=triton_attention):
    """The output and the gradients of qkv and bias."""
    qkv, bias = qkv.detach().requires_grad_(), bias.detach().requires_grad_()
    q, k, v = qkv.unbind(-3)
    out = function(q, k, v, bias, padding, scaling=SCALING, dropout=dropout)
    grad = torch.cos(torch.arange(out.numel())).view(out.shape) if grad is None else grad
    out.backward(grad)
    return out.detach(), qkv.grad, bias.grad


def kept(seed, batch, seq_len, num_heads, dropout, padding=None, tile=(128, 128)):
    """What a call keeps after ``torch.manual_seed(seed)``: uniform attention to unit vectors.

    In few tiles, because the interpreter takes as long for a small one.
    """
    q = torch.zeros(batch, seq_len, num_heads, seq_len)
    v = torch.eye(seq_len)[None, :, None].expand(q.shape)
    if padding is not None and padding.packed:
        q, v = padding.pack(q), padding.pack(v)
    with pytest.MonkeyPatch.context() as patch:
        set_tiles(patch, *tile)
        torch.manual_seed(seed)
        out = triton_attention(q, q, v, None, padding, scaling=1.0, dropout=dropout)
    if padding is not None and padding.packed:
        out = padding.unpack(out)
    # B x L x H x L -> B x H x L x L
    return (out > 0).transpose(1, 2)


kept_once = functools.lru_cache(maxsize=None)(kept)


def use_dropout(monkeypatch, keep):
    """Let eager attention drop what the kernels dropped."""
    dropout = lambda probs, p: probs * keep / (1 - p)  # noqa: E731
    monkeypatch.setattr(torch.nn.functional, "dropout", dropout)


def assert_close(found, expected, **tolerance):
    for name, *pair in zip(("out", "grad_qkv", "grad_bias"), found, expected):
        torch.testing.assert_close(
            *pair, **(tolerance or CLOSE), msg=lambda text, name=name: f"{name}: {text}"
        )


@needs_triton
class TestKernels:
    __test__ = INTERPRETED

    # a sequence of one token; several in one block; in several blocks, which without dropout
    # the tests of long sequences, head_dims and 16 bits have
    @pytest.mark.parametrize(
        "lengths, num_heads, dropout",
        [
            pytest.param([1, 0], 3, 0.1, marks=pytest.mark.thorough),
            pytest.param([9, 17, 0, 1], 2, 0.0, marks=pytest.mark.thorough),
            ([9, 17, 0, 1], 2, 0.1),
            pytest.param([33, 64], 2, 0.1, marks=pytest.mark.thorough),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("layout", ["full", "padded", "packed"])
    def test_as_eager(self, lengths, num_heads, layout, dropout, monkeypatch):
        padding = None if layout == "full" else padded(lengths, pack=layout == "packed")
        qkv, bias = inputs(len(lengths), max(lengths), num_heads)
        grad = torch.randn_like(qkv[:, :, 0])
        expected_qkv, expected_grad = qkv, grad
        if layout == "packed":
            qkv, expected_qkv, grad, expected_grad = (
                padding.pack(x) for x in (qkv, qkv, grad, grad)
            )
        elif layout == "padded":
            # values at padding do not matter
            expected_qkv, expected_grad = qkv.clone(), grad.clone()
            qkv[padding.mask] = grad[padding.mask] = float("nan")
            expected_qkv[padding.mask] = expected_grad[padding.mask] = 0
        torch.manual_seed(7)
        found = attend(qkv, bias, padding, dropout, grad)
        if dropout:  # of any layout: test_the_mask_depends_on_the_seed_alone
            keep = kept_once(7, len(lengths), max(lengths), num_heads, dropout)
            use_dropout(monkeypatch, keep)
        expected = attend(expected_qkv, bias, padding, dropout, expected_grad, eager_attention)
        if layout == "padded":
            expected[0][padding.mask] = 0
        assert_close(found, expected)

    def test_documents_of_one_length_and_of_others(self):
        """Without padding between them or anywhere."""
        for firsts in ([0, 5], [0, 3, 9]):
            starts = torch.zeros(1, 10, dtype=torch.bool)
            starts[0, firsts] = True
            documents = Documents(starts, torch.zeros_like(starts))
            qkv, bias = inputs(1, 10, 2)
            qkv, bias = qkv[0], bias[:, : documents.seq_len, : documents.seq_len]
            expected = attend(qkv, bias, documents, function=eager_attention)
            assert_close(attend(qkv, bias, documents), expected)

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "length, seq_len, tile", [(300, 500, (128, 64)), (512, 512, (64, 128))], ids=str
    )
    def test_long_sequences_in_larger_tiles(self, length, seq_len, tile, monkeypatch):
        """Some blocks are padding alone.  Against float64, which here is exact in comparison."""
        set_tiles(monkeypatch, *tile)
        qkv, bias = inputs(1, seq_len, 1, 8)
        padding = padded([length], seq_len=seq_len)
        grad = torch.randn_like(qkv[:, :, 0]).masked_fill(padding.mask[:, :, None, None], 0)
        exact = [x.double() for x in (qkv, bias, grad)]
        expected = attend(*exact[:2], padding, grad=exact[2], function=eager_attention)
        expected[0][padding.mask] = 0
        found = attend(qkv, bias, padding, grad=grad)
        assert_close(found, [x.float() for x in expected])

    def test_no_bias(self):
        qkv, _ = inputs()
        q, k, v = qkv.requires_grad_().unbind(2)
        outs = [
            function(q, k, v, None, None, scaling=SCALING, dropout=0.0)
            for function in (triton_attention, eager_attention)
        ]
        grads = [torch.autograd.grad(out.square().sum(), qkv)[0] for out in outs]
        torch.testing.assert_close(*outs, **CLOSE)
        torch.testing.assert_close(*grads, **CLOSE)

    def test_a_huge_bias_at_padding(self):
        """Its exponential is infinite, and infinity times zero is not zero."""
        qkv, bias = inputs(num_heads=1)
        padding = padded([9, 4], pack=True, seq_len=17)
        huge = bias.clone()
        huge[:, 9:] = huge[:, :, 9:] = 1e4
        expected = attend(padding.pack(qkv), bias, padding)
        for found, unmoved in zip(attend(padding.pack(qkv), huge, padding), expected):
            assert found.equal(unmoved)

    @pytest.mark.parametrize(
        "head_dim", [1, *(pytest.param(dim, marks=pytest.mark.thorough) for dim in (16, 72)), 128]
    )
    def test_head_dims(self, head_dim):
        qkv, bias = inputs(1, 33, 2, head_dim)
        assert_close(attend(qkv, bias), attend(qkv, bias, function=eager_attention))

    def test_any_strides(self):
        """Of q, k, v, the bias and the gradient of the output."""
        q = torch.randn(2, 3, 17, 5).transpose(1, 2).requires_grad_()
        k = torch.randn(2, 17, 3, 9)[..., 2:7].requires_grad_()
        v = torch.randn(2, 17, 5, 3).transpose(2, 3).requires_grad_()
        bias = torch.randn(17, 3, 20)[..., 3:].permute(1, 2, 0).requires_grad_()
        grad = torch.randn(3).view(1, 1, 3, 1).expand(q.shape)
        found, expected = (
            torch.autograd.grad(
                function(q, k, v, bias, None, scaling=SCALING, dropout=0.0), (q, k, v, bias), grad
            )
            for function in (triton_attention, eager_attention)
        )
        for pair in zip(found, expected):
            torch.testing.assert_close(*pair, **CLOSE)

    def test_kept_rate(self):
        keep = kept(3, 2, 100, 3, 0.3).double()
        # five standard deviations of the mean of so many draws
        assert abs(keep.mean() - 0.7) < 5 * (0.21 / keep.numel()) ** 0.5
        # nor by position in a call of Philox, or in any head, row or column
        for dims in ((2, 3), (0, 1, 2), (0, 1, 3)):
            means = keep.mean(dims)
            bound = 5 * (0.21 * means.numel() / keep.numel()) ** 0.5
            assert (means - 0.7).abs().max() < bound, dims
        # neighbours of every kind are independent
        drop = keep - 0.7
        for dim in range(4):
            pairs = drop * drop.roll(1, dim)
            assert abs(pairs.mean()) < 5 * 0.21 / keep.numel() ** 0.5, dim

    def test_dropout_of_everything(self):
        qkv, bias = inputs(1, num_heads=2)
        for found in attend(qkv, bias, dropout=1.0):
            assert found.eq(0).all()

    def test_the_mask_depends_on_the_seed_alone(self):
        """Not on the tiles, and not on padding and how it travels."""
        lengths = [9, 17, 0]
        first = kept(7, 3, 17, 2, 0.5)
        assert not kept(8, 3, 17, 2, 0.5).equal(first)
        for pack in (False, True):
            padding = padded(lengths, pack)
            real = ~padding.mask
            visible = real[:, None, :, None] & real[:, None, None, :]
            assert kept(7, 3, 17, 2, 0.5, padding).equal(first & visible)
        assert kept(7, 3, 17, 2, 0.5, tile=(64, 16)).equal(first)

    def test_same_seed_same_result(self):
        qkv, bias = inputs(1, num_heads=1)
        results = []
        for seed in (7, 7, 8):
            torch.manual_seed(seed)
            results.append(attend(qkv, bias, dropout=0.2))
        for first, second, third in zip(*results):
            assert first.equal(second) and not first.equal(third)

    def test_twice_in_one_graph(self):
        """As layers use it: one bias, which gets the sum."""

        def two_layers(q, k, v, bias, padding, *, function, **options):
            out = function(q, k, v, bias, padding, **options)
            return function(out, k, out, bias, padding, **options)

        qkv, bias = inputs(2, num_heads=1)
        found, expected = (
            attend(qkv, bias, function=lambda *a, f=f, **o: two_layers(*a, function=f, **o))
            for f in (triton_attention, eager_attention)
        )
        assert_close(found, expected)

    def test_only_what_needs_a_gradient_is_computed(self, monkeypatch):
        from tupe_fairseq.attention import triton_kernels

        qkv, bias = inputs(1, num_heads=2)
        _, grad_qkv, grad_bias = attend(qkv, bias)
        grad_q, grad_k, grad_v = grad_qkv.unbind(2)
        expected = {"grad_q": [grad_q], "grad_kv": [grad_k, grad_v], "grad_bias": [grad_bias]}
        wanted = {"grad_q": (0,), "grad_kv": (1, 2), "grad_bias": (3,)}
        for needed, indices in wanted.items():
            with monkeypatch.context() as patch:
                for other in expected.keys() - {needed}:
                    patch.setattr(triton_kernels, f"{other}_kernel", None)
                leaves = [x.detach().clone() for x in (*qkv.unbind(2), bias)]
                for index in indices:
                    leaves[index].requires_grad_()
                out = triton_attention(*leaves, None, scaling=SCALING, dropout=0.0)
                out.backward(torch.cos(torch.arange(out.numel())).view(out.shape))
                for index, grad in zip(indices, expected[needed]):
                    torch.testing.assert_close(leaves[index].grad, grad, **CLOSE)

    def test_without_gradient(self):
        qkv, bias = inputs(1, num_heads=1)
        expected = attend(qkv, bias)[0]
        with torch.no_grad():
            out = triton_attention(
                *qkv.requires_grad_().unbind(2), bias, None, scaling=SCALING, dropout=0.0
            )
        assert out.equal(expected) and not out.requires_grad

    def test_no_second_derivative(self):
        qkv, bias = inputs(1, num_heads=1)
        q, k, v = qkv.requires_grad_().unbind(2)
        out = triton_attention(q, k, v, bias, None, scaling=SCALING, dropout=0.0)
        (grad,) = torch.autograd.grad(out.square().sum(), qkv, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad.sum().backward()

    @pytest.mark.parametrize("use_reentrant", [False, True])
    def test_activation_checkpointing(self, use_reentrant):
        def checkpointed(*inputs, **options):
            def function(*inputs):
                return triton_attention(*inputs, **options)

            return checkpoint(function, *inputs, use_reentrant=use_reentrant)

        qkv, bias = inputs(1, num_heads=1)
        results = []
        for function in (triton_attention, checkpointed):
            torch.manual_seed(7)
            results.append(attend(qkv, bias, dropout=0.2, function=function))
        for found, expected in zip(*results):
            assert found.equal(expected)

    @pytest.mark.parametrize(
        "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.thorough)]
    )
    def test_16_bits(self, dtype, monkeypatch):
        """Close to float32 on the same rounded q, k and v, for any content of the bias."""
        bfloat16_products(monkeypatch)
        qkv, bias = inputs(2, 40, 3, 8)
        qkv, bias = qkv.to(dtype), bias + 100 * torch.randn(3, 40, 1)
        out, grad_qkv, grad_bias = attend(qkv, bias)
        assert out.dtype == grad_qkv.dtype == dtype and grad_bias.dtype == torch.float32
        expected = attend(qkv.float(), bias, function=eager_attention)
        # a few roundings of numbers around 1, each of at most half of this
        assert_close(
            (out.float(), grad_qkv.float(), grad_bias),
            expected,
            rtol=0,
            atol=4 * torch.finfo(dtype).eps,
        )

    @pytest.mark.parametrize("dropout", [0.0, 0.1])
    def test_nothing_large_is_saved(self, dropout):
        qkv, bias = inputs(2, 40, 2, 5)
        bias.requires_grad_()
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
            triton_attention(
                *qkv.requires_grad_().unbind(2), bias, None, scaling=SCALING, dropout=dropout,
            )  # fmt: skip
        own = [x for x in saved if x.data_ptr() != bias.data_ptr()]
        assert len(saved) - len(own) == 1
        assert sum(x.numel() for x in own) == 2 * 40 * 2 * (4 * 5 + 1)  # q, k, v, out; logsumexp

    def test_an_empty_batch(self):
        qkv, bias = inputs(batch=0)
        out, grad_qkv, grad_bias = attend(qkv, bias)
        assert out.shape == (0, 17, 3, 5) and grad_qkv.shape == qkv.shape and grad_bias.eq(0).all()

    def test_it_refuses_nothing_it_can_do(self):
        q = torch.zeros(2, 17, 3, 128)
        assert triton_refusal(q, as_bias(torch.zeros(3, 17, 17)), padded([17, 4])) is None
