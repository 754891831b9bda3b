"""What the layers of a forward pass need for attention: one value, made once for all of them.

And two implementations that take the packed tokens in padded batches: ``eager``, the reference,
which is the equation, and ``sdpa``, torch's fused attention.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.sequences import Sequences
from tupe_fairseq.position.base import PositionEncoding

ContentBias = Callable[[Tensor, Tensor], Tensor]


class Attention(ABC):
    """Self-attention within the sequences of a batch, with their positions.

        attention(qkv, ...) = dropout(softmax(logits)) v
        logits = scaling * transform(q) transform_keys(k)^T + bias + content_bias(q, k)

    For the hooks see ``PositionEncoding``. A subclass is an implementation, which makes its masks
    from the bias once.

    Args:
        sequences: the sequences, whose tokens are packed one after the other.
        dtype: of q, k and v.
        bias (Tensor, optional): (H, n, n), rows are queries; a sequence uses the first rows and
            columns.
        position (PositionEncoding, optional): the encoding that all layers share.
        precomputed (Tensor, optional): the result of its ``precompute``.
    """

    def __init__(
        self,
        sequences: Sequences,
        dtype: torch.dtype,
        bias: Tensor | None = None,
        position: PositionEncoding | None = None,
        precomputed: Tensor | None = None,
    ):
        self.sequences, self.position = sequences, position
        self.precomputed = () if precomputed is None else (precomputed,)
        self.make_masks(bias, dtype)

    @abstractmethod
    def make_masks(self, bias: Tensor | None, dtype: torch.dtype) -> None:
        """Prepare what all layers add to the scores."""

    @abstractmethod
    def attend(
        self, qkv: Tensor, content_bias: ContentBias | None, *, scaling: float, dropout: float
    ) -> Tensor:
        """dropout(softmax(scaling * q k^T + bias + content_bias(q, k))) v for transformed q and k.

        Shape: (N, 3, H, K) -> (N, H, K); for ``content_bias`` q, k (B, H, L, K) -> (B, H, L, L).
        """

    def __call__(
        self,
        qkv: Tensor,
        position: PositionEncoding | None = None,
        precomputed: Sequence[Tensor] = (),
        *,
        scaling: float,
        dropout: float,
    ) -> Tensor:
        """The weighted sums of the values: (N, 3, H, K) -> (N, H, K).

        ``position`` is the layer's encoding; for ``precomputed`` see its ``in_layer``.
        """
        width, content_bias = qkv.size(-1), None
        if position is not None and position.uses("content_bias"):
            content_bias = functools.partial(self._content_bias, position, precomputed)
        if position is not None and position.uses("transform"):
            qkv = self._transform(position, precomputed, qkv)
        out = self.attend(qkv, content_bias, scaling=scaling, dropout=dropout)
        return out[..., :width]

    def _transform(self, position: PositionEncoding, precomputed, qkv: Tensor) -> Tensor:
        qk, v = qkv.split((2, 1), dim=1)
        at = self.sequences.positions[:, None, None], *precomputed
        if position.uses("transform_keys"):
            q, k = qk.split(1, dim=1)
            qk = torch.cat((position.transform(q, *at), position.transform_keys(k, *at)), dim=1)
            v = F.pad(v, (0, qk.size(-1) - v.size(-1)))  # attention needs one width
        else:
            qk = position.transform(qk, *at)
        return torch.cat((qk, v), dim=1)

    def _content_bias(self, position: PositionEncoding, precomputed, q: Tensor, k: Tensor):
        """For sequences that begin at position 0: q, k (B, H, L, K) -> (B, H, L, L)."""
        bias = position.content_bias(q, k, q.size(2), k.size(2), *precomputed)
        assert bias is not None
        return bias


class PaddedAttention(Attention):
    """Attention of one padded batch after the other."""

    attend_batch: Callable[..., Tensor]  # of one of them, such as :func:`attend_eagerly`
    masks: list[Tensor | None]

    def make_masks(self, bias: Tensor | None, dtype: torch.dtype) -> None:
        """The mask of each padded batch, see :func:`make_mask`."""
        batches, _ = self.sequences.batches
        biases = [None if bias is None else bias[..., : x.shape[1], : x.shape[1]] for x in batches]
        self.masks = [make_mask(b, x.hidden, dtype) for b, x in zip(biases, batches)]

    def attend(
        self, qkv: Tensor, content_bias: ContentBias | None, *, scaling: float, dropout: float
    ) -> Tensor:
        outs = []
        batches, order = self.sequences.batches
        for batch, mask in zip(batches, self.masks, strict=True):
            q, k, v = batch.unpack(qkv).unbind(2)
            if content_bias is not None:
                content = content_bias(q.transpose(1, 2), k.transpose(1, 2))
                mask = content if mask is None else mask + content
            out = self.attend_batch(q, k, v, mask, scaling=scaling, dropout=dropout)
            outs.append(batch.pack(out))
        return outs[0] if order is None else torch.cat(outs).index_select(0, order)


def attend_eagerly(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    dropout: float,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """dropout(softmax(scaling * q k^T + mask)) v; q, k, v are (B, L, H, K), mask (B, H, L, L).

    A list ``weights`` gets the probabilities, (B, H, L, L).
    """
    scores = torch.matmul(q.transpose(1, 2) * scaling, k.permute(0, 2, 3, 1))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    probs = torch.softmax(scores if mask is None else scores + mask, dim=-1)
    if weights is not None:
        weights.append(probs)
    probs = F.dropout(probs.to(v.dtype), dropout)
    return torch.matmul(probs, v.transpose(1, 2)).transpose(1, 2)


class EagerAttention(PaddedAttention):
    """One operation after the other; the scores are float32 or wider."""

    attend_batch = staticmethod(attend_eagerly)

    def make_masks(self, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().make_masks(bias, torch.promote_types(dtype, torch.float32))


def attend_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    dropout: float,
    is_causal: bool = False,
) -> Tensor:
    """As ``attend_eagerly``. ``is_causal``, which needs mask None, hides later keys."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if mask is not None:
        mask = aligned(as_dtype(mask, q.dtype))
        mask = mask.expand(*q.shape[:3], k.size(2))
    if mask is not None and mask.is_cuda and q.size(-1) % 8 == 0 and q.dtype != torch.float64:
        # cuDNN has no gradient for a mask, and wrong results for some lengths. Kernels can only be
        # disabled for the whole process, including other threads, so we call one of them directly
        options = torch.is_grad_enabled(), dropout, False
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention
        return efficient(q, k, v, mask, *options, scale=scaling)[0].transpose(1, 2)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal, scale=scaling
    )
    # for ONNX the kernel is decomposed, and its output then has other strides
    is_exported, out = torch.compiler.is_exporting(), out.transpose(1, 2)
    return out.clone(memory_format=torch.contiguous_format) if is_exported else out


class SdpaAttention(PaddedAttention):
    attend_batch = staticmethod(attend_fused)


def make_mask(bias: Tensor | None, hidden: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The position bias, with half the dtype's lowest value where a key is hidden from a query.

    This value is finite, so that a row without any visible key does not become NaN.

    Shape: bias (H, L, L) or (B, H, L, L), hidden bool -> broadcastable to (B, H, L, L).
    """
    if bias is not None:
        bias = as_dtype(bias, dtype)
    if hidden is not None:  # after the cast, because this is most of the work
        bias = torch.zeros((), dtype=dtype, device=hidden.device) if bias is None else bias
        bias = bias.masked_fill(hidden, torch.finfo(dtype).min / 2)
    return None if bias is None else aligned(bias)


def as_dtype(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast the mask to the scores' dtype; for 16 bits, shift the maximum of each row to 0.

    softmax ignores a constant that is added to a row, and 16-bit floats are most precise near 0:
    ALiBi's row spans hundreds. The gradient of a row sums to 0, so the constant has no gradient.
    """
    if torch.finfo(dtype).bits < 32 and mask.dtype != dtype:
        mask = mask - mask.detach().amax(dim=-1, keepdim=True)
        mask = mask.clamp(min=torch.finfo(dtype).min / 2)  # in float16 HIDDEN would be infinite
    return mask.to(dtype)


def aligned(mask: Tensor) -> Tensor:
    """On a GPU, make rows contiguous with a stride of a multiple of 8, as torch's kernel needs."""
    if mask.is_cuda and mask.dim() > 1:
        if mask.stride(-1) != 1:  # from a table with a column for each head
            mask = mask.clone(memory_format=torch.contiguous_format)
        if mask.stride(-2) % 8:
            mask = F.pad(mask, (0, -mask.size(-1) % 8)).narrow(-1, 0, mask.size(-1))
    return mask


def scores_dtype(x: Tensor) -> torch.dtype:
    """The dtype of a product with x, such as q, k and v: autocast's, if it is on."""
    device = x.device.type
    is_autocast = not x.is_meta and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_autocast else x.dtype
