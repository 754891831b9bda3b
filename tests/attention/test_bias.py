"""A bias in factors: what it is made of, block by block, against loops, and its gradients."""

import pytest
import torch
from tupe_fairseq.attention.distance_blocks import DistanceBlocks

from helpers.attention_cases import HEADS, SCALING, Request, assert_near, lengths_of
from tupe_fairseq.attention import Bias, KeepMask, Padding, blocked, chunked

SEQ_LEN, WIDTH = 17, 4
KINDS = {
    "products": (True, False, False),
    "distances": (False, True, False),
    "both": (True, True, False),
    "first_spared": (True, True, True),
    "distances_first_spared": (False, True, True),
}
kinds = pytest.mark.parametrize("kind", list(KINDS))


def factors_of(kind, seq_len=SEQ_LEN, dtype=torch.float64):
    """queries, keys, by_distance, spares_first; leaves."""
    has_products, has_distances, spares_first = KINDS[kind]

    def leaf(*shape):
        return torch.randn(HEADS, *shape, dtype=dtype).requires_grad_()

    products = (leaf(seq_len, WIDTH), leaf(seq_len, WIDTH)) if has_products else (None, None)
    return (*products, leaf(2 * seq_len - 1) if has_distances else None, spares_first)


def multiplied_out(queries, keys, by_distance, spares_first, seq_len=SEQ_LEN):
    """The definition, entry by entry."""
    rows = []
    for h in range(HEADS):
        for i in range(seq_len):
            for j in range(seq_len):
                entry = torch.zeros((), dtype=torch.float64)
                if queries is not None:
                    entry = entry + (queries[h, i] * keys[h, j]).sum()
                if by_distance is not None and not (spares_first and 0 in (i, j)):
                    entry = entry + by_distance[h, j - i + seq_len - 1]
                rows.append(entry)
    return torch.stack(rows).view(HEADS, seq_len, seq_len)


def leaves_of(factors):
    return [x for x in factors[:3] if x is not None]


@kinds
def test_the_whole_and_its_gradient_are_the_definitions(kind):
    factors = factors_of(kind, 5)
    bias = Bias.of_factors(*factors)
    expected = multiplied_out(*factors, 5)
    assert bias.shape == expected.shape
    torch.testing.assert_close(bias.whole(), expected, rtol=0, atol=1e-14)
    weights = torch.randn_like(expected)
    ours, theirs = (
        torch.autograd.grad((x * weights).sum(), leaves_of(factors))
        for x in (bias.whole(), expected)
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("spares_first", [False, True], ids=["all", "first_spared"])
@pytest.mark.parametrize("num_queries, num_keys, num_heads", [(17, 17, 3), (4, 6, 2), (5, 17, 1)])
@pytest.mark.parametrize("length", [SEQ_LEN, 11])
def test_blocks_of_distances(length, num_queries, num_keys, num_heads, spares_first):
    factors = (None, None, factors_of("distances")[2], spares_first)
    whole = multiplied_out(*factors)[:, :length, :length]
    weights = torch.randn_like(whole)
    (expected,) = torch.autograd.grad((whole * weights).sum(), factors[2])
    grad = torch.zeros_like(expected)
    blocks = DistanceBlocks(factors[2].detach(), grad, spares_first)
    # the order of the queries in a block: from the last one of the sequence on
    shown, weights = (x.detach().flip(1) for x in (whole, weights))
    for head in range(0, HEADS, num_heads):
        heads = slice(head, min(head + num_heads, HEADS))
        for i in range(0, length, num_queries):
            for j in range(0, length, num_keys):
                place = heads, slice(i, i + num_queries), slice(j, j + num_keys)
                scores = torch.full_like(shown[place], float("nan"))
                blocks.fill(scores, heads, (i, j), length)
                assert scores.equal(shown[place])
                block = blocks.grad_block(scores.shape).copy_(weights[place])
                blocks.gather(block, heads, (i, j), length)
    torch.testing.assert_close(grad, expected, rtol=0, atol=1e-13)


def answer(request, name, factors, make, **options):
    """Outputs, gradient of the projection, gradients of the factors."""
    for leaf in leaves_of(factors):
        leaf.grad = None
    qkv, _ = request.leaves()
    out = request.attend(name, qkv, make(*factors), **options)
    (out * request.weights).sum().backward()
    return [out.detach(), qkv.grad, *(leaf.grad for leaf in leaves_of(factors))]


def multiplied(*factors):
    return Bias(Bias.of_factors(*factors).whole())


def assert_same(actual, expected, tolerance):
    assert_near(actual[:2], expected[:2], tolerance)
    for ours, theirs in zip(actual[2:], expected[2:]):
        assert_near([ours], [theirs], tolerance)


@kinds
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("pattern", ["none", "mixed", "empty"])
def test_chunked_in_blocks_of_any_size_is_eager(monkeypatch, kind, pattern, packed):
    request = Request(SEQ_LEN, lengths_of(pattern, SEQ_LEN), packed=packed)
    factors = factors_of(kind)
    expected = answer(request, "eager", factors, multiplied)
    for threads, queries, keys in ((1, 128, 512), (2, 4, 6), (3, 5, 17), (1, 1, 1)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        monkeypatch.setattr(blocked, "QUERIES", queries)
        monkeypatch.setattr(blocked, "KEYS", keys)
        assert_same(answer(request, "chunked", factors, Bias.of_factors), expected, 1e-13)


def with_the_same_masks(request, factors, p, size):
    """eager's equation, with the masks that the next call of chunked will draw."""
    keep, masks = KeepMask(p), torch.zeros(len(request.lengths), HEADS, SEQ_LEN, SEQ_LEN).double()
    for b, length in enumerate(request.lengths):
        for h in range(HEADS):
            turned = torch.zeros(length, length).double()
            for i in range(0, length, size):
                for j in range(0, length, size):
                    keep.begin(h, b, i, j)
                    block = turned[i : i + size, j : j + size]
                    ones = torch.ones(block.shape).double()
                    block.copy_(keep.drop(ones, out=torch.empty_like(ones)))
            masks[b, h, :length, :length] = turned.flip(0)
    leaves = [leaf for leaf in factors[:3] if leaf is not None]
    qkv, _ = request.leaves()
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    scores = SCALING * q @ k.transpose(-1, -2) + multiplied(*factors).values
    scores = scores.masked_fill(~request.real[:, None, None, :], -1e9)
    out = (scores.softmax(dim=-1) * masks * keep.scale @ v).transpose(1, 2)
    loss = (out * request.weights).sum()
    return [
        out.detach() * request.real[:, :, None, None],
        *torch.autograd.grad(loss, [qkv, *leaves]),
    ]


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_dropout_is_the_equation_under_its_masks_with_any_threads(monkeypatch, packed):
    request = Request(SEQ_LEN, lengths_of("empty", SEQ_LEN), packed=packed)
    factors = factors_of("first_spared")
    monkeypatch.setattr(blocked, "QUERIES", 5)
    monkeypatch.setattr(blocked, "KEYS", 5)
    torch.manual_seed(5)
    expected = with_the_same_masks(request, factors, 0.3, 5)
    for threads in (1, 2, 7):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        torch.manual_seed(5)
        actual = answer(request, "chunked", factors, Bias.of_factors, dropout=0.3)
        assert_same(actual, expected, 1e-12)


@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_those_that_read_no_factors_multiply_them_out(name):
    request = Request(SEQ_LEN, lengths_of("mixed", SEQ_LEN))
    factors = factors_of("first_spared")
    expected = answer(request, "eager", factors, multiplied)
    assert_same(answer(request, name, factors, Bias.of_factors), expected, 1e-13)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-6), (torch.bfloat16, 2**-6)])
def test_chunked_in_other_precisions(dtype, tolerance):
    """Factors in float32; those of 16-bit models are, too."""
    request = Request(64, lengths_of("mixed", 64), dtype=torch.float32)
    request.qkv = request.qkv.to(dtype)
    factors = factors_of("first_spared", 64, torch.float32)
    actual = answer(request, "chunked", factors, Bias.of_factors)
    assert actual[0].dtype == dtype and actual[2].dtype == torch.float32
    request.qkv = request.qkv.double()
    exact = [None if x is None else x.detach().double().requires_grad_() for x in factors[:3]]
    expected = answer(request, "eager", (*exact, True), multiplied)
    assert_same(actual, expected, tolerance)


def test_factors_without_gradient():
    request = Request(SEQ_LEN, lengths_of("mixed", SEQ_LEN))
    factors = [x.detach() for x in factors_of("first_spared")[:3]]
    bias = Bias.of_factors(*factors, True)
    assert not bias.values.requires_grad
    expected = answer(request, "eager", (None,) * 3, lambda *_: Bias(bias.whole()))
    assert_same(answer(request, "chunked", (None,) * 3, lambda *_: bias), expected, 1e-13)


def test_nothing_of_the_size_of_the_scores_is_kept_or_made(monkeypatch):
    """The largest tensor of a step grows with the length alone, once tiles do not."""
    monkeypatch.setattr(blocked, "QUERIES", 8)
    monkeypatch.setattr(blocked, "KEYS", 8)

    def largest(seq_len):
        request = Request(seq_len, dtype=torch.float32, batch=1, bias=False)
        sizes = [0]

        class Seen(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                out = function(*args, **(kwargs or {}))
                for x in out if isinstance(out, (tuple, list)) else [out]:
                    if isinstance(x, torch.Tensor):
                        has_untyped = hasattr(x, "untyped_storage")  # torch 2.0
                        storage = x.untyped_storage() if has_untyped else x.storage()
                        sizes.append(storage.nbytes())
                return out

        factors = factors_of("first_spared", seq_len, torch.float32)
        with Seen():
            answer(request, "chunked", factors, Bias.of_factors)
        return max(sizes)

    assert largest(256) <= 2.5 * largest(128)


def test_copies_for_kernels_are_made_once_and_shared_with_other_graphs():
    bias = Bias(torch.randn(HEADS, 5, 5, requires_grad=True))
    copy = bias.copy_in(torch.bfloat16)
    assert copy.dtype == torch.bfloat16 and not copy.requires_grad
    assert copy.float().amax(-1).eq(0).all()
    again = bias.holding(bias.values.detach().requires_grad_())
    assert again is not bias and again.copy_in(torch.bfloat16) is copy
    assert bias.holding(bias.values) is bias
    # others than this one's numbers
    assert bias.holding(bias.values.detach() + 1).copy_in(torch.bfloat16) is not copy
    # a shorter sequence has copies of its own, whose rows have maxima of their own
    with torch.no_grad():
        assert bias.corner(torch.bfloat16, 3).float().amax(-1).eq(0).all()
        assert bias.corner(torch.bfloat16, 5) is copy


def test_what_chunked_refuses_in_factors_as_well():
    bias = Bias.of_factors(*factors_of("both"))
    assert bias.shape == (HEADS, SEQ_LEN, SEQ_LEN)
    mask = torch.zeros(2, SEQ_LEN, dtype=torch.bool)
    mask[0, 3] = True
    q = torch.zeros(2, SEQ_LEN, HEADS, 5)
    assert "end of the sequences" in chunked.chunked_refusal(q, bias, Padding(mask))
    assert chunked.chunked_refusal(q, bias, None) is None
    assert "one attn_bias" in chunked.chunked_refusal(q[:, 1:], bias, None)
