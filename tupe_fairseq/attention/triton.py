"""Attention in Triton, with dropout and a learned bias that all sequences share.

For one head of one sequence, with r = 1 / (1 - p), and lse and delta one number per query:
    P = 2^(scaling / ln 2 * q k^T + bias / ln 2 - lse),    out = r (kept * P) v
    dS = r (kept * P * (dO v^T) - P * delta),              delta = sum(O * dO) / r
    dq = scaling dS k,  dk = scaling dS^T q,  dv = r (kept * P)^T dO,  dbias = sum of all dS
    As in FlashAttention, Dao et al. 2022, appendix B, https://arxiv.org/abs/2205.14135
Nothing of size sequences x n x n is stored: every kernel computes P again. A program of the bias
kernel owns a tile of the bias and loops over the sequences. So it needs no atomics, sums in a fixed
order, and accumulates the gradient in float32.
"""

import math
import os
from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe_fairseq.attention.base import Attention
from tupe_fairseq.attention.sequences import to_device

# (is 16-bit, head_dim) -> a tile each for the forward pass and for the gradients of queries, keys
# and bias: (queries, keys, warps, stages, registers per thread), sizes are multiples of 16 up to
# 128. Timed on an H100 for 16 bits and 64; the others follow the compiler's reports
_WIDE, _NARROW, _DEEP = (128, 64, 8, 2, 128), (64, 64, 4, 2, 255), (64, 64, 4, 3, 255)
TILES = {(True, dim): (_DEEP, _WIDE, _DEEP, _NARROW) for dim in (16, 32, 64)}
TILES[True, 128] = ((128, 64, 8, 2, 255), _NARROW, (64, 64, 8, 2, 255), _NARROW)
TILES |= {(False, dim): ((32, 32, 8, 1, 255),) * 4 for dim in (16, 32, 64, 128)}
PROGRAMS = 264  # the least for the bias kernel: two on each multiprocessor of an H100
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # read by triton.jit below
_SIZES = ["num_sequences", "num_tokens", "longest", "groups", "num_dropped"]


def _jit(function):
    return triton.jit(function, do_not_specialize=_SIZES)


@_jit
def _place(spans, num_sequences, longest, BLOCK: tl.constexpr, HEADS: tl.constexpr):
    """(stream, head, first position, first token, length) of a program that owns BLOCK positions.

    A stream is one head of one sequence. Consecutive programs read the same part of the bias.
    """
    sequence, number = tl.program_id(0) % num_sequences, tl.program_id(0) // num_sequences
    head, block = number // tl.cdiv(longest, BLOCK), number % tl.cdiv(longest, BLOCK)
    start, length = tl.load(spans + 2 * sequence), tl.load(spans + 2 * sequence + 1)
    return sequence * HEADS + head, head, block * BLOCK, start.to(tl.int64), length


@_jit
def _load(ptr, rows, length, ROW: tl.constexpr, DIM: tl.constexpr, MASK: tl.constexpr):
    ptr += rows[:, None] * ROW + tl.arange(0, DIM)[None, :]
    return tl.load(ptr, mask=rows[:, None] < length, other=0.0) if MASK else tl.load(ptr)


@_jit
def _store(ptr, values, rows, length, ROW: tl.constexpr, DIM: tl.constexpr):
    ptr += rows[:, None] * ROW + tl.arange(0, DIM)[None, :]
    tl.store(ptr, values.to(ptr.dtype.element_ty), mask=rows[:, None] < length)


@_jit
def _stats(ptr, rows, length, MASK: tl.constexpr):
    """(lse, delta), the first of four numbers per query: two would be copied by every thread."""
    pairs = tl.reshape(_load(ptr, rows, length, 4, 4, MASK), (rows.shape[0], 2, 2))
    return tl.split(tl.split(tl.permute(pairs, (0, 2, 1)))[0])


@_jit
def _dot(a, b, c=None):
    return tl.dot(a, b, c, input_precision="ieee")


@_jit
def _bias(ptr, head, rows, columns, longest, length, MASK: tl.constexpr):
    """A tile of the padded bias in base 2, -inf to the right of ``length``. Needs no load mask."""
    tile = tl.zeros([rows.shape[0], columns.shape[0]], tl.float32)
    if ptr is not None:
        width = tl.cdiv(longest, 128) * 128
        ptr += tl.cast(head, tl.int64) * width * width
        tile = tl.load(ptr + rows[:, None] * width + columns[None, :]).to(tl.float32)
    return tl.where(columns[None, :] < length, tile, float("-inf")) if MASK else tile


@_jit
def _drop(
    values, seed, stream, row, column, num_dropped, BY_KEY: tl.constexpr, DROPOUT: tl.constexpr
):  # fmt: skip
    """Dropout without the factor r. The mask only depends on seed, stream, query and key.

    Philox-2x32 (Salmon et al. 2011), with the seven rounds that pass its tests, makes a word for
    query q and one for q + 8. Half of each is for key k, half for k + 8. In tensor core results one
    thread holds all four, whether rows are queries or (``BY_KEY``) keys.
    """
    if DROPOUT:
        ROWS: tl.constexpr = values.shape[0]
        COLUMNS: tl.constexpr = values.shape[1]
        rows = (row // 2 + tl.arange(0, ROWS // 2))[:, None]
        columns = (column // 2 + tl.arange(0, COLUMNS // 2))[None, :]
        a = (columns * 65536 + rows if BY_KEY else rows * 65536 + columns).to(tl.uint32)
        seed = tl.load(seed).to(tl.uint64)
        key = seed.to(tl.uint32)
        b = a * 0 + (seed >> 32).to(tl.uint32) + stream.to(tl.uint32)
        for _ in tl.static_range(7):
            product = a.to(tl.uint64) * 0xD256D193
            a = (product >> 32).to(tl.uint32) ^ key ^ b
            b = product.to(tl.uint32)
            key += 0x9E3779B9
        words = tl.join(tl.join(a, b) << 16, tl.join(a, b))
        words = tl.reshape(words, (ROWS // 16, 8, COLUMNS // 16, 8, 2, 2))
        words = tl.permute(words, (0, 5, 1, 2, 4, 3) if BY_KEY else (0, 4, 1, 2, 5, 3))
        kept = tl.reshape(words, (ROWS, COLUMNS)) >= (num_dropped.to(tl.uint32) << 16)
        # the compiler must not know that this is zero, or it emits three more instructions a pair
        values = tl.where(kept, values, num_dropped.to(tl.float32) * 0)
    return values


@_jit
def forward_kernel(
    qkv, bias, spans, seed, out, lse, num_sequences, num_tokens, longest, scale, num_dropped,
    HEADS: tl.constexpr, DIM: tl.constexpr, DROPOUT: tl.constexpr, MASK: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program owns BLOCK_Q queries of one head of a sequence."""
    D: tl.constexpr = HEADS * DIM
    stream, head, first, start, length = _place(spans, num_sequences, longest, BLOCK_Q, HEADS)
    if first >= length:
        return
    tl.assume(length > 0)  # else ptxas serializes the products of the loop (its remark C7515)
    queries = first + tl.arange(0, BLOCK_Q)
    qkv += start * (3 * D) + head * DIM
    q = _load(qkv, queries, length, 3 * D, DIM, MASK)
    highest = tl.full([BLOCK_Q], -1e30, tl.float32)  # not -inf: the difference of two is NaN
    total = tl.zeros([BLOCK_Q], tl.float32)
    value = tl.zeros([BLOCK_Q, DIM], tl.float32)
    for first_key in range(0, length, BLOCK_K):
        keys = first_key + tl.arange(0, BLOCK_K)
        k = _load(qkv + D, keys, length, 3 * D, DIM, MASK)
        v = _load(qkv + 2 * D, keys, length, 3 * D, DIM, MASK)
        tile = _bias(bias, head, queries, keys, longest, length, MASK)
        scores = _dot(q, tl.trans(k)) * scale + tile
        higher = tl.maximum(highest, tl.max(scores, 1))
        shrink = tl.exp2(highest - higher)
        probs = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(probs, 1)
        highest = higher
        dropped = _drop(probs, seed, stream, first, first_key, num_dropped, False, DROPOUT)
        value = _dot(dropped.to(v.dtype), v, value * shrink[:, None])
    value *= (65536 / ((65536 - num_dropped) * total))[:, None]
    _store(out + start * D + head * DIM, value, queries, length, D, DIM)
    lse += tl.cast(head, tl.int64) * num_tokens + start
    tl.store(lse + queries, highest + tl.log2(total), mask=queries < length)


@_jit
def gradient_kernel(
    qkv, bias, spans, seed, out, lse, grad_out, stats, grad_qkv, num_sequences, num_tokens, longest,
    scale, num_dropped, HEADS: tl.constexpr, DIM: tl.constexpr, DROPOUT: tl.constexpr,
    MASK: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BY_KEY: tl.constexpr,
):  # fmt: skip
    """A program owns some queries, or with ``BY_KEY`` some keys; these are the rows of its tiles.

    It runs for queries first, and stores their (lse, delta, -, -) for the other kernels.
    """
    D: tl.constexpr = HEADS * DIM
    BLOCK: tl.constexpr = BLOCK_K if BY_KEY else BLOCK_Q
    OTHER: tl.constexpr = BLOCK_Q if BY_KEY else BLOCK_K
    stream, head, first, start, length = _place(spans, num_sequences, longest, BLOCK, HEADS)
    if first >= length:
        return
    tl.assume(length > 0)
    rows = first + tl.arange(0, BLOCK)
    of_head = tl.cast(head, tl.int64) * num_tokens + start
    r = 65536 / (65536 - num_dropped)
    qkv += start * (3 * D) + head * DIM
    grad_out += start * D + head * DIM
    if BY_KEY:
        a = _load(qkv + D, rows, length, 3 * D, DIM, MASK)
        c = _load(qkv + 2 * D, rows, length, 3 * D, DIM, MASK)
    else:
        a = _load(qkv, rows, length, 3 * D, DIM, MASK)
        c = _load(grad_out, rows, length, D, DIM, MASK)
        o = _load(out + start * D + head * DIM, rows, length, D, DIM, MASK)
        of_row = tl.load(lse + of_head + rows, mask=rows < length, other=0.0)
        delta = tl.sum(o.to(tl.float32) * c.to(tl.float32), 1) / r
        tl.store(stats + (of_head + rows) * 4, of_row, mask=rows < length)
        tl.store(stats + (of_head + rows) * 4 + 1, delta, mask=rows < length)
        of_row, delta = of_row[:, None], delta[:, None]
    grad = tl.zeros([BLOCK, DIM], tl.float32)
    grad_v = tl.zeros([BLOCK, DIM], tl.float32)
    for column in range(0, length, OTHER):
        columns = column + tl.arange(0, OTHER)
        tile = _bias(bias, head, rows, columns, longest, length, MASK and not BY_KEY)
        if BY_KEY:  # past the end q, dO, lse and delta are 0, so P is finite there and adds nothing
            b = _load(qkv, columns, length, 3 * D, DIM, MASK)
            d = _load(grad_out, columns, length, D, DIM, MASK)
            of_row, delta = _stats(stats + of_head * 4, columns, length, MASK)
            of_row, delta = of_row[None, :], delta[None, :]
        else:
            b = _load(qkv + D, columns, length, 3 * D, DIM, MASK)
            d = _load(qkv + 2 * D, columns, length, 3 * D, DIM, MASK)
        # before the next product, so that the tensor cores can compute it at the same time
        probs = tl.exp2(_dot(a, tl.trans(b)) * scale + (tile - of_row))
        dropped = _drop(probs, seed, stream, first, column, num_dropped, BY_KEY, DROPOUT)
        grad_probs = _dot(c, tl.trans(d))
        if BY_KEY:
            grad_v = _dot(dropped.to(d.dtype), d, grad_v)
        grad_scores = dropped * grad_probs - probs * delta
        grad = _dot(grad_scores.to(b.dtype), b, grad)
    grad_qkv += start * (3 * D) + head * DIM + (D if BY_KEY else 0)
    _store(grad_qkv, grad * (scale * r * 0.6931471805599453), rows, length, 3 * D, DIM)
    if BY_KEY:
        _store(grad_qkv + D, grad_v * r, rows, length, 3 * D, DIM)


@_jit
def bias_kernel(
    qkv, bias, spans, counts, seed, grad_out, stats, grad_bias, num_sequences, num_tokens, longest,
    groups, scale, num_dropped, HEADS: tl.constexpr, DIM: tl.constexpr, DROPOUT: tl.constexpr,
    MASK: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program owns a tile of one head's bias, and loops over a group of the sequences."""
    D: tl.constexpr = HEADS * DIM
    k_blocks, q_blocks = tl.cdiv(longest, BLOCK_K), tl.cdiv(longest, BLOCK_Q)
    first_key = tl.program_id(0) % k_blocks * BLOCK_K
    first_query = tl.program_id(0) // k_blocks % q_blocks * BLOCK_Q
    number = tl.program_id(0) // (k_blocks * q_blocks)
    group, head = number // HEADS, number % HEADS
    queries, keys = first_query + tl.arange(0, BLOCK_Q), first_key + tl.arange(0, BLOCK_K)
    tile = _bias(bias, head, queries, keys, longest, longest, False)
    grad = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    reaching = tl.load(counts + tl.maximum(first_query, first_key) // 16)  # are the first sequences
    for sequence in range(group, reaching, groups):
        length = tl.load(spans + 2 * sequence + 1)
        start = tl.load(spans + 2 * sequence).to(tl.int64)
        tokens = qkv + start * (3 * D) + head * DIM
        q = _load(tokens, queries, length, 3 * D, DIM, MASK)
        k = _load(tokens + D, keys, length, 3 * D, DIM, MASK)
        v = _load(tokens + 2 * D, keys, length, 3 * D, DIM, MASK)
        do = _load(grad_out + start * D + head * DIM, queries, length, D, DIM, MASK)
        of_head = tl.cast(head, tl.int64) * num_tokens + start
        row_lse, delta = _stats(stats + of_head * 4, queries, length, MASK)
        offset = tile - row_lse[:, None]
        if MASK:
            offset = tl.where(keys[None, :] < length, offset, float("-inf"))
        probs = tl.exp2(_dot(q, tl.trans(k)) * scale + offset)
        stream = sequence * HEADS + head
        dropped = _drop(probs, seed, stream, first_query, first_key, num_dropped, False, DROPOUT)
        grad += dropped * _dot(do, tl.trans(v))
        grad -= probs * delta[:, None]
    grad_bias += tl.cast(number, tl.int64) * longest * longest
    grad_bias += queries[:, None] * longest + keys[None, :]
    inside = (queries[:, None] < longest) & (keys[None, :] < longest)
    tl.store(grad_bias, grad * (65536 / (65536 - num_dropped)), mask=inside)


def unsupported_reason(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why these kernels cannot be used, or None."""
    if dtype == torch.float64:
        return "it computes in 16 or 32 bits, but the tensors are float64"
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return "it needs a GPU of compute capability 8.0 or higher"
    if device.type != "cuda" and not IS_INTERPRETED:
        return f"it runs on GPUs only, but the tensors are on {device.type}"
    return None


class Shared(NamedTuple):
    """What all layers of a forward pass share, without gradient."""

    by_query: Tensor | None  # the bias in base 2, (H, P, P), P a multiple of 128, rows are queries
    by_key: Tensor | None  # the same, rows are keys
    spans: Tensor  # int32 (S, 2): the first token and the length of each sequence, longest first
    counts: Tensor  # int32: the number of sequences longer than 0, 16, 32, ..
    longest: int
    is_full: bool  # whether all sequences are that long


class TritonAttention(Attention):
    """Dropout uses torch's generator of the device. p is rounded to a multiple of 2^-16 below 1."""

    def make_masks(self, bias: Tensor | None, dtype: torch.dtype) -> None:
        """Copy the bias in the format of the kernels, and locate the sequences.

        For 16 bits the copies are float16, with each row's maximum shifted to 0, which softmax
        ignores: eight times as precise as bfloat16, half the traffic of float32. Each row needs a
        finite number.
        """
        by_query = by_key = None
        longest, device = self.sequences.longest, self.sequences.device
        if bias is not None:
            bias = bias[:, :longest, :longest]
            by_query = bias.detach().float()
            by_query = (by_query - by_query.amax(dim=-1, keepdim=True)) * math.log2(math.e)
            by_query = by_query.to(torch.float16 if dtype.itemsize == 2 else torch.float32)
            by_query = F.pad(by_query, (0, -longest % 128, 0, -longest % 128))
            by_key = by_query.transpose(1, 2).contiguous()
        is_full = self.sequences.is_full
        assert self.sequences.lengths is not None
        if is_full:  # without a copy from the host
            lengths = torch.full((len(self.sequences.lengths),), longest, device=device)
        else:
            lengths = to_device(torch.tensor(self.sequences.lengths), device)
        starts = lengths.cumsum(0) - lengths
        lengths, order = lengths.sort(descending=True, stable=True)
        spans = torch.stack([starts[order], lengths], dim=1).int()
        limits = torch.arange(0, longest, 16, device=device)
        counts = (lengths > limits[:, None]).sum(dim=1).int()
        self.bias, self.shared = bias, Shared(by_query, by_key, spans, counts, longest, is_full)

    @torch.compiler.disable
    def attend(self, qkv, content_bias, *, scaling, dropout):
        assert content_bias is None, "the bias must be the same for the whole batch"
        seed = torch.randint(2**62, (1,), device=qkv.device) if dropout else None
        head_dim = qkv.size(-1)
        width = max(16, 1 << (head_dim - 1).bit_length())  # head_dim in the kernels
        qkv = F.pad(qkv, (0, width - head_dim)) if head_dim < width else qkv.contiguous()
        out = _Attention.apply(qkv, self.bias, seed, scaling, dropout, self.shared)
        return out[..., :head_dim]


def _run(number, qkv, seed, scaling, dropout, shared, groups=1, **tensors):
    """Run a kernel; ``number`` is its index in TILES."""
    longest, sequences, (heads, dim) = shared.longest, len(shared.spans), qkv.shape[2:]
    *tile, warps, stages, registers = TILES[qkv.dtype.itemsize == 2, dim][number]
    block_q, block_k = (min(block, max(64, 1 << (longest - 1).bit_length())) for block in tile)
    q, k = -(-longest // block_q), -(-longest // block_k)
    programs = (q * sequences, q * sequences, k * sequences, q * k * groups)[number]
    kernel = (forward_kernel, gradient_kernel, gradient_kernel, bias_kernel)[number]
    more = ({}, {"BY_KEY": False}, {"BY_KEY": True}, {"groups": groups})[number]
    with torch.cuda.device_of(qkv):
        kernel[(programs * heads,)](
            qkv=qkv, bias=shared.by_key if number == 2 else shared.by_query, spans=shared.spans,
            seed=seed, num_sequences=sequences, num_tokens=len(qkv), longest=longest,
            scale=scaling * math.log2(math.e), num_dropped=min(round(dropout * 2**16), 2**16 - 1),
            HEADS=heads, DIM=dim, DROPOUT=dropout > 0, BLOCK_Q=block_q, BLOCK_K=block_k,
            MASK=not shared.is_full or longest % max(block_q, block_k) > 0,
            num_warps=warps, num_stages=stages, maxnreg=registers, **tensors, **more,
        )  # fmt: skip


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, bias, *options):
        out = torch.empty_like(qkv[:, 0], memory_format=torch.contiguous_format)
        lse = qkv.new_empty(qkv.size(2), len(qkv), dtype=torch.float32)
        _run(0, qkv, *options, out=out, lse=lse)
        seed, *ctx.options = options
        ctx.save_for_backward(qkv, out, lse, seed)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        qkv, out, lse, seed = ctx.saved_tensors
        grad_qkv, heads, shared = torch.empty_like(qkv), len(lse), ctx.options[-1]
        both = {"grad_out": grad_out.contiguous(), "stats": lse.new_empty(*lse.shape, 4)}
        for number in (1, 2):
            _run(number, qkv, seed, *ctx.options, **both, out=out, lse=lse, grad_qkv=grad_qkv)
        if not ctx.needs_input_grad[1]:
            return grad_qkv, *(None,) * 5
        groups = max(1, min(PROGRAMS * 2**13 // (heads * shared.longest**2), len(shared.spans)))
        grads = lse.new_empty(groups, heads, shared.longest, shared.longest)
        options = *ctx.options, groups
        _run(3, qkv, seed, *options, **both, counts=shared.counts, grad_bias=grads)
        return grad_qkv, grads.sum(0) if groups > 1 else grads[0], *(None,) * 4
