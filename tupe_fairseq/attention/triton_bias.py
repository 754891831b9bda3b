"""A tile of the bias inside of a Triton kernel: read, or made of factors.

What the arguments hold is said in :class:`tupe_fairseq.attention.kernel_bias.KernelBias`.
Imported only where the kernels are to run; see :mod:`tupe_fairseq.attention.triton`.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def load_factors(
    factors_ptr, head, num_heads, rows, length, seq_len, SIDE: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Both parts of the factors of queries (SIDE 0) or keys (1), (rows, WIDTH), zeros past length.

    In float32 the one part twice; just the rows where there are no factors.
    """
    high = rows
    low = rows
    if factors_ptr is not None:
        of_part = tl.cast(num_heads, tl.int64) * seq_len * WIDTH
        offsets = rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
        inside = rows[:, None] < length
        factors_ptr += head.to(tl.int64) * seq_len * WIDTH
        if factors_ptr.dtype.element_ty == tl.bfloat16:
            factors_ptr += 2 * SIDE * of_part
            high = tl.load(factors_ptr + offsets, mask=inside, other=0.0)
            low = tl.load(factors_ptr + of_part + offsets, mask=inside, other=0.0)
        else:
            high = tl.load(factors_ptr + SIDE * of_part + offsets, mask=inside, other=0.0)
            low = high
    return high, low


@triton.jit
def bias_tile(
    bias_ptr, factors_ptr, vectors_ptr, q_high, q_low, k_high, k_low, bias_head, bias_row,
    head, queries, keys, length, seq_len,
    COLUMNS: tl.constexpr, DISTANCES_FROM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """(queries, keys), float32, in base 2; zeros without a bias.

    Args:
        q_high, q_low, k_high, k_low: as :func:`load_factors` gives them.
    """
    tile = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    if bias_ptr is not None:
        # inside the bias, not the sequence: the compiler knows whether 16 divides seq_len, and
        # only then loads several elements at once
        inside = (queries[:, None] < seq_len) & (keys[None, :] < seq_len)
        offsets = queries[:, None] * bias_row + keys[None, :]
        bias_ptr += head.to(tl.int64) * bias_head
        bias = tl.load(bias_ptr + offsets, mask=inside, other=0.0)
        tile = bias.to(tl.float32) * LOG2_E
    if factors_ptr is not None:
        tile = tl.dot(q_high, tl.trans(k_high), input_precision="ieee")
        if factors_ptr.dtype.element_ty == tl.bfloat16:
            # the product of the two low parts is below what is kept
            tile = tl.dot(q_high, tl.trans(k_low), tile)
            tile = tl.dot(q_low, tl.trans(k_high), tile)
    if vectors_ptr is not None:
        vectors_ptr += head.to(tl.int64) * bias_head
        is_query = queries < length
        is_key = keys < length
        for column in tl.static_range(COLUMNS):
            of_queries = vectors_ptr + column * seq_len
            of_keys = vectors_ptr + (COLUMNS + column) * seq_len
            of_queries = tl.load(of_queries + queries, mask=is_query, other=0.0)
            of_keys = tl.load(of_keys + keys, mask=is_key, other=0.0)
            tile += of_queries[:, None] * of_keys[None, :]
        if DISTANCES_FROM is not None:
            is_query &= queries >= DISTANCES_FROM
            is_key &= keys >= DISTANCES_FROM
            vectors_ptr += 2 * COLUMNS * seq_len + seq_len - 1
            distances = keys[None, :] - queries[:, None]
            inside = is_query[:, None] & is_key[None, :]
            tile += tl.load(vectors_ptr + distances, mask=inside, other=0.0)
    return tile
