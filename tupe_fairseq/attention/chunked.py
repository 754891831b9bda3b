"""Attention on the CPU in tiles that stay in cache, with a backward pass of its own.

torch's fused attention on the CPU has no gradient for a bias and no dropout; its plain one keeps
B x H x L x L probabilities and spends most of its time on random numbers.  Here the probabilities
of a tile (some heads of one sequence, or some rows of one head) are made, used and forgotten, and
made again in the backward pass.
"""

import math
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe_fairseq.attention.bias import Bias, shared_bias_refusal
from tupe_fairseq.attention.blocked import BlockedAttention
from tupe_fairseq.attention.joined import one_by_one
from tupe_fairseq.attention.keep_mask import KeepMask
from tupe_fairseq.attention.padding import Padding, batch_spans
from tupe_fairseq.attention.sdpa import attend_calls, sdpa_refusal

# Elements of a tile for each thread: 1 MiB of float32, which is found in most level-2 caches.
TILE = 2**18


class Tile(NamedTuple):
    """Some heads of one sequence, all keys; all queries, or some if it is one head."""

    heads: slice
    sequence: int  # its number in the batch
    tokens: slice  # the whole sequence, among the tokens of the batch
    rows: slice  # the queries, within the sequence
    num_sharing: int  # so many heads share a stream of dropout masks, whatever the threads

    def drop(self, keep: KeepMask, x: Tensor, out: Tensor) -> Tensor:
        """As :meth:`KeepMask.drop`, heads x rows x L."""
        for head in range(0, x.size(0), self.num_sharing):
            if not self.rows.start:  # further rows of a head continue its stream
                keep.begin(self.heads.start + head, self.sequence)
            part = slice(head, head + self.num_sharing)
            keep.drop(x[part], out=out[part])
        return out


def _tiles(spans: List[Tuple[int, int]], num_heads: int) -> Iterator[Tile]:
    """Every tile of a batch; heads change last, so that their bias stays in cache meanwhile.

    Of short sequences as many heads as fill a tile, also next to a long one.
    """
    size = TILE * torch.get_num_threads()
    alike: Dict[Tuple[int, int], List[int]] = {}
    for sequence, (_, length) in enumerate(spans):
        if length:
            num_sharing = min(max(TILE // length**2, 1), num_heads)
            num_together = max(size // length**2 // num_sharing, 1) * num_sharing
            alike.setdefault((num_sharing, min(num_together, num_heads)), []).append(sequence)
    for (num_sharing, num_together), sequences in alike.items():
        for head in range(0, num_heads, num_together):
            heads = slice(head, min(head + num_together, num_heads))
            for sequence in sequences:
                start, length = spans[sequence]
                tokens = slice(start, start + length)
                # a multiple of the 4 elements of a draw, so that none serves two tiles
                num_rows = math.ceil(max(size // length, 1) / 4) * 4
                for row in range(0, length, num_rows):
                    rows = slice(row, min(row + num_rows, length))
                    yield Tile(heads, sequence, tokens, rows, num_sharing)


class _Scratch:
    """Buffers for tiles, reused from tile to tile."""

    def __init__(self, q: Tensor):
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self._buffers: Dict[str, Tensor] = {}

    def load(self, x: Tensor, tile: Tile) -> Tensor:
        """N x H x K -> heads x L x K of the tile's sequence, at least in float32."""
        return x[tile.tokens, tile.heads].transpose(0, 1).to(self.dtype)

    def buffer(self, name: str, *shape: int) -> Tensor:
        size = shape[0] * shape[1] * shape[2]
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = torch.empty(size, dtype=self.dtype)
        return self._buffers[name][:size].view(shape)

    def probs(self, q: Tensor, k: Tensor, bias: Optional[Tensor], tile: Tile, scaling: float):
        """softmax(scaling * q k^T + bias), heads x rows x L."""
        scores = self.buffer("probs", q.size(0), q.size(1), k.size(1))
        if bias is None:
            torch.bmm(q, k.transpose(1, 2), out=scores).mul_(scaling)
        else:
            tile_bias = bias[tile.heads, tile.rows, : k.size(1)].to(self.dtype)
            torch.baddbmm(tile_bias, q, k.transpose(1, 2), alpha=scaling, out=scores)
        return torch.softmax(scores, dim=-1, out=scores)


class _ChunkedAttention(torch.autograd.Function):
    """Saves q, k, v and the output, all of size N x D, and the one bias that all layers share."""

    @staticmethod
    def forward(ctx, q, k, v, bias, spans, scaling, dropout):
        # q, k, v: N x H x K
        tiles = list(_tiles(spans, q.size(1)))
        seed = None
        is_one_dtype = bias is None or bias.dtype == q.dtype
        if not dropout and is_one_dtype and sdpa_refusal(q, None, None) is None:
            # detached: torch passes its fused kernel over where a mask asks for a gradient
            calls = one_by_one(
                spans, lambda size: None if bias is None else bias.detach()[:, :size, :size]
            )
            out = attend_calls(q, k, v, calls, scaling)
        else:
            keep = KeepMask(dropout) if dropout else None
            seed = keep and keep.seed
            out = torch.zeros_like(q, memory_format=torch.contiguous_format)
            scratch = _Scratch(q)
            for tile in tiles:
                tile_q, tile_k, tile_v = (scratch.load(x, tile) for x in (q, k, v))
                probs = scratch.probs(tile_q[:, tile.rows], tile_k, bias, tile, scaling)
                if keep is not None:
                    tile.drop(keep, probs, out=probs)
                attended = torch.bmm(probs, tile_v)
                if keep is not None:
                    attended.mul_(keep.scale)
                out[tile.tokens, tile.heads][tile.rows] = attended.transpose(0, 1)
        ctx.save_for_backward(q, k, v, bias, out)
        ctx.options = tiles, scaling, dropout, seed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        with torch.autocast("cpu", enabled=False):  # it may be called where autocast is on
            return _gradients(ctx, grad_out)


def _gradients(ctx, grad_out):
    """The gradients of q, k, v and the bias, from probabilities that are made again."""
    q, k, v, bias, out = ctx.saved_tensors
    tiles, scaling, dropout, seed = ctx.options
    keep = KeepMask(dropout, seed) if dropout else None
    scratch = _Scratch(q)
    # one buffer for the three, laid out as the projection's output; tiles write all of it
    # unless there is padding
    written = sum(t.rows.stop - t.rows.start for t in tiles if t.heads.start == 0)
    make = torch.empty if written == q.size(0) else torch.zeros
    grad_qkv = make((q.size(0), 3, *q.shape[1:]), dtype=scratch.dtype)
    grad_q, grad_k, grad_v = grad_qkv.unbind(1)
    grad_bias = torch.zeros_like(bias) if ctx.needs_input_grad[3] else None
    # the sum over the keys of probs * its gradient, from what is at hand: N x H x 1
    delta = (out.to(scratch.dtype) * grad_out).sum(dim=-1, keepdim=True)
    if keep is not None:
        grad_out = grad_out * keep.scale
    for tile in tiles:
        tile_q, tile_k, tile_v = (scratch.load(x, tile) for x in (q, k, v))
        tile_q = tile_q[:, tile.rows]
        tile_grad, tile_delta = (scratch.load(x, tile)[:, tile.rows] for x in (grad_out, delta))
        probs = scratch.probs(tile_q, tile_k, bias, tile, scaling)
        grad_scores = scratch.buffer("grad_scores", *probs.shape)
        torch.bmm(tile_grad, tile_v.transpose(1, 2), out=grad_scores)
        if keep is None:
            kept = probs
            grad_scores.sub_(tile_delta).mul_(probs)
        else:
            kept = tile.drop(keep, probs, out=scratch.buffer("kept", *probs.shape))
            # (keep * grad_probs - delta) * probs, without reading the mask again
            grad_scores.mul_(kept).addcmul_(probs, tile_delta, value=-1)
        if grad_bias is not None:
            grad_bias[tile.heads, tile.rows, : tile_k.size(1)] += grad_scores
        product_q = torch.bmm(grad_scores, tile_k).mul_(scaling)
        product_k = torch.bmm(grad_scores.transpose(1, 2), tile_q).mul_(scaling)
        product_v = torch.bmm(kept.transpose(1, 2), tile_grad)
        grad_q[tile.tokens, tile.heads][tile.rows] = product_q.transpose(0, 1)
        put = Tensor.add_ if tile.rows.start else Tensor.copy_
        put(grad_k[tile.tokens, tile.heads], product_k.transpose(0, 1))
        put(grad_v[tile.tokens, tile.heads], product_v.transpose(0, 1))
    return (*grad_qkv.to(q.dtype).unbind(1), grad_bias, None, None, None)


def chunked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    *,
    scaling: float,
    dropout: float,
) -> Tensor:
    """As :func:`eager_attention`, in tiles, or in blocks under a bias in factors; zeros at padding.

    Computed in float32 at least, whatever the dtype of q.  The dropout probability is rounded to a
    multiple of 2^-16.
    """
    spans = batch_spans(q, padding)
    flat = q.dim() == 4
    tokens = [x.flatten(0, 1) if flat else x for x in (q, k, v)]
    with torch.autocast("cpu", enabled=False):
        if attn_bias is not None and attn_bias.layout is not None:
            out = BlockedAttention.apply(
                *tokens, attn_bias.values, attn_bias.layout, spans, scaling, dropout
            )
        else:
            values = None if attn_bias is None else attn_bias.values
            out = _ChunkedAttention.apply(*tokens, values, spans, scaling, dropout)
    return out.view(q.shape) if flat else out


def chunked_refusal(q: Tensor, attn_bias: Optional[Bias], padding: Optional[Padding]):
    """Why tiles cannot serve this request, or None."""
    if q.device.type != "cpu":
        return f"it runs on the CPU only, and the tensors are on {q.device.type}"
    return shared_bias_refusal(q, attn_bias, padding)
