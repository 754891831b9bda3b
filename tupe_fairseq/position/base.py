"""The common interface of all position encodings."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tupe_fairseq.position.positions import Positions, as_tensor, relative_positions

# added to the logit of a key that a query does not see: finite, in case it sees none at all
HIDDEN = torch.finfo(torch.float32).min / 2


class PositionEncoding(nn.Module):
    """How attention sees the positions of tokens.

        input  = input + embed(p)                                                    (a)
        logits = scaling * transform(q, p) transform_keys(k, p)^T                    (b)
                 + bias(p) + content_bias(q, k, p)                                   (c), (d)

    An encoding overrides the hooks that it needs. What (b) and (d) can compute from positions
    alone, :meth:`precompute` computes once for all layers. [CLS] is the token at position 0,
    wherever it is in the batch. A relative position is key position minus query position.

    Shape: positions are an int n (for 0 .. n - 1), a range, or an integer tensor (T) or (B, T).

    Args:
        embed_dim, num_heads (int): D and H; the width of a head is K = D / H.
        max_positions (int): the longest sequence, for encodings with a table.
        causal (bool): queries do not see later keys (the logits are -inf there).
    """

    takes: dict[str, Any] = {}  # the options of TupeConfig that it takes, with their defaults
    need_rel_pos: tuple[str, ...] = ()  # those of them that have no effect without rel_pos
    correlations = 1  # number of terms in the logits: scaling = 1 / sqrt(correlations K)
    TABLE: str | None = None  # the name of the parameter with a row for each position
    table_begins = 0  # the row of position 0
    max_positions_is_unit = False  # whether distances are measured in units of max_positions
    per_layer = False  # whether each layer has its own parameters
    widening = 1  # the factor by which (b) widens queries and keys
    cls_row_is_constant = False  # whether (c) is the same for all keys if the query is [CLS]
    one_way_heads = False  # whether a head sees no later keys, or no earlier ones
    unit: Tensor

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim ({embed_dim}) is not divisible by num_heads ({num_heads})")
        self.embed_dim, self.num_heads, self.max_positions = embed_dim, num_heads, max_positions
        self.head_dim = embed_dim // num_heads
        self.causal = causal
        self.scaling = self.scaling_of(self.head_dim)
        self.relative: nn.Module | None = None  # T5's bias, which --rel-pos adds to (c)
        # has the module's device and dtype; its value is never read
        self.register_buffer("unit", torch.ones((), device="cpu"), persistent=False)

    def _apply(self, fn, *args, **kwargs):
        super()._apply(fn, *args, **kwargs)
        if self.unit.is_meta:  # where load_state_dict(assign=True) would leave it
            self.unit = torch.ones_like(self.unit, device="cpu")
        return self

    @classmethod
    def from_config(cls, config, *, causal: bool = False):
        """Build the encoding with a model's sizes and the options that are given."""
        options = config.position_options
        one_way = options.pop("one_way_heads", False)
        if one_way and causal:
            raise ValueError("one_way_heads is not for decoders, which see no later keys; drop it")
        if one_way and config.num_heads % 2:
            raise ValueError(f"num_heads ({config.num_heads}) must be even for one_way_heads")
        for key, value in options.items():
            if key not in cls.takes:
                raise ValueError(
                    f"position encoding {config.position_encoding!r} does not take {key} "
                    f"({value}); its options: {', '.join(cls.takes) or 'none'}"
                )
            if key not in cls.defaults(config.rel_pos):
                raise ValueError(
                    f"{key} ({value}) has no effect without rel_pos; add that or drop {key}"
                )
        options.pop("position_each_layer", None)  # the encoder applies it
        sizes = config.embed_dim, config.num_heads, config.max_positions
        encoding = cls(*sizes, causal=causal, **options)
        encoding.one_way_heads = one_way
        return encoding

    @classmethod
    def scaling_of(cls, head_dim: int) -> float:
        return (cls.correlations * head_dim) ** -0.5

    @classmethod
    def defaults(cls, rel_pos: bool) -> dict[str, Any]:
        """The options that have an effect, with their defaults."""
        return {name: x for name, x in cls.takes.items() if rel_pos or name not in cls.need_rel_pos}

    @classmethod
    def uses(cls, hook: str) -> bool:
        """Whether the encoding overrides a hook."""
        return getattr(cls, hook) is not getattr(PositionEncoding, hook)

    def embed(self, positions: Positions) -> Tensor | None:
        """(a) Added to the input: (T, D) or (B, T, D)."""
        return None

    def precompute(self, positions: Tensor, length: int) -> Tensor | None:
        """The last argument of transform and content_bias; None if there is none.

        In a per_layer encoding it must not depend on parameters: all layers get the first layer's.

        Args:
            positions: as in ``transform``.
            length: larger than all positions in ``content_bias``.
        """
        return None

    def in_layer(self, precomputed: Tensor, queries_and_keys: Callable[[Tensor], Tensor]) -> Tensor:
        """What one layer's transform and content_bias get, made of :meth:`precompute`'s result.

        ``queries_and_keys`` are the layer's W_Q and W_K with their biases: (n, D) -> (n, 2, H, K).
        """
        return precomputed

    def transform(self, x: Tensor, positions: Tensor) -> Tensor:
        """(b) Queries: (..., H, K) -> (..., H, widening K); positions broadcast to (..., H)."""
        return x

    def transform_keys(self, x: Tensor, positions: Tensor, *precomputed: Tensor) -> Tensor:
        """(b) Keys; by default like queries."""
        return self.transform(x, positions, *precomputed)

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor | None:
        """(c) Added to the logits: (H, Tq, Tk) or (B, H, Tq, Tk). Called by :meth:`forward`."""
        return None

    def content_bias(
        self, q: Tensor, k: Tensor, positions_q: Positions, positions_k: Positions
    ) -> Tensor | None:
        """(d) Projected q (B, H, Tq, K), k (B, H, Tk, K) -> broadcastable to (B, H, Tq, Tk)."""
        return None

    def forward(
        self, positions_q: Positions, positions_k: Positions | None = None
    ) -> Tensor | None:
        """:meth:`bias` from parameters in float32 or wider, without autocast: all layers add it.

        By default the keys are at the queries' positions.
        """
        at = positions_q, positions_q if positions_k is None else positions_k
        bias = self.in_full_precision(self.bias, *at)
        return self._one_way(bias, *at) if self.one_way_heads else bias

    def in_full_precision(self, method: Callable, *args):
        """Call a method with parameters in float32 or wider, without autocast."""
        parameters = {f"encoding.{name}": x for name, x in self.named_parameters()}
        like = self._like()
        with torch.autocast("cpu" if like.is_meta else like.device.type, enabled=False):
            if all(x.dtype.itemsize > 2 for x in parameters.values()):
                return method(*args)
            wide = {name: x.to(_wide(x.dtype)) for name, x in parameters.items()}
            return torch.func.functional_call(_Method(self, method), wide, args)

    def _one_way(
        self, bias: Tensor | None, positions_q: Positions, positions_k: Positions
    ) -> Tensor:
        """Hide later keys from the first half of the heads, earlier ones from the second half.

        The token itself is seen by both. So [CLS] is seen by all tokens in the first half alone.
        Hallee and Gleghorn 2026, https://arxiv.org/abs/2604.18603
        """
        like = self._like() if bias is None else bias
        distance = relative_positions(positions_q, positions_k, like.device)
        hidden = torch.stack((distance > 0, distance < 0), dim=-3)
        hidden = hidden.repeat_interleave(self.num_heads // 2, dim=-3)
        bias = like.new_zeros((), dtype=_wide(like.dtype)) if bias is None else bias
        return bias.masked_fill(hidden, HIDDEN)

    def distances(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        """Key position minus query position: (Tq, Tk) or (B, Tq, Tk), float32 or wider."""
        like = self._like()
        return relative_positions(positions_q, positions_k, like.device).to(_wide(like.dtype))

    def _like(self) -> Tensor:
        """A tensor on the module's device, in its dtype."""
        return next(self.parameters(), self.unit)

    def forward_input(self, input: Tensor, positions: Positions | None = None) -> Tensor:
        """The first layer's input: (B, T, D) -> (B, T, D). Positions are 0 .. T - 1 if None."""
        if input.dim() != 3 or input.size(-1) != self.embed_dim:
            raise ValueError(f"input is {tuple(input.shape)}; expected (B, T, {self.embed_dim})")
        added = self.embed(_fit(positions, input, 1))
        return input if added is None else input + added.to(input)

    def forward_attn(
        self,
        q: Tensor,
        k: Tensor,
        positions_q: Positions | None = None,
        positions_k: Positions | None = None,
        queries_and_keys: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Attention logits before padding mask and softmax, from projected, unscaled q and k.

        An encoding with ``in_layer`` needs ``queries_and_keys``, see there.

        Shape: q (B, H, Tq, K), k (B, H, Tk, K) -> (B, H, Tq, Tk). Positions are 0 .. T - 1 if None.
        """
        for x in (q, k):  # with another width, the scaling would be wrong
            if x.dim() != 4 or x.shape[1::2] != (self.num_heads, self.head_dim):
                raise ValueError(
                    f"queries or keys are {tuple(x.shape)}; expected "
                    f"(B, {self.num_heads}, T, {self.head_dim})"
                )
        positions_q, positions_k = _fit(positions_q, q, 2), _fit(positions_k, k, 2)
        at_q, at_k = (as_tensor(p, q.device).unsqueeze(-1) for p in (positions_q, positions_k))
        transformed_q = self.transform(q.transpose(1, 2), at_q).transpose(1, 2)
        transformed_k = self.transform_keys(k.transpose(1, 2), at_k).permute(0, 2, 3, 1)
        logits = self.scaling * transformed_q @ transformed_k
        position_bias = self(positions_q, positions_k)
        if position_bias is not None:
            logits = logits + position_bias.to(logits.device)
        of_layer = []
        if self.uses("in_layer"):
            shared = self.precompute(at_q, 0)
            if queries_and_keys is None or shared is None:
                raise ValueError("give queries_and_keys: each layer projects this encoding's table")
            of_layer = [self.in_layer(shared, queries_and_keys)]
        content_bias = self.content_bias(q, k, positions_q, positions_k, *of_layer)
        if content_bias is not None:
            logits = logits + content_bias
        if self.causal:
            is_later = relative_positions(positions_q, positions_k, q.device) > 0
            is_later = is_later if is_later.dim() == 2 else is_later.unsqueeze(1)
            logits = logits.masked_fill(is_later, float("-inf"))
        return logits


class _Method(nn.Module):
    """A method as a forward pass, whose parameters functional_call can replace."""

    def __init__(self, encoding: PositionEncoding, method: Callable):
        super().__init__()
        self.encoding, self.method = encoding, method

    def forward(self, *args):
        return self.method(*args)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _fit(positions: Positions | None, x: Tensor, dim: int) -> Positions:
    """Positions along dimension ``dim`` of x; refuses shapes that would be broadcast to fit."""
    if positions is None:
        return x.size(dim)
    positions = as_tensor(positions, x.device)
    if positions.size(-1) != x.size(dim) or positions.shape[:-1] not in ((), (1,), x.shape[:1]):
        raise ValueError(
            f"positions are {tuple(positions.shape)}; expected ({x.size(dim)},) or "
            f"({x.size(0)}, {x.size(dim)})"
        )
    return positions
