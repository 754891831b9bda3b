"""Attention on the GPU: kernels that know a bias shared by the batch, its gradient and dropout.

With a bias that requires a gradient, torch's fused attention has no dropout (FlexAttention) or
makes a gradient of B x H x L x L (memory-efficient attention).  The kernels are in
:mod:`tupe_fairseq.attention.triton_kernels`; Triton itself is imported when they are first run.
"""

import functools
import os
from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe_fairseq.attention.bias import Bias, shared_bias_refusal
from tupe_fairseq.attention.padding import Padding

# 3.2 and 3.7 compile the kernels for capability 9.0; 3.0 crashes on one of them
MIN_TRITON = (3, 2)
MIN_CAPABILITY = (8, 0)
MAX_HEAD_DIM = 128
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _tiles(forward, grad_q, grad_kv, grad_bias) -> Dict[str, Dict[str, int]]:
    """The constants of each kernel, from (queries, keys, number of warps)."""
    tiles = {
        "forward_kernel": forward,
        "grad_q_kernel": grad_q,
        "grad_kv_kernel": grad_kv,
        "grad_bias_kernel": grad_bias,
    }
    return {
        name: {"BLOCK_Q": queries, "BLOCK_K": keys, "num_warps": num_warps, "num_stages": 2}
        for name, (queries, keys, num_warps) in tiles.items()
    }


# How the kernels cut their work, by whether elements have 16 bits and the head_dim is above 64.
# Untimed: what Triton 3.7, asked for capability 9.0, compiles with hardly a register spilled and
# in less than the 99 KiB of shared memory that smaller GPUs have.  Keys are a multiple of 16.
TILES = {
    (True, False): _tiles((128, 64, 8), (128, 64, 8), (64, 64, 4), (64, 64, 4)),
    (True, True): _tiles((64, 32, 4), (64, 32, 4), (64, 32, 4), (64, 32, 4)),
    # full float32 products, which are not for the tensor cores
    (False, False): _tiles((32, 32, 4), (32, 32, 4), (32, 32, 4), (32, 32, 4)),
    (False, True): _tiles((32, 32, 8), (32, 32, 8), (32, 32, 8), (32, 32, 8)),
}
DELTA_TOKENS = 64


def triton_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    *,
    scaling: float,
    dropout: float,
) -> Tensor:
    """dropout(softmax(scaling * q k^T + attn_bias)) v, with no probabilities in memory.

    Sums are in float32.  Padding gets zeros, in the output and in the gradients.  Dropout
    follows torch's CPU generator on every device.  Gradients are deterministic and
    cannot be differentiated again.  Ask :func:`triton_refusal` first; see
    :mod:`tupe_fairseq.attention`.
    """
    whole = kernel_bias = None
    if attn_bias is not None:
        whole = attn_bias.whole()
        # as it is with padding: in 16 bits, each length would need a copy of its own (Bias.corner)
        is_padded = padding is not None and padding.any
        kernel_bias = whole.detach().float() if is_padded else attn_bias.copy_in(q.dtype)
    return _TritonAttention.apply(q, k, v, whole, kernel_bias, padding, scaling, dropout)


def triton_refusal(
    q: Tensor, attn_bias: Optional[Bias], padding: Optional[Padding]
) -> Optional[str]:
    """Why :func:`triton_attention` cannot serve this request; None if it can."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        if not q.is_cuda:
            return f"triton runs on CUDA devices only, and the tensors are on {q.device.type}"
        capability = torch.cuda.get_device_capability(q.device)
        if capability < MIN_CAPABILITY:
            least, found = (".".join(map(str, pair)) for pair in (MIN_CAPABILITY, capability))
            return f"its kernels need CUDA devices of capability {least}, and this one has {found}"
    elif q.dtype == torch.bfloat16:
        return "triton's interpreter (TRITON_INTERPRET=1) cannot multiply bfloat16 numbers"
    if q.dtype not in DTYPES:
        return f"its kernels take float32, float16 and bfloat16, not {q.dtype}"
    if q.size(-1) > MAX_HEAD_DIM:
        return f"its kernels take a head_dim of at most {MAX_HEAD_DIM}, not {q.size(-1)}"
    return shared_bias_refusal(q, attn_bias, padding) or _library_refusal()


@functools.lru_cache(maxsize=None)
def _library_refusal() -> Optional[str]:
    try:
        import triton
    except ImportError:
        return "triton is not installed"
    if tuple(int(number) for number in triton.__version__.split(".")[:2]) < MIN_TRITON:
        return f"triton is {triton.__version__}, older than {'.'.join(map(str, MIN_TRITON))}"
    return None


class _TritonAttention(torch.autograd.Function):
    """Saves q, k, v, the output, a number for each query, and the bias that all layers share."""

    @staticmethod
    def forward(ctx, q, k, v, attn_bias, kernel_bias, padding, scaling, dropout):
        batch, seq_len = q.shape[:2] if padding is None else (padding.batch, padding.seq_len)
        packed = padding is not None and padding.packed
        spans = padding.device_spans if padding is not None and padding.any else None
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        q, k, v = (_flat(x, packed) for x in (q, k, v))
        num_tokens, num_heads, head_dim = q.shape
        logsumexp = q.new_empty((num_heads, num_tokens), dtype=torch.float32)
        if kernel_bias is not None and kernel_bias.stride(-1) != 1:
            kernel_bias = kernel_bias.contiguous()
        ctx.batch, ctx.packed = batch, packed
        ctx.bias_dtype = None if attn_bias is None else attn_bias.dtype
        ctx.options = {
            "num_heads": num_heads,
            "seq_len": seq_len,
            "num_tokens": num_tokens,
            "scaling": scaling,
            "seed": int(torch.randint(2**63 - 1, (), device="cpu")) if dropout else 0,
            # of the words -2^31 .. 2^31 - 1, those below are dropped
            "drop_below": min(round(dropout * 2**32) - 2**31, 2**31 - 1),
            "keep_scale": 1 / (1 - dropout) if dropout < 1 else 0.0,
            "DROPOUT": dropout > 0,
        }
        _launch(
            "forward_kernel",
            lambda meta: _cdiv(seq_len, meta["BLOCK_Q"]) * batch * num_heads,
            **_inputs(q, k, v, kernel_bias, spans),
            **ctx.options,
            out_ptr=out,
            logsumexp_ptr=logsumexp,
            stored_row=num_heads * head_dim,
            PACKED=packed,
        )
        ctx.save_for_backward(q, k, v, kernel_bias, spans, out, logsumexp)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        q, k, v, kernel_bias, spans, out, logsumexp = ctx.saved_tensors
        num_heads, head_dim = q.shape[1:]
        batch, seq_len = ctx.batch, ctx.options["seq_len"]
        needs_q, needs_k, needs_v, needs_bias = ctx.needs_input_grad[:4]
        grad_out = _flat(grad_out, ctx.packed)
        arguments = {
            **_inputs(q, k, v, kernel_bias, spans),
            **ctx.options,
            "grad_out_ptr": grad_out,
            "grad_row": grad_out.stride(0),
            "logsumexp_ptr": logsumexp,
            "delta_ptr": _delta(out, grad_out),
        }
        # one buffer, laid out as the projection's output: split_qkv need not copy it
        grad_q, grad_k, grad_v = out.new_empty((*out.shape[:-2], 3, *out.shape[-2:])).unbind(-3)
        written = {"stored_row": 3 * num_heads * head_dim, "PACKED": ctx.packed}
        if needs_q:
            _launch(
                "grad_q_kernel",
                lambda meta: _cdiv(seq_len, meta["BLOCK_Q"]) * batch * num_heads,
                **arguments,
                **written,
                grad_q_ptr=grad_q,
            )
        if needs_k or needs_v:
            _launch(
                "grad_kv_kernel",
                lambda meta: _cdiv(seq_len, meta["BLOCK_K"]) * batch * num_heads,
                **arguments,
                **written,
                grad_k_ptr=grad_k,
                grad_v_ptr=grad_v,
            )
        grad_bias = None
        if needs_bias:
            grad_bias = logsumexp.new_empty((num_heads, seq_len, seq_len))
            _launch(
                "grad_bias_kernel",
                lambda meta: (
                    _cdiv(seq_len, meta["BLOCK_Q"]) * _cdiv(seq_len, meta["BLOCK_K"]) * num_heads
                ),
                **arguments,
                grad_bias_ptr=grad_bias,
                batch=batch,
            )
            grad_bias = grad_bias.to(ctx.bias_dtype)
        return (
            grad_q if needs_q else None,
            grad_k if needs_k else None,
            grad_v if needs_v else None,
            grad_bias,
            *(None,) * 4,
        )


def _flat(x: Tensor, packed: bool) -> Tensor:
    """(tokens, H, K), each token's heads next to each other: a view of a part of a projection."""
    x = x if packed else x.flatten(0, 1)
    return x if x.stride()[1:] == (x.size(2), 1) else x.contiguous()


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _inputs(q, k, v, bias, spans) -> Dict[str, Any]:
    """The arguments that say what is asked for."""
    return {
        "q_ptr": q,
        "k_ptr": k,
        "v_ptr": v,
        "bias_ptr": bias,
        "spans_ptr": spans,
        "q_row": q.stride(0),
        "k_row": k.stride(0),
        "v_row": v.stride(0),
        "bias_head": 0 if bias is None else bias.stride(0),
        "bias_row": 0 if bias is None else bias.stride(1),
        **_widths(q.size(-1)),
    }


def _widths(head_dim: int) -> Dict[str, int]:
    # tl.dot takes powers of two from 16 on
    return {"HEAD_DIM": head_dim, "PADDED_DIM": max(1 << (head_dim - 1).bit_length(), 16)}


def _launch(name: str, num_programs: Callable[[Dict[str, int]], int], **arguments) -> None:
    """Run a kernel; ``num_programs`` follows from the constants of its tile."""
    from tupe_fairseq.attention import triton_kernels

    q = arguments["q_ptr"]
    tile = TILES[q.element_size() == 2, q.size(-1) > 64][name]
    with torch.cuda.device_of(q):
        getattr(triton_kernels, name)[(num_programs(tile),)](**arguments, **tile)


def _delta(out: Tensor, grad_out: Tensor) -> Tensor:
    """sum(out * grad_out) over K, in float32, H x tokens."""
    from tupe_fairseq.attention import triton_kernels

    num_tokens, num_heads, head_dim = grad_out.shape
    delta = out.new_empty((num_heads, num_tokens), dtype=torch.float32)
    with torch.cuda.device_of(out):
        triton_kernels.delta_kernel[(_cdiv(num_tokens, DELTA_TOKENS) * num_heads,)](
            out_ptr=out,
            grad_out_ptr=grad_out,
            delta_ptr=delta,
            grad_row=grad_out.stride(0),
            num_heads=num_heads,
            num_tokens=num_tokens,
            BLOCK_Q=DELTA_TOKENS,
            **_widths(head_dim),
        )
    return delta
