"""What the layers of a forward pass need for attention: one value, made once for all of them."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable

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
        *,
        scaling: float,
        dropout: float,
    ) -> Tensor:
        """The weighted sums of the values: (N, 3, H, K) -> (N, H, K).

        ``position`` is the layer's own encoding, if it has one.
        """
        position, width, content_bias = position or self.position, qkv.size(-1), None
        if position is not None and position.uses("content_bias"):
            content_bias = functools.partial(self._content_bias, position)
        if position is not None and position.uses("transform"):
            qkv = self._transform(position, qkv)
        out = self.attend(qkv, content_bias, scaling=scaling, dropout=dropout)
        return out[..., :width]

    def _transform(self, position: PositionEncoding, qkv: Tensor) -> Tensor:
        qk, v = qkv.split((2, 1), dim=1)
        at = self.sequences.positions[:, None, None], *self.precomputed
        if position.uses("transform_keys"):
            q, k = qk.split(1, dim=1)
            qk = torch.cat((position.transform(q, *at), position.transform_keys(k, *at)), dim=1)
            v = F.pad(v, (0, qk.size(-1) - v.size(-1)))  # attention needs one width
        else:
            qk = position.transform(qk, *at)
        return torch.cat((qk, v), dim=1)

    def _content_bias(self, position: PositionEncoding, q: Tensor, k: Tensor) -> Tensor:
        """For sequences that begin at position 0: q, k (B, H, L, K) -> (B, H, L, L)."""
        bias = position.content_bias(q, k, q.size(2), k.size(2), *self.precomputed)
        assert bias is not None
        return bias
