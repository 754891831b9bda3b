"""Triton kernels: attention with a bias that the whole batch shares, forward and backward.

For one head of one sequence:
    logits = scaling * q k^T + bias;  probs = softmax(logits);  out = dropout(probs) v.
With grad_probs = dropout(grad_out v^T) and delta = sum(grad_out * out), one for each query:
    grad_logits = probs * (grad_probs - delta);
    grad_q = scaling * grad_logits k;  grad_k = scaling * grad_logits^T q;
    grad_v = dropout(probs)^T grad_out;  grad_bias = grad_logits, summed over the batch.
Only the kernel of grad_bias stores anything that grows with L x L: its result, or a strip of it
where the bias is in factors (:mod:`tupe_fairseq.attention.strips`).  There a program owns a tile
and loops over the batch: no two programs write to one place, and the order of the sum is fixed.

Token t of a sequence is row start + t of (tokens, H, K), whether or not there is padding between
the sequences; ``spans`` holds (start, length) of each, and None says that all are full.  A
*stream* is one head of one sequence, number b * H + h.  Exponentials are in base 2, the
hardware's.

Imported only where the kernels are to run; see :mod:`tupe_fairseq.attention.triton`.
"""

import triton
import triton.language as tl

from tupe_fairseq.attention.triton_bias import LOG2_E, bias_tile, load_factors


@triton.jit
def _span(spans_ptr, sequence, seq_len):
    """The first row of a sequence and its number of tokens."""
    if spans_ptr is None:
        start = tl.cast(seq_len, tl.int64) * sequence
        length = seq_len
    else:
        start = tl.load(spans_ptr + 2 * sequence).to(tl.int64)
        length = tl.load(spans_ptr + 2 * sequence + 1)
    return start, length


@triton.jit
def _block(spans_ptr, num_heads, seq_len, BLOCK: tl.constexpr):
    """(first position, stream, head, start, length) of a program that owns BLOCK positions."""
    blocks = tl.cdiv(seq_len, BLOCK)
    stream = tl.program_id(0) // blocks
    start, length = _span(spans_ptr, stream // num_heads, seq_len)
    return (tl.program_id(0) % blocks) * BLOCK, stream, stream % num_heads, start, length


@triton.jit
def _load(
    ptr, start, head, rows, length, row_stride, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr
):
    """(rows, PADDED_DIM) of one stream; zeros beyond its length and its width."""
    dims = tl.arange(0, PADDED_DIM)
    inside = (rows[:, None] < length) & (dims[None, :] < HEAD_DIM)
    offsets = rows[:, None] * row_stride + dims[None, :]
    return tl.load(ptr + start * row_stride + head * HEAD_DIM + offsets, mask=inside, other=0.0)


@triton.jit
def _store(
    ptr, value, start, head, rows, length, row_stride,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
):  # fmt: skip
    """The counterpart of ``_load``, in the dtype of the target."""
    dims = tl.arange(0, PADDED_DIM)
    inside = (rows[:, None] < length) & (dims[None, :] < HEAD_DIM)
    offsets = rows[:, None] * row_stride + dims[None, :]
    ptr += start * row_stride + head * HEAD_DIM
    tl.store(ptr + offsets, value.to(ptr.dtype.element_ty), mask=inside)


@triton.jit
def _keep(
    seed, stream, queries, first_key, drop_below, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Which probabilities dropout keeps: a function of seed, stream, query and key alone.

    One call of Philox (Salmon et al. 2011) makes four 32-bit words, for four keys; its seven
    rounds are the fewest that pass their tests.  The four keys are those that one thread holds
    of a tensor core's result, 2c + (0, 1, 8, 9) of sixteen, c < 4: with four neighbours the
    mask would have to change threads, through shared memory.
    """
    calls = first_key // 4 + tl.arange(0, BLOCK_K // 4)
    query, call = tl.broadcast(queries[:, None], calls[None, :])
    zero = query * 0
    a, b, c, d = tl.philox(seed, call, query, zero + stream, zero, n_rounds=7)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    words = tl.reshape(words, (BLOCK_Q, BLOCK_K // 16, 4, 2, 2))
    words = tl.reshape(tl.permute(words, (0, 1, 3, 2, 4)), (BLOCK_Q, BLOCK_K))
    return words.to(tl.int32, bitcast=True) >= drop_below


@triton.jit
def _logits(q, k, bias, keys, length, scaling):
    """In base 2; -inf at keys that are padding."""
    logits = tl.dot(q, tl.trans(k), input_precision="ieee") * (scaling * LOG2_E) + bias
    return tl.where(keys[None, :] < length, logits, float("-inf"))


@triton.jit(do_not_specialize=["seed", "num_tokens"])
def forward_kernel(
    q_ptr, k_ptr, v_ptr, bias_ptr, factors_ptr, vectors_ptr, spans_ptr, out_ptr, logsumexp_ptr,
    q_row, k_row, v_row, stored_row, bias_head, bias_row, num_heads, seq_len, num_tokens,
    scaling, seed, drop_below, keep_scale,
    PACKED: tl.constexpr, DROPOUT: tl.constexpr, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, DISTANCES_FROM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program owns BLOCK_Q queries of one stream."""
    first_query, stream, head, start, length = _block(spans_ptr, num_heads, seq_len, BLOCK_Q)
    queries = first_query + tl.arange(0, BLOCK_Q)
    q = _load(q_ptr, start, head, queries, length, q_row, HEAD_DIM, PADDED_DIM)
    q_high, q_low = load_factors(factors_ptr, head, num_heads, queries, length, seq_len, 0, WIDTH)
    # not -inf: the difference of two would be NaN
    highest = tl.full([BLOCK_Q], -1e30, tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    out = tl.zeros([BLOCK_Q, PADDED_DIM], tl.float32)
    for first_key in range(0, tl.where(first_query < length, length, 0), BLOCK_K):
        keys = first_key + tl.arange(0, BLOCK_K)
        k = _load(k_ptr, start, head, keys, length, k_row, HEAD_DIM, PADDED_DIM)
        v = _load(v_ptr, start, head, keys, length, v_row, HEAD_DIM, PADDED_DIM)
        k_high, k_low = load_factors(factors_ptr, head, num_heads, keys, length, seq_len, 1, WIDTH)
        bias = bias_tile(
            bias_ptr, factors_ptr, vectors_ptr, q_high, q_low, k_high, k_low, bias_head, bias_row,
            head, queries, keys, length, seq_len, COLUMNS, DISTANCES_FROM, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        logits = _logits(q, k, bias, keys, length, scaling)
        new_highest = tl.maximum(highest, tl.max(logits, 1))
        shrink = tl.exp2(highest - new_highest)
        weights = tl.exp2(logits - new_highest[:, None])
        total = total * shrink + tl.sum(weights, 1)
        highest = new_highest
        if DROPOUT:
            kept = _keep(seed, stream, queries, first_key, drop_below, BLOCK_Q, BLOCK_K)
            weights = tl.where(kept, weights, 0.0)
        out = out * shrink[:, None]
        out += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    # padding gets zeros; in a packed batch the rows there are the next sequence's
    real = queries < length
    total = tl.where(real, total, 1.0)
    out = tl.where(real[:, None], out * (keep_scale / total)[:, None], 0.0)
    stored = length if PACKED else seq_len
    _store(out_ptr, out, start, head, queries, stored, stored_row, HEAD_DIM, PADDED_DIM)
    logsumexp_ptr += head.to(tl.int64) * num_tokens + start
    tl.store(logsumexp_ptr + queries, highest + tl.log2(total), mask=real)


@triton.jit(do_not_specialize=["num_tokens"])
def delta_kernel(
    out_ptr, grad_out_ptr, delta_ptr, grad_row, num_heads, num_tokens,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """A program owns BLOCK_Q tokens of one head, of whichever sequences."""
    blocks = tl.cdiv(num_tokens, BLOCK_Q)
    start = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK_Q
    head = tl.program_id(0) // blocks
    rows = tl.arange(0, BLOCK_Q)
    left = num_tokens - start
    out_row = num_heads * HEAD_DIM
    out = _load(out_ptr, start, head, rows, left, out_row, HEAD_DIM, PADDED_DIM)
    grad_out = _load(grad_out_ptr, start, head, rows, left, grad_row, HEAD_DIM, PADDED_DIM)
    delta = tl.sum(out.to(tl.float32) * grad_out.to(tl.float32), 1)
    tl.store(delta_ptr + head.to(tl.int64) * num_tokens + start + rows, delta, mask=rows < left)


@triton.jit
def _sums(logsumexp_ptr, delta_ptr, start, head, queries, length, num_tokens):
    """logsumexp and delta of queries; past the end an infinite sum, so that probs are zero."""
    offsets = head.to(tl.int64) * num_tokens + start + queries
    logsumexp = tl.load(logsumexp_ptr + offsets, mask=queries < length, other=float("inf"))
    delta = tl.load(delta_ptr + offsets, mask=queries < length, other=0.0)
    return logsumexp, delta


@triton.jit
def _backward_tile(
    q, k, v, grad_out, logsumexp, delta, bias, stream, queries, keys, first_key, length, scaling,
    seed, drop_below, keep_scale,
    DROPOUT: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """(dropout(probs), grad_logits); zero where the query or the key is padding."""
    logits = _logits(q, k, bias, keys, length, scaling)
    probs = tl.exp2(logits - logsumexp[:, None])
    grad_probs = tl.dot(grad_out, tl.trans(v), input_precision="ieee")
    dropped = probs
    if DROPOUT:
        kept = _keep(seed, stream, queries, first_key, drop_below, BLOCK_Q, BLOCK_K)
        grad_probs = tl.where(kept, grad_probs * keep_scale, 0.0)
        dropped = tl.where(kept, probs * keep_scale, 0.0)
    return dropped, probs * (grad_probs - delta[:, None])


@triton.jit(do_not_specialize=["seed", "num_tokens"])
def grad_q_kernel(
    q_ptr, k_ptr, v_ptr, grad_out_ptr, bias_ptr, factors_ptr, vectors_ptr, spans_ptr,
    logsumexp_ptr, delta_ptr, grad_q_ptr,
    q_row, k_row, v_row, grad_row, stored_row, bias_head, bias_row, num_heads, seq_len,
    num_tokens, scaling, seed, drop_below, keep_scale,
    PACKED: tl.constexpr, DROPOUT: tl.constexpr, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, DISTANCES_FROM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program owns BLOCK_Q queries of one stream."""
    first_query, stream, head, start, length = _block(spans_ptr, num_heads, seq_len, BLOCK_Q)
    queries = first_query + tl.arange(0, BLOCK_Q)
    q = _load(q_ptr, start, head, queries, length, q_row, HEAD_DIM, PADDED_DIM)
    grad_out = _load(grad_out_ptr, start, head, queries, length, grad_row, HEAD_DIM, PADDED_DIM)
    logsumexp, delta = _sums(logsumexp_ptr, delta_ptr, start, head, queries, length, num_tokens)
    q_high, q_low = load_factors(factors_ptr, head, num_heads, queries, length, seq_len, 0, WIDTH)
    grad_q = tl.zeros([BLOCK_Q, PADDED_DIM], tl.float32)
    for first_key in range(0, tl.where(first_query < length, length, 0), BLOCK_K):
        keys = first_key + tl.arange(0, BLOCK_K)
        k = _load(k_ptr, start, head, keys, length, k_row, HEAD_DIM, PADDED_DIM)
        v = _load(v_ptr, start, head, keys, length, v_row, HEAD_DIM, PADDED_DIM)
        k_high, k_low = load_factors(factors_ptr, head, num_heads, keys, length, seq_len, 1, WIDTH)
        bias = bias_tile(
            bias_ptr, factors_ptr, vectors_ptr, q_high, q_low, k_high, k_low, bias_head, bias_row,
            head, queries, keys, length, seq_len, COLUMNS, DISTANCES_FROM, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        _, grad_logits = _backward_tile(
            q, k, v, grad_out, logsumexp, delta, bias, stream, queries, keys, first_key, length,
            scaling, seed, drop_below, keep_scale, DROPOUT, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        grad_q += tl.dot(grad_logits.to(k.dtype), k, input_precision="ieee")
    grad_q = grad_q * scaling
    stored = length if PACKED else seq_len
    _store(grad_q_ptr, grad_q, start, head, queries, stored, stored_row, HEAD_DIM, PADDED_DIM)


@triton.jit(do_not_specialize=["seed", "num_tokens"])
def grad_kv_kernel(
    q_ptr, k_ptr, v_ptr, grad_out_ptr, bias_ptr, factors_ptr, vectors_ptr, spans_ptr,
    logsumexp_ptr, delta_ptr, grad_k_ptr, grad_v_ptr,
    q_row, k_row, v_row, grad_row, stored_row, bias_head, bias_row, num_heads, seq_len,
    num_tokens, scaling, seed, drop_below, keep_scale,
    PACKED: tl.constexpr, DROPOUT: tl.constexpr, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, DISTANCES_FROM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program owns BLOCK_K keys of one stream."""
    first_key, stream, head, start, length = _block(spans_ptr, num_heads, seq_len, BLOCK_K)
    keys = first_key + tl.arange(0, BLOCK_K)
    k = _load(k_ptr, start, head, keys, length, k_row, HEAD_DIM, PADDED_DIM)
    v = _load(v_ptr, start, head, keys, length, v_row, HEAD_DIM, PADDED_DIM)
    k_high, k_low = load_factors(factors_ptr, head, num_heads, keys, length, seq_len, 1, WIDTH)
    grad_k = tl.zeros([BLOCK_K, PADDED_DIM], tl.float32)
    grad_v = tl.zeros([BLOCK_K, PADDED_DIM], tl.float32)
    for first_query in range(0, tl.where(first_key < length, length, 0), BLOCK_Q):
        queries = first_query + tl.arange(0, BLOCK_Q)
        q = _load(q_ptr, start, head, queries, length, q_row, HEAD_DIM, PADDED_DIM)
        grad_out = _load(grad_out_ptr, start, head, queries, length, grad_row, HEAD_DIM, PADDED_DIM)
        logsumexp, delta = _sums(logsumexp_ptr, delta_ptr, start, head, queries, length, num_tokens)
        q_high, q_low = load_factors(
            factors_ptr, head, num_heads, queries, length, seq_len, 0, WIDTH
        )
        bias = bias_tile(
            bias_ptr, factors_ptr, vectors_ptr, q_high, q_low, k_high, k_low, bias_head, bias_row,
            head, queries, keys, length, seq_len, COLUMNS, DISTANCES_FROM, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        dropped, grad_logits = _backward_tile(
            q, k, v, grad_out, logsumexp, delta, bias, stream, queries, keys, first_key, length,
            scaling, seed, drop_below, keep_scale, DROPOUT, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        grad_v += tl.dot(tl.trans(dropped.to(v.dtype)), grad_out, input_precision="ieee")
        grad_k += tl.dot(tl.trans(grad_logits.to(q.dtype)), q, input_precision="ieee")
    grad_k = grad_k * scaling
    stored = length if PACKED else seq_len
    _store(grad_k_ptr, grad_k, start, head, keys, stored, stored_row, HEAD_DIM, PADDED_DIM)
    _store(grad_v_ptr, grad_v, start, head, keys, stored, stored_row, HEAD_DIM, PADDED_DIM)


@triton.jit(do_not_specialize=["seed", "num_tokens", "first_row", "num_rows", "batch"])
def grad_bias_kernel(
    q_ptr, k_ptr, v_ptr, grad_out_ptr, bias_ptr, factors_ptr, vectors_ptr, spans_ptr,
    logsumexp_ptr, delta_ptr, grad_bias_ptr,
    q_row, k_row, v_row, grad_row, stored_head, stored_row, bias_head, bias_row, num_heads,
    seq_len, num_tokens, first_row, num_rows, scaling, seed, drop_below, keep_scale, batch,
    DROPOUT: tl.constexpr, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, DISTANCES_FROM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program owns BLOCK_Q x BLOCK_K of one head's bias, of whose rows num_rows are asked for."""
    q_blocks = tl.cdiv(num_rows, BLOCK_Q)
    k_blocks = tl.cdiv(seq_len, BLOCK_K)
    first_key = (tl.program_id(0) % k_blocks) * BLOCK_K
    rows = (tl.program_id(0) // k_blocks % q_blocks) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    head = tl.program_id(0) // (k_blocks * q_blocks)
    queries = first_row + rows
    keys = first_key + tl.arange(0, BLOCK_K)
    q_high, q_low = load_factors(factors_ptr, head, num_heads, queries, seq_len, seq_len, 0, WIDTH)
    k_high, k_low = load_factors(factors_ptr, head, num_heads, keys, seq_len, seq_len, 1, WIDTH)
    bias = bias_tile(
        bias_ptr, factors_ptr, vectors_ptr, q_high, q_low, k_high, k_low, bias_head, bias_row,
        head, queries, keys, seq_len, seq_len, COLUMNS, DISTANCES_FROM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    grad_bias = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    for sequence in range(0, batch):
        start, length = _span(spans_ptr, sequence, seq_len)
        q = _load(q_ptr, start, head, queries, length, q_row, HEAD_DIM, PADDED_DIM)
        k = _load(k_ptr, start, head, keys, length, k_row, HEAD_DIM, PADDED_DIM)
        v = _load(v_ptr, start, head, keys, length, v_row, HEAD_DIM, PADDED_DIM)
        grad_out = _load(grad_out_ptr, start, head, queries, length, grad_row, HEAD_DIM, PADDED_DIM)
        logsumexp, delta = _sums(logsumexp_ptr, delta_ptr, start, head, queries, length, num_tokens)
        _, grad_logits = _backward_tile(
            q, k, v, grad_out, logsumexp, delta, bias, sequence * num_heads + head, queries, keys,
            first_key, length, scaling, seed, drop_below, keep_scale, DROPOUT, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        grad_bias += grad_logits
    inside = (rows[:, None] < num_rows) & (keys[None, :] < seq_len)
    grad_bias_ptr += head.to(tl.int64) * stored_head
    offsets = rows[:, None] * stored_row + keys[None, :]
    grad_bias = grad_bias.to(grad_bias_ptr.dtype.element_ty)
    tl.store(grad_bias_ptr + offsets, grad_bias, mask=inside)
