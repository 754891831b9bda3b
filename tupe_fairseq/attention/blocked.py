"""Attention on the CPU under a bias in factors, in blocks of queries and keys.

The factors of the bias are further columns of queries and keys, so that one product gives the
scores, and one each the gradients; distances are added to a block where it is made.  Nothing grows
with the square of the length, and a block stays in cache for all that is done with it.
"""

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.distance_blocks import DistanceBlocks
from tupe_fairseq.attention.keep_mask import KeepMask

# Queries and keys of a block.  Measured with 2 MiB of level-2 cache, T = 4,096, 4 heads, a thread:
# 1.93 times the fused kernel without a bias, against 2.02 for 256 x 512 and 2.15 for 128 x 512.
# The products alone are 11 for its 7, and run as fast as its own.
QUERIES, KEYS = 256, 1024


class Sequence(NamedTuple):
    """Some heads of a sequence; queries from the last one to the first.

    Args:
        queries (Tensor): scaled, then the factors of the bias, heads x L x (K + F).
        keys (Tensor): and their factors, heads x (K + F) x L.
        keys_in_rows (Tensor): the same, heads x L x (K + F), as the gradient of queries is made
            fastest.
        values (Tensor): heads x L x K.
    """

    heads: slice
    number: int
    tokens: slice
    queries: Tensor
    keys: Tensor
    keys_in_rows: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        return self.keys.size(2)


class _Pass:
    """What a pass, forward or backward, needs for each block."""

    def __init__(self, q, k, v, bias: Bias, scaling: float, dropout: float, seed: Optional[int]):
        self.q, self.k, self.v, self.scaling = q, k, v, scaling
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        assert bias.layout is not None
        self.layout = bias.layout
        self.parts = bias.parts(bias.values.to(self.dtype))
        self.keep = KeepMask(dropout, seed) if dropout else None
        self._buffers: Dict[str, Tensor] = {}

    def block(self, name: str, sequence: Sequence, queries: slice, keys: slice) -> Tensor:
        """A block to write to, in the memory of the last one of this name, which is in cache."""
        shape = (len(sequence.queries), queries.stop - queries.start, keys.stop - keys.start)
        size = shape[0] * shape[1] * shape[2]
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = torch.empty(size, dtype=self.dtype)
        return self._buffers[name][:size].view(shape)

    def distances(self, grad: Optional[Tensor] = None) -> Optional[DistanceBlocks]:
        if self.parts.by_distance is None:
            return None
        return DistanceBlocks(self.parts.by_distance, grad, self.layout.spares_first)

    def load(self, x: Tensor, tokens: slice, heads: slice) -> Tensor:
        """N x H x K -> heads x L x K of a sequence."""
        return x[tokens, heads].transpose(0, 1).to(self.dtype)

    def sequences(self, spans: List[Tuple[int, int]]) -> Iterator[Sequence]:
        num_heads = self.q.size(1)
        for number, (start, length) in enumerate(spans):
            tokens = slice(start, start + length)
            # a head for each thread: products of one head are too small to be shared out; of a
            # short sequence as many as fill a block
            filling = QUERIES * KEYS // max(length, 1) ** 2
            together = min(max(torch.get_num_threads(), filling), num_heads)
            for head in range(0, num_heads if length else 0, together):
                heads = slice(head, min(head + together, num_heads))
                queries = [self.load(self.q, tokens, heads) * self.scaling]
                keys = [self.load(self.k, tokens, heads).transpose(1, 2)]
                if self.parts.queries is not None and self.parts.keys is not None:
                    queries.append(self.parts.queries[heads, :length])
                    keys.append(self.parts.keys[heads, :, :length])
                joined_keys = torch.cat(keys, dim=1)
                yield Sequence(
                    heads,
                    number,
                    tokens,
                    torch.cat(queries, dim=2).flip(1),
                    joined_keys,
                    joined_keys.transpose(1, 2).contiguous(),
                    self.load(self.v, tokens, heads).contiguous(),
                )

    def scores(self, sequence: Sequence, distances, queries: slice, keys: slice) -> Tensor:
        """A block of the scores, their bias included."""
        out = self.block("scores", sequence, queries, keys)
        factors = sequence.queries[:, queries], sequence.keys[:, :, keys]
        if distances is None:
            return torch.bmm(*factors, out=out)
        distances.fill(out, sequence.heads, (queries.start, keys.start), sequence.length)
        return out.baddbmm_(*factors)

    def drop(self, sequence: Sequence, queries: slice, keys: slice, x: Tensor, out: Tensor):
        """As :meth:`KeepMask.drop`: each block has a stream of its own."""
        assert self.keep is not None
        for head in range(x.size(0)):
            place = (sequence.heads.start + head, sequence.number, queries.start, keys.start)
            self.keep.begin(*place)
            self.keep.drop(x[head], out=out[head])
        return out


def _blocks(length: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


class BlockedAttention(torch.autograd.Function):
    """Attention within sequences, under one bias in factors; see :mod:`tupe_fairseq.attention`.

    Computed in float32 at least.  Saves q, k, v, the output and two numbers for each query, and
    the factors of the bias, which all layers share.

    Args:
        q, k, v (Tensor): all tokens, one sequence after the other.
        values, layout: those of the ``Bias``.
        spans (list): first token and length of each sequence.
        scaling, dropout (float): see there.
    Shape:
        q, k, v (N, H, K) -> (N, H, K); zeros outside of the sequences.
    """

    @staticmethod
    def forward(ctx, q, k, v, values, layout, spans, scaling, dropout):
        # q, k, v: N x H x K
        made = _Pass(q, k, v, Bias(values, layout), scaling, dropout, None)
        distances = made.distances()
        out = torch.zeros_like(q, memory_format=torch.contiguous_format)
        # of each query its highest score, and the sum of exp(score - highest): of their one
        # logarithm a float32 would keep little next to scores of thousands
        highest, total = q.new_zeros((2, *q.shape[:2]), dtype=made.dtype)
        for sequence in made.sequences(spans):
            attended = torch.empty_like(sequence.values)
            sums = attended.new_empty(2, *attended.shape[:2], 1)
            for queries in _blocks(sequence.length, QUERIES):
                parts = _attend(made, sequence, distances, queries)
                attended[:, queries], sums[0][:, queries], sums[1][:, queries] = parts
            out[sequence.tokens, sequence.heads] = attended.flip(1).transpose(0, 1).to(q.dtype)
            for stored, made_now in zip((highest, total), sums.flip(2).squeeze(3)):
                stored[sequence.tokens, sequence.heads] = made_now.t()
        ctx.save_for_backward(q, k, v, values, out, highest, total)
        ctx.options = layout, spans, scaling, dropout, made.keep and made.keep.seed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        with torch.autocast("cpu", enabled=False):  # it may be called where autocast is on
            return _gradients(ctx, grad_out)


def _attend(made: _Pass, sequence: Sequence, distances, queries: slice) -> Tuple[Tensor, ...]:
    """The output of some queries, their highest scores, and sums, heads x queries x 1."""
    highest: Optional[Tensor] = None
    for keys in _blocks(sequence.length, KEYS):
        scores = made.scores(sequence, distances, queries, keys)
        of_block = scores.amax(dim=2, keepdim=True)
        new_highest = of_block if highest is None else torch.maximum(highest, of_block)
        weights = scores.sub_(new_highest).exp_()
        of_block = weights.sum(dim=2, keepdim=True)
        if made.keep is not None:
            made.drop(sequence, queries, keys, weights, out=weights)
        values = sequence.values[:, keys]
        if highest is None:
            total, attended = of_block, torch.bmm(weights, values)
        else:
            shrink = torch.exp(highest - new_highest)
            total = total.mul_(shrink).add_(of_block)
            attended = attended.mul_(shrink).baddbmm_(weights, values)
        highest = new_highest
    assert highest is not None
    if made.keep is not None:
        attended.mul_(made.keep.scale)
    return attended.div_(total), highest, total


def _gradients(ctx, grad_out):
    """The gradients of q, k, v and the factors, from scores that are made again."""
    q, k, v, values, out, highest, total = ctx.saved_tensors
    layout, spans, scaling, dropout, seed = ctx.options
    made = _Pass(q, k, v, Bias(values, layout), scaling, dropout, seed)
    grad_values = values.new_zeros(values.shape, dtype=made.dtype)
    grads = Bias(values, layout).parts(grad_values)
    needs_bias = ctx.needs_input_grad[3]
    distances = made.distances(grads.by_distance if needs_bias else None)
    # one buffer for the three, laid out as the projection's output; zeros at padding
    grad_qkv = torch.zeros((q.size(0), 3, *q.shape[1:]), dtype=made.dtype)
    # the sum over the keys of probs * its gradient, from what is at hand
    delta = (out.to(made.dtype) * grad_out).sum(dim=-1)
    if made.keep is not None:
        grad_out = grad_out * made.keep.scale
    for sequence in made.sequences(spans):
        tokens, heads = sequence.tokens, sequence.heads
        # heads x L x 1
        rows = (x[tokens, heads].t().flip(1).unsqueeze(2) for x in (highest, total, delta))
        of_highest, of_total, of_delta = rows
        # by the sum, by which probabilities are too large
        of_out = made.load(grad_out, tokens, heads).flip(1) / of_total
        given = of_out, of_highest, of_delta / of_total
        of_q, of_k, of_v = _sequence_gradients(made, sequence, distances, needs_bias, *given)
        head_dim = q.size(2)
        parts = of_q[:, :, :head_dim].mul_(scaling), of_k[:, :head_dim].mT, of_v.mT
        for grad, part in zip(grad_qkv[tokens, :, heads].unbind(1), parts):
            grad.copy_(part.transpose(0, 1))
        if grads.queries is not None and grads.keys is not None:
            grads.queries[heads, : sequence.length] += of_q[:, :, head_dim:]
            grads.keys[heads, :, : sequence.length] += of_k[:, head_dim:]
    bias_grad = grad_values.to(values.dtype) if needs_bias else None
    return (*grad_qkv.to(q.dtype).unbind(1), bias_grad, None, None, None, None)


def _sequence_gradients(
    made: _Pass, sequence: Sequence, distances, needs_bias: bool, of_out, highest, delta
) -> Tuple[Tensor, Tensor, Tensor]:
    """Those of queries (in the order of the tokens), keys and values, with those of the factors.

    From exp(score - highest), so that of_out and delta come divided by the sum of these.

    Shape:
        of_out heads x L x K, highest and delta heads x L x 1, queries from the last to the first
        -> heads x L x (K + F), heads x (K + F) x L, heads x K x L.
    """
    grad_q, grad_k = torch.zeros_like(sequence.queries), torch.zeros_like(sequence.keys)
    grad_v = torch.zeros_like(sequence.values.mT)
    gathers = distances is not None and needs_bias
    for queries in _blocks(sequence.length, QUERIES):
        of_queries = of_out[:, queries]
        for keys in _blocks(sequence.length, KEYS):
            place = sequence, queries, keys
            weights = made.scores(sequence, distances, queries, keys)
            weights.sub_(highest[:, queries]).exp_()
            if gathers:
                grad_scores = distances.grad_block(weights.shape)
            else:
                grad_scores = made.block("grad_scores", *place)
            torch.bmm(of_queries, sequence.values[:, keys].mT, out=grad_scores)
            kept = weights
            if made.keep is None:
                grad_scores.sub_(delta[:, queries]).mul_(weights)
            else:
                kept = made.drop(*place, weights, out=made.block("kept", *place))
                # (keep * grad_probs - delta) * probs, without reading the mask again
                grad_scores.mul_(kept).addcmul_(weights, delta[:, queries], value=-1)
            grad_q[:, queries].baddbmm_(grad_scores, sequence.keys_in_rows[:, keys])
            grad_k[:, :, keys].baddbmm_(sequence.queries[:, queries].mT, grad_scores)
            grad_v[:, :, keys].baddbmm_(of_queries.mT, kept)
            if gathers:
                first = queries.start, keys.start
                distances.gather(grad_scores, sequence.heads, first, sequence.length)
    return grad_q.flip(1), grad_k, grad_v
