"""The one interface of all position encodings."""

from typing import Any

import torch
from torch import Tensor, nn

from tupe_fairseq.position.positions import Positions, as_tensor, relative_positions


class PositionEncoding(nn.Module):
    """How attention sees the positions of tokens.

        input  = input + embed(p)                                                    (a)
        logits = scaling * transform(q, p) transform_keys(k, p)^T                    (b)
                 + bias(p) + content_bias(q, k, p)                                   (c), (d)

    An encoding overrides what it needs of the four hooks; what (b) and (d) need of the positions
    alone, :meth:`precompute` computes once for all layers. [CLS] is the token at position 0,
    wherever it stands; relative position is key position minus query position.

    Shape: positions are an int n (0 .. n - 1), a range, or integers (T) or (B, T), everywhere.

    Args:
        embed_dim, num_heads (int): D and H; a head has the width K = D / H.
        max_positions (int): the longest sequence, for encodings with a table.
        causal (bool): no query sees a later key (logits are -inf there).
    """

    takes: dict[str, Any] = {}  # its options, those of TupeConfig, with their defaults
    correlations = 1  # terms of the logits: scaling is 1 / sqrt(correlations K)
    TABLE: str | None = None  # the parameter with a row for each position
    table_begins = 0  # the row of position 0
    max_positions_is_unit = False  # whether other max_positions change all distances
    per_layer = False  # whether each layer has parameters of its own
    widening = 1  # how many times as wide as values (b) makes queries and keys
    unties_cls = False  # whether [CLS] has scores of its own
    cls_row_is_constant = False  # whether the query [CLS] gives all keys one value in (c)

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim ({embed_dim}) is not divisible by num_heads ({num_heads}); "
                "change --encoder-embed-dim or --encoder-attention-heads"
            )
        self.embed_dim, self.num_heads, self.max_positions = embed_dim, num_heads, max_positions
        self.head_dim = embed_dim // num_heads
        self.causal = causal
        self.scaling = self.scaling_of(self.head_dim)
        self.relative: nn.Module | None = None  # T5's bias, the part of (c) for --rel-pos
        # has the module's device and dtype; not a buffer, which would stay on the meta device
        self.unit = torch.ones((), device="cpu")

    def _apply(self, fn, *args, **kwargs):
        moved = fn(self.unit)
        self.unit = torch.ones_like(moved, device="cpu") if moved.is_meta else moved
        return super()._apply(fn, *args, **kwargs)

    @classmethod
    def scaling_of(cls, head_dim: int) -> float:
        return (cls.correlations * head_dim) ** -0.5

    @classmethod
    def defaults(cls, rel_pos: bool) -> dict[str, Any]:
        """The options that have an effect, some only with ``rel_pos``."""
        return cls.takes

    @classmethod
    def uses(cls, hook: str) -> bool:
        """Whether the encoding overrides a hook."""
        return getattr(cls, hook) is not getattr(PositionEncoding, hook)

    def embed(self, positions: Positions) -> Tensor | None:
        """(a) Added to the input: (T, D) or (B, T, D)."""
        return None

    def precompute(self, positions: Tensor, length: int) -> Tensor | None:
        """What transform and content_bias get as their last argument; None for nothing.

        With a per_layer encoding all layers get the first one's: it depends on no parameter then.

        Args:
            positions: as ``transform`` gets them.
            length: above all positions that ``content_bias`` gets.
        """
        return None

    def transform(self, x: Tensor, positions: Tensor) -> Tensor:
        """(b) Queries (..., H, K) at positions that broadcast to (..., H): (..., H, widening K)."""
        return x

    def transform_keys(self, x: Tensor, positions: Tensor, *precomputed: Tensor) -> Tensor:
        """(b) Keys, if not as queries."""
        return self.transform(x, positions, *precomputed)

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor | None:
        """(c) Added to the logits: (H, Tq, Tk) or (B, H, Tq, Tk), float32 or wider."""
        return None

    def content_bias(
        self, q: Tensor, k: Tensor, positions_q: Positions, positions_k: Positions
    ) -> Tensor | None:
        """(d) Projected q (B, H, Tq, K), k (B, H, Tk, K) -> broadcastable to (B, H, Tq, Tk)."""
        return None

    def forward(self, positions_q: Positions, positions_k: Positions | None = None):
        """As :meth:`bias`; keys where the queries are, if it is not said where."""
        return self.bias(positions_q, positions_q if positions_k is None else positions_k)

    def forward_input(self, input: Tensor, positions: Positions | None = None) -> Tensor:
        """The first layer's input: (B, T, D) -> (B, T, D). Positions are 0 .. T - 1 if None."""
        if input.dim() != 3 or input.size(-1) != self.embed_dim:
            raise ValueError(f"input is {tuple(input.shape)}; expected is (B, T, {self.embed_dim})")
        added = self.embed(_fit(positions, input, 1))
        return input if added is None else input + added.to(input)

    def forward_attn(
        self,
        q: Tensor,
        k: Tensor,
        positions_q: Positions | None = None,
        positions_k: Positions | None = None,
    ) -> Tensor:
        """The logits before padding mask and softmax, from projected queries and keys, not scaled.

        Shape: q (B, H, Tq, K), k (B, H, Tk, K) -> (B, H, Tq, Tk). Positions are 0 .. T - 1 if None.
        """
        for x in (q, k):  # of another width, scaling would be wrong
            if x.dim() != 4 or x.shape[1::2] != (self.num_heads, self.head_dim):
                raise ValueError(
                    f"queries or keys are {tuple(x.shape)}; expected is "
                    f"(B, {self.num_heads}, T, {self.head_dim})"
                )
        positions_q, positions_k = _fit(positions_q, q, 2), _fit(positions_k, k, 2)
        at_q, at_k = (as_tensor(p, q.device).unsqueeze(-1) for p in (positions_q, positions_k))
        transformed_q = self.transform(q.transpose(1, 2), at_q).transpose(1, 2)
        transformed_k = self.transform_keys(k.transpose(1, 2), at_k).permute(0, 2, 3, 1)
        logits = self.scaling * transformed_q @ transformed_k
        position_bias = self.bias(positions_q, positions_k)
        if position_bias is not None:
            logits = logits + position_bias.to(logits.device)
        content_bias = self.content_bias(q, k, positions_q, positions_k)
        if content_bias is not None:
            logits = logits + content_bias
        if self.causal:
            is_later = relative_positions(positions_q, positions_k, q.device) > 0
            is_later = is_later if is_later.dim() == 2 else is_later.unsqueeze(1)
            logits = logits.masked_fill(is_later, float("-inf"))
        return logits


def _fit(positions: Positions | None, x: Tensor, dim: int) -> Positions:
    """Positions of dimension ``dim`` of x; refuses those that broadcasting would repeat."""
    if positions is None:
        return x.size(dim)
    positions = as_tensor(positions, x.device)
    if positions.size(-1) != x.size(dim) or positions.shape[:-1] not in ((), (1,), x.shape[:1]):
        raise ValueError(
            f"positions are {tuple(positions.shape)}; expected is ({x.size(dim)},) or "
            f"({x.size(0)}, {x.size(dim)})"
        )
    return positions
