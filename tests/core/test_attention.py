"""eager, sdpa and chunked against the equation of attention, sequence by sequence in float64."""

import itertools
import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from helpers.position_cases import Operations
from tupe_fairseq.attention import chunked
from tupe_fairseq.attention.base import (
    EagerAttention,
    SdpaAttention,
    aligned,
    attend_eagerly,
    attend_fused,
    make_mask,
)
from tupe_fairseq.attention.chunked import ChunkedAttention
from tupe_fairseq.attention.sequences import Sequences, isolate
from tupe_fairseq.encoder import FEW_SCORES, Scores, choose
from tupe_fairseq.modules.heads import POOLINGS

B, L, H, K, SCALING = 3, 9, 2, 5, 0.3
CPU = torch.device("cpu")
CLASSES = {"eager": EagerAttention, "sdpa": SdpaAttention, "chunked": ChunkedAttention}
NAMES = list(CLASSES)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def padding_of(lengths, seq_len=L):
    return torch.arange(seq_len) >= torch.tensor(lengths)[:, None]


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_()


def by_the_equation(q, k, v, bias, lengths):
    """softmax(scaling * q k^T + bias) v of each sequence alone, zeros at its padding."""
    rows = []
    for b, n in enumerate(lengths):
        qs, ks, vs = (x[b, :n].transpose(0, 1) for x in (q, k, v))
        scores = SCALING * qs @ ks.transpose(1, 2) + (0 if bias is None else bias[:, :n, :n])
        row = (scores.softmax(-1) @ vs).transpose(0, 1)
        rows.append(torch.cat([row, row.new_zeros(q.size(1) - n, H, K)]))
    return torch.stack(rows)


def attend(name, q, k, v, bias, lengths, dropout=0.0, **others):
    """The output of an implementation for a padded batch, with zeros at padding."""
    sequences = Sequences(q.shape[:2], CPU, padding_of(lengths, q.size(1)), **others)
    return of_sequences(name, q, k, v, bias, sequences, dropout)


def of_sequences(name, q, k, v, bias, sequences, dropout=0.0):
    qkv = sequences.whole.pack(torch.stack((q, k, v), dim=2))
    out = CLASSES[name](sequences, qkv.dtype, bias)(qkv, scaling=SCALING, dropout=dropout)
    return sequences.whole.unpack(out)


def with_gradients(out, leaves):
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(3), dtype=out.dtype)
    return [out, *torch.autograd.grad((out * weights).sum(), leaves)]


@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_padding_that_stays(name):
    """Padding in the middle, or too little to be worth packing."""
    q, k, v = (random(B, L, H, K) for _ in range(3))
    bias, leaves = random(H, L, L), [q, k, v]
    middle, little = padding_of([9, 4, 7]), padding_of([9, 8, 7])
    middle[0, 3:5] = True
    for mask, least in ((middle, 0.0), (little, 0.2)):
        sequences = Sequences((B, L), CPU, mask, least_padding=least)
        assert sequences.lengths is None and sequences.whole.places is None
        scores = SCALING * torch.einsum("bihk,bjhk->bhij", q, k) + bias
        probs = scores.masked_fill(mask[:, None, None, :], float("-inf")).softmax(-1)
        expected = torch.einsum("bhij,bjhk->bihk", probs, v)[~mask]
        out = of_sequences(name, q, k, v, bias, sequences)[~mask]
        for ours, theirs in zip(with_gradients(out, leaves), with_gradients(expected, leaves)):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[[9], [4, 5], [5, 2]], [[1] * 9, [9], [2, 1]]], ids=str)
def test_documents_need_little_room(lengths):
    """Even where a padded batch of all documents would be much larger than the original batch."""
    starts = torch.zeros(B, L, dtype=torch.bool)
    for row, documents in enumerate(lengths):
        starts[row, [*itertools.accumulate(documents)][:-1]] = True
    padding = padding_of([sum(documents) for documents in lengths])
    sequences = Sequences((B, L), CPU, padding)
    isolate(sequences, starts)
    assert sequences.lengths == sum(lengths, [])
    assert sequences.positions.tolist() == [t for n in sequences.lengths for t in range(n)]
    assert sum(math.prod(batch.shape) for batch in sequences.batches[0]) <= 2 * B * L


# ---- 16 bits, large logits ----------------------------------------------------------------------


@pytest.mark.parametrize("large", [0.0, 1e4], ids=["bias of 1", "bias of 1e4"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_precision(name, dtype, large):
    """A bias that lifts or lowers whole rows, and hides or prefers keys, by 1e4."""
    lengths = [9, 0, 4]
    q, k, v = (random(B, L, H, K, dtype=dtype) for _ in range(3))
    rows, columns = torch.randint(-1, 2, (H, L, 1)), torch.randint(-1, 1, (H, 1, L))
    bias = (torch.randn(H, L, L) + large * (rows + columns)).requires_grad_()
    out = attend(name, q, k, v, bias, lengths)
    weights = torch.randn(out.shape).to(dtype)
    grads = torch.autograd.grad((out * weights).sum(), [q, k, v, bias])
    exact = [x.detach().double().requires_grad_() for x in (q, k, v, bias)]
    expected = by_the_equation(*exact, lengths)
    exact_grads = torch.autograd.grad((expected * weights.double()).sum(), exact)
    # a dozen roundings of numbers of 1 to 10; and float32 rounds a logit of 1e4 by 2^-24 of it
    tolerance = 16 * torch.finfo(dtype).eps + large * 2**-22
    assert out.dtype == dtype and bias.dtype == torch.float32
    for ours, theirs in zip((out, *grads), (expected, *exact_grads)):
        assert ours.isfinite().all()
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=tolerance * scale)


def test_probabilities_of_16_bits_are_float32_with_a_mask_or_without():
    q, k = (random(B, L, H, K, dtype=torch.bfloat16) for _ in range(2))
    for mask in (None, torch.zeros(L, L)):
        weights = []
        attend_eagerly(q, k, k, mask, scaling=SCALING, dropout=0.0, weights=weights)
        torch.testing.assert_close(weights[0].sum(-1), torch.ones(B, H, L))


@torch.no_grad()
def test_a_gpu_gets_an_aligned_mask_once_and_no_cudnn():
    """Tested with torch's fake tensors, which need no GPU."""
    with FakeTensorMode() as mode, Operations() as ran:

        def on_gpu(*shape):
            values = torch.empty(*shape, device="meta", dtype=torch.bfloat16)
            return FakeTensor(mode, values, torch.device("cuda", 0))

        mask = make_mask(on_gpu(H, 13, 13), None, torch.bfloat16)
        assert mask.stride(-2) == 16
        rows = [aligned(on_gpu(L, L, H).movedim(-1, 0)).stride()[1:] for L in (13, 16, 1)]
        assert rows == [(16, 1), (16, 1), (8, 1)]
        ran.names.clear()
        mask = make_mask(on_gpu(H, 13, 13), None, torch.bfloat16)
        q = on_gpu(B, 13, H, 16)
        for _ in range(2):
            assert attend_fused(q, q, q, mask, scaling=1.0, dropout=0.0).shape == q.shape
    assert sum("constant_pad" in name for name in ran.names) == 1
    assert sum("efficient_attention" in name for name in ran.names) == 2
    assert not any("clone" in name or "_to_copy" in name for name in ran.names)


# ---- Dropout ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p, tile", [(0.3, 2**18), (0.3, 81), (0.3, 40), (0.0, 1), (1.0, 162)])
def test_chunked_with_dropout_is_its_equation(monkeypatch, p, tile):
    """dropout(P) V and its gradients, with the same masks drawn again, for tiles of any size."""
    monkeypatch.setattr(chunked, "TILE", tile)
    lengths = [7, 0, 9, 1]
    n, longest = sum(lengths), max(lengths)
    leaves = q, k, v, bias = *(random(n, H, K) for _ in range(3)), random(H, longest, longest)
    torch.manual_seed(1)
    sequences = Sequences((4, longest), CPU, padding_of(lengths, longest))
    qkv = torch.stack((q, k, v), dim=1)
    out = ChunkedAttention(sequences, qkv.dtype, bias)(qkv, scaling=SCALING, dropout=p)
    torch.manual_seed(1)
    dropout = chunked.DropoutMask(p, int(torch.randint(2**62, ()))) if p else None
    keep = {}
    for where in chunked.make_tiles(lengths, H):
        ones = torch.ones([x.stop - x.start for x in (where.heads, where.rows, where.tokens)])
        ones, size = ones.double(), ones.size(2)
        of_sequence = keep.setdefault(where.tokens.start, torch.ones(H, size, size).double())
        drawn = dropout.drop(ones, out=torch.empty_like(ones)) * dropout.scale if p else ones
        of_sequence[where.heads, where.rows] = drawn
    parts, start = [], 0
    for length in lengths:
        qs, ks, vs = (x[start : start + length].transpose(0, 1) for x in (q, k, v))
        probs = (SCALING * qs @ ks.transpose(1, 2) + bias[:, :length, :length]).softmax(-1)
        if length:
            parts.append(((probs * keep[start]) @ vs).transpose(0, 1))
        start += length
    results = with_gradients(out, leaves), with_gradients(torch.cat(parts), leaves)
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_keeps_its_share_and_the_mean(name):
    """For equal probabilities and values 1, an output is the share that is kept, over 1 - p."""
    length, p = 64, 0.25
    q = k = torch.zeros(2, length, H, K)
    v = torch.ones(2, length, H, K)
    torch.manual_seed(1)
    out = attend(name, q, k, v, None, [length] * 2, dropout=p)[..., 0]
    draws = out.numel() * length
    # five standard deviations of the mean of so many draws
    assert abs(out.mean() - 1) < 5 * math.sqrt(p / (1 - p) / draws)
    assert abs(out.std() - math.sqrt(p / (1 - p) / length)) < 0.02
    assert out.unique().numel() > 10
    torch.manual_seed(1)
    assert attend(name, q, k, v, None, [length] * 2, dropout=p)[..., 0].equal(out)
    assert not attend(name, q, k, v, None, [length] * 2, dropout=p)[..., 0].equal(out)
    assert not attend(name, q, k, v, None, [length] * 2, dropout=1.0).any()


def test_chunked_does_not_depend_on_threads_and_saves_no_probabilities():
    n, length = 512, 256
    qkv = random(n, 3, H, K, dtype=torch.float32)
    bias, sequences = random(H, length, length, dtype=torch.float32), Sequences((2, length), CPU)
    saved, results, threads = [], [], torch.get_num_threads()
    for number in (1, 2):
        torch.set_num_threads(number)
        torch.manual_seed(2)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
            attention = ChunkedAttention(sequences, qkv.dtype, bias)
            out = attention(qkv, scaling=SCALING, dropout=0.1)
        results.append(with_gradients(out, [qkv, bias]))
    torch.set_num_threads(threads)
    for one, two in zip(*results):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
    assert sum(x.numel() for x in saved) == 2 * (4 * n * H * K + bias.numel())


# ---- Sequences and the choice -------------------------------------------------------------------


def test_what_auto_chooses():
    def chosen(name="auto", device=CPU, mask=None, length=128, **more):
        sequences = Sequences((1, length), CPU, mask)
        sequences.device = device
        scores = Scores(torch.float32, 1, 16, more.get("has_content_bias", False))
        return choose(name, sequences, scores, more.get("is_trained", True))

    assert 128**2 == FEW_SCORES
    cuda, content = torch.device("cuda"), {"has_content_bias": True}
    middle = {"mask": torch.tensor([[False, True, False]]), "length": 3}
    assert chosen() is chosen(mask=padding_of([100, 128], 128)) is ChunkedAttention
    assert chosen(**middle) is chosen(**content) is chosen(length=127) is EagerAttention
    assert chosen(is_trained=False) is chosen(device=cuda) is SdpaAttention
    assert [chosen(name, length=1) for name in NAMES] == list(CLASSES.values())
    for options, reason in (({"device": cuda}, "CPU only.*cuda"), (middle, "padding at the end")):
        with pytest.raises(ValueError, match=f"attn_impl chunked .*{reason}.*; use auto"):
            chosen("chunked", **options)


# ---- Pooling ------------------------------------------------------------------------------------


def test_a_mean_of_16_bits_whose_sum_is_beyond_them():
    many = torch.full((1, 4000, 2), 60.0, dtype=torch.float16)
    assert (POOLINGS["mean"](many, torch.ones(1, 4000, dtype=torch.bool)) == 60).all()
