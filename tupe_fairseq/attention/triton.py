"""Attention on the GPU: kernels that know a bias shared by the batch, its gradient and dropout.

With a bias that requires a gradient, torch's fused attention has no dropout (FlexAttention) or
makes a gradient of B x H x L x L (memory-efficient attention).  The kernels are in
:mod:`tupe_fairseq.attention.triton_kernels`; Triton itself is imported when they are first run.
"""

from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.kernel_bias import KernelBias, kernel_bias, padded_width
from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.strips import Strips
from tupe_fairseq.attention.triton_tiles import TILES

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

    Of a bias in factors each kernel makes the tile that it uses.  Sums are in float32.  Padding
    gets zeros, in the output and in the gradients.  Dropout follows torch's CPU generator on every
    device.  Gradients are deterministic and cannot be differentiated again.  Ask
    ``triton_refusal`` first; see :mod:`tupe_fairseq.attention`.
    """
    values = None if attn_bias is None else attn_bias.values
    layout = None if attn_bias is None else attn_bias.layout
    is_padded = padding is not None and padding.any
    given = kernel_bias(attn_bias, q.dtype, is_padded)
    return _TritonAttention.apply(q, k, v, values, layout, given, padding, scaling, dropout)


class _TritonAttention(torch.autograd.Function):
    """Saves q, k, v, the output, a number for each query, and the bias that all layers share.

    Args:
        values, layout: those of the ``Bias``; None without one.
        given (KernelBias): what the kernels get of it.
    """

    @staticmethod
    def forward(ctx, q, k, v, values, layout, given, padding, scaling, dropout):
        batch, seq_len = q.shape[:2] if padding is None else (padding.batch, padding.seq_len)
        packed = padding is not None and padding.packed
        spans = padding.device_spans if padding is not None and padding.any else None
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        q, k, v = (_flat(x, packed) for x in (q, k, v))
        num_tokens, num_heads, head_dim = q.shape
        logsumexp = q.new_empty((num_heads, num_tokens), dtype=torch.float32)
        ctx.batch, ctx.packed, ctx.layout = batch, packed, layout
        ctx.bias_dtype = None if values is None else values.dtype
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
            **_inputs(q, k, v, given, spans),
            **ctx.options,
            out_ptr=out,
            logsumexp_ptr=logsumexp,
            stored_row=num_heads * head_dim,
            PACKED=packed,
        )
        tensors, ctx.bias_constants = given[:3], given[3:]
        of_factors = None if layout is None else values
        ctx.save_for_backward(q, k, v, spans, out, logsumexp, of_factors, *tensors)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        q, k, v, spans, out, logsumexp, values, *tensors = ctx.saved_tensors
        given = KernelBias(*tensors, *ctx.bias_constants)
        num_heads, head_dim = q.shape[1:]
        batch, seq_len = ctx.batch, ctx.options["seq_len"]
        needs_q, needs_k, needs_v, needs_bias = ctx.needs_input_grad[:4]
        grad_out = _flat(grad_out, ctx.packed)
        arguments = {
            **_inputs(q, k, v, given, spans),
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
            arguments["batch"] = batch
            if ctx.layout is None:
                grad_bias = _whole_gradient(arguments).to(ctx.bias_dtype)
            else:
                grad_bias = _factor_gradient(arguments, Bias(values, ctx.layout))
        return (
            grad_q if needs_q else None,
            grad_k if needs_k else None,
            grad_v if needs_v else None,
            grad_bias,
            *(None,) * 5,
        )


def _whole_gradient(arguments: Dict[str, Any]) -> Tensor:
    num_heads, seq_len = arguments["num_heads"], arguments["seq_len"]
    grad = arguments["logsumexp_ptr"].new_empty((num_heads, seq_len, seq_len))
    _write_rows(grad, 0, arguments)
    return grad


def _factor_gradient(arguments: Dict[str, Any], bias: Bias) -> Tensor:
    # rounded before they are multiplied, as grad_logits are for grad_q and grad_k
    strips = Strips(bias, arguments["q_ptr"].dtype)
    for first_row in range(0, arguments["seq_len"], strips.rows):
        _write_rows(strips.strip(first_row), first_row, arguments)
        strips.gather(first_row)
    return strips.grad


def _write_rows(rows: Tensor, first_row: int, arguments: Dict[str, Any]) -> None:
    """Some rows, H x rows x L, of the gradient of the whole bias."""
    num_heads, num_rows, seq_len = rows.shape
    _launch(
        "grad_bias_kernel",
        lambda meta: _cdiv(num_rows, meta["BLOCK_Q"]) * _cdiv(seq_len, meta["BLOCK_K"]) * num_heads,
        **arguments,
        grad_bias_ptr=rows,
        stored_head=rows.stride(0),
        stored_row=rows.stride(1),
        first_row=first_row,
        num_rows=num_rows,
    )


def _flat(x: Tensor, packed: bool) -> Tensor:
    """(tokens, H, K), each token's heads next to each other: a view of a part of a projection."""
    x = x if packed else x.flatten(0, 1)
    return x if x.stride()[1:] == (x.size(2), 1) else x.contiguous()


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _inputs(q, k, v, given: KernelBias, spans) -> Dict[str, Any]:
    """The arguments that say what is asked for."""
    return {
        "q_ptr": q,
        "k_ptr": k,
        "v_ptr": v,
        **given.arguments(),
        "spans_ptr": spans,
        "q_row": q.stride(0),
        "k_row": k.stride(0),
        "v_row": v.stride(0),
        **_widths(q.size(-1)),
    }


def _widths(head_dim: int) -> Dict[str, int]:
    return {"HEAD_DIM": head_dim, "PADDED_DIM": padded_width(head_dim)}


def _launch(name: str, num_programs: Callable[[Dict[str, int]], int], **arguments) -> None:
    """Run a kernel; ``num_programs`` follows from the constants of its tile."""
    from tupe_fairseq.attention import triton_kernels

    q = arguments["q_ptr"]
    in_factors = arguments["factors_ptr"] is not None or arguments["vectors_ptr"] is not None
    tile = TILES[q.element_size() == 2, q.size(-1) > 64, in_factors][name]
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
