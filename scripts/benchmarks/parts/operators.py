"""Attention alone: the implementations, the fused kernel without a bias, stock RoBERTa's."""

import contextlib
import functools
from typing import Callable, Dict, NamedTuple

import torch
import torch.nn.functional as F

from parts.timing import saved_bytes
from tupe_fairseq.attention import Padding, chunked, eager, make_mask, sdpa

HEADS, HEAD_DIM = 12, 64
FLOOR, STOCK = "unbiased fused kernel", "stock RoBERTa"


class Shape(NamedTuple):
    """One case of the operator benchmark."""

    batch: int
    seq_len: int
    dropout: float = 0.0
    padding: float = 0.0  # share of padded tokens
    dtype: torch.dtype = torch.float32
    training: bool = True
    heads: int = HEADS
    head_dim: int = HEAD_DIM

    def __str__(self):
        parts = [f"B{self.batch} T{self.seq_len}", f"dropout {self.dropout:g}"]
        if (self.heads, self.head_dim) != (HEADS, HEAD_DIM):
            parts.append(f"{self.heads} heads of {self.head_dim}")
        if self.padding:
            parts.append(f"{self.padding:.0%} padding")
        if self.dtype != torch.float32:
            parts.append(str(self.dtype).split(".")[-1])
        return ", ".join([*parts, "forward and backward" if self.training else "forward"])


def lengths_with_padding(batch: int, seq_len: int, share: float):
    """Lengths evenly spread so that this share of the tokens is padding; the last is full."""
    shortest = round(seq_len * (1 - 2 * share))
    return torch.linspace(shortest, seq_len, batch).round().long()


def operators(shape: Shape, device: torch.device) -> Dict[str, Callable[[], object]]:
    """Column name -> a call that attends once, from the output of the joint projection."""
    batch, seq_len, heads, head_dim = shape.batch, shape.seq_len, shape.heads, shape.head_dim
    qkv = torch.randn(batch, seq_len, 3, heads, head_dim, device=device, dtype=shape.dtype)
    qkv.requires_grad_(shape.training)
    bias = torch.randn(heads, seq_len, seq_len, device=device, requires_grad=shape.training)
    grad = torch.randn(batch, seq_len, heads, head_dim, device=device, dtype=shape.dtype)
    scaling = (2 * head_dim) ** -0.5
    padding = None
    if shape.padding:
        lengths = lengths_with_padding(batch, seq_len, shape.padding)
        mask = torch.arange(seq_len)[None] >= lengths[:, None]
        padding = Padding(mask.to(device))
        grad = grad.masked_fill(padding.mask[:, :, None, None], 0)
    dropout = shape.dropout if shape.training else 0.0

    def run(attend, inputs):
        if not shape.training:
            with torch.no_grad():
                return attend()
        out = attend()
        return torch.autograd.grad(out, inputs, grad)

    def ours(attend, pack=False):
        def call():
            x = qkv if padding is None or not pack else padding.pack(qkv)
            mask = bias if pack else make_mask(bias, padding, shape.dtype)
            out = attend(*x.unbind(-3), mask, scaling=scaling, dropout=dropout)
            return out if padding is None or not pack else padding.unpack(out)

        return lambda: run(call, (qkv, bias))

    def unbiased(dropout, padding):
        def attend():
            q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
            mask = None if padding is None else ~padding.mask[:, None, None, :]
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
            return out.transpose(1, 2)

        return lambda: run(attend, (qkv,))

    def floor():
        with _flash_attention(qkv):
            return unbiased(0.0, None)()

    calls = {FLOOR: floor}
    if dropout or padding is not None:
        calls[STOCK] = unbiased(dropout, padding)
    calls["eager"], calls["sdpa"] = ours(eager.attend), ours(sdpa.attend)
    if device.type == "cpu":
        of_batch = [seq_len] * batch if padding is None else padding.lengths
        calls["chunked"] = ours(functools.partial(chunked.attend, lengths=of_batch), pack=True)
    return calls


def _flash_attention(x: torch.Tensor):
    """FlashAttention-2 and no other on a GPU, where torch may prefer cuDNN's; it has 16 bits."""
    if not x.is_cuda or x.element_size() != 2:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.FLASH_ATTENTION])


def saved_by_attention(name: str, batch: int, seq_len: int, dropout: float) -> int:
    """Bytes kept for backward beyond q, k, v, the output and the shared bias."""
    qkv = torch.randn(batch, seq_len, 3, HEADS, HEAD_DIM, requires_grad=True)
    q, k, v = qkv.unbind(2)
    bias = torch.randn(HEADS, seq_len, seq_len, requires_grad=True)
    outputs = []

    def call():
        if name == STOCK:
            heads = (x.transpose(1, 2) for x in (q, k, v))
            out = F.scaled_dot_product_attention(*heads, dropout_p=dropout)
        else:
            options = {"lengths": [seq_len] * batch} if name == "chunked" else {}
            attend = {"eager": eager, "sdpa": sdpa, "chunked": chunked}[name].attend
            out = attend(q, k, v, bias, **options, scaling=0.1, dropout=dropout)
        outputs.append(out)
        return out

    out_bytes = batch * seq_len * HEADS * HEAD_DIM * 4
    kept = saved_bytes(call, [qkv, bias])
    # the output is kept by the next projection in any case
    return max(kept - out_bytes, 0)
