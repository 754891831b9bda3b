"""TUPE for transformers: a Transformer encoder whose positions are untied from its words.

Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595, and for other position encodings the
papers named at their classes. MIT License, Copyright (c) 2026 The tupe_fairseq authors.

Shapes: B sequences of L tokens, N in all without padding, D model width, H heads of width K.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.utils import can_return_tuple
from .configuration_tupe import TupeConfig
from typing import Any, NamedTuple, cast
import functools
import itertools
import math
import torch
import torch.nn.functional as F
import transformers.modeling_outputs as outputs

# Made by tupe_fairseq 0.2.0 for position_encoding 'tupe'.


# ---- tupe_fairseq.initialization -----------------------------------------------------------------
class Linear(nn.Linear):
    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.weight, std=0.02)


# ---- tupe_fairseq.options ------------------------------------------------------------------------
MAX_DISTANCE = 128
NUM_BUCKETS = 32


# ---- tupe_fairseq.position.positions -------------------------------------------------------------
Positions = int | range | Tensor  # a tensor is (T) or (B, T); torch.jit.trace also has n in one


def as_tensor(positions: Positions, device) -> Tensor:
    """Positions as an int64 tensor; differences of smaller integers could overflow."""
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, dtype=torch.int64, device=device)
    if not isinstance(positions, Tensor) or positions.dim() == 0:
        return torch.arange(positions, dtype=torch.int64, device=device)  # type: ignore[arg-type]
    if positions.is_floating_point() or positions.dtype == torch.bool:
        raise TypeError(f"positions are {positions.dtype}; they must be integers")
    return positions.to(device, torch.int64)


def table_rows(positions: Positions, max_positions: int) -> int:
    """How many leading rows of a table of ``max_positions`` the positions need."""
    if isinstance(positions, range):
        positions = positions.stop
    if not isinstance(positions, Tensor) or positions.dim() == 0:
        if positions > max_positions:
            raise ValueError(
                f"seq_len ({positions}) is above max_positions ({max_positions}); raise it (of a "
                "trained model: tupe-extend), or shorten the sequences"
            )
        return positions  # type: ignore[return-value]
    lowest, highest = (int(x) for x in positions.aminmax())
    if lowest < 0 or highest >= max_positions:
        raise ValueError(
            f"position {lowest if lowest < 0 else highest} is not in 0 .. max_positions - 1 "
            f"({max_positions - 1})"
        )
    return highest + 1


def relative_positions(positions_q: Positions, positions_k: Positions, device) -> Tensor:
    """Key position minus query position: (Tq, Tk), or (B, Tq, Tk) if one of them is (B, T)."""
    q, k = as_tensor(positions_q, device), as_tensor(positions_k, device)
    return k.unsqueeze(-2) - q.unsqueeze(-1)


def is_at_cls(positions: Positions, device) -> Tensor:
    """Whether each token is [CLS], the one at position 0: (T) or (B, T)."""
    return as_tensor(positions, device) == 0


# ---- tupe_fairseq.position.base ------------------------------------------------------------------
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


class _Method(nn.Module):
    """A method as a forward pass, whose parameters functional_call can replace."""

    def __init__(self, encoding: PositionEncoding, method: Callable):
        super().__init__()
        self.encoding, self.method = encoding, method

    def forward(self, *args):
        return self.method(*args)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


# ---- tupe_fairseq.position.t5_bias ---------------------------------------------------------------
T5_OPTIONS = {"rel_pos": False, "rel_pos_buckets": NUM_BUCKETS, "max_rel_pos": MAX_DISTANCE}


def untie_cls(
    bias: Tensor,
    cls_to_other: Tensor,
    other_to_cls: Tensor,
    positions_q: Positions,
    positions_k: Positions,
) -> Tensor:
    """Give [CLS] its own position scores.

        reset(v, i, j) = cls_to_other  if i is [CLS]                 theta_1
                         other_to_cls  if j is [CLS] and i is not    theta_2
                         v[i, j]       otherwise
        Ke et al. 2021, Eq. 9, https://arxiv.org/abs/2006.15595

    Shape: bias (H, Tq, Tk) or (B, H, Tq, Tk), the two scores (H) -> as bias.
    """
    row_is_cls = is_at_cls(positions_q, bias.device).unsqueeze(-2).unsqueeze(-1)
    column_is_cls = is_at_cls(positions_k, bias.device).unsqueeze(-2).unsqueeze(-2)
    bias = torch.where(column_is_cls, other_to_cls[:, None, None], bias)
    return torch.where(row_is_cls, cls_to_other[:, None, None], bias)


def relative_position_bucket(
    relative_position: Tensor, num_buckets: int, max_distance: int, *, causal: bool = False
) -> Tensor:
    """T5's buckets of distances: exact near zero, logarithmic further out.

        n = |distance|, half = num_buckets / 2, exact = half // 2
        bucket = (half if distance > 0 else 0) + (n if n < exact else min(half - 1,
                 exact + floor(log(n / exact) / log(max_distance / exact) * (half - exact))))
        Raffel et al. 2020, section 2.1, https://arxiv.org/abs/1910.10683

    With ``causal`` all buckets are for keys before the query (half = num_buckets), and later keys
    fall into bucket 0. Computed in float32, as in the authors' code: in another precision, a
    distance at the edge of a bucket could fall into the next one.

    Shape: any -> the same, int64.
    """
    if num_buckets < 4 or num_buckets % 2:
        raise ValueError(f"rel_pos_buckets ({num_buckets}) must be even and at least 4")
    half = num_buckets if causal else num_buckets // 2
    exact = half // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_rel_pos ({max_distance}) must be above the range of exact buckets ({exact}); "
            "raise it, or lower rel_pos_buckets"
        )
    n = (-relative_position).clamp(min=0) if causal else relative_position.abs()
    log = torch.log(n.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (log * (half - exact)).long()).clamp(max=half - 1)
    bucket = torch.where(n < exact, n, far)
    return bucket if causal else bucket + (relative_position > 0).long() * half


class RelativePositionBias(nn.Module):
    """A learned scalar for each head and bucket of the distance.

        R[h, i, j] = table[bucket(p_j - p_i), h], then [CLS] untied
        Ke et al. 2021, the b term of Eq. 8, and Eq. 9, https://arxiv.org/abs/2006.15595

    The table has num_buckets + 1 rows. Two are for the untied [CLS]: the last row (others look at
    [CLS]), and row num_buckets / 2, which no distance uses ([CLS] looks at others). With ``causal``
    distances do use that row, so there is one more. The paper resets the sum A + R once; the
    authors' code, and this one, reset A and R separately.

    Shape: see ``PositionEncoding.bias``.
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = NUM_BUCKETS,
        max_distance: int = MAX_DISTANCE,
        *,
        untie_cls: bool = True,
        causal: bool = False,
    ):
        super().__init__()
        self.max_distance = max_distance
        self.unties_cls = untie_cls
        # Computed once on the CPU, so that buckets do not depend on a device's logarithm. Not a
        # buffer: see PositionEncoding.unit.
        distances = torch.arange(-max_distance, max_distance + 1, device="cpu")
        self.buckets = relative_position_bucket(distances, num_buckets, max_distance, causal=causal)
        self.cls_to_other_row = num_buckets + 1 if causal else num_buckets // 2
        self.other_to_cls_row = num_buckets
        self.relative_attention_bias = Embedding(num_buckets + (2 if causal else 1), num_heads)

    def forward(self, positions_q: Positions, positions_k: Positions | None = None) -> Tensor:
        positions_k = positions_q if positions_k is None else positions_k
        table = self.relative_attention_bias.weight
        n = positions_q
        if isinstance(n, int) and isinstance(positions_k, int) and n == positions_k:
            # Look up 2n - 1 distances, not n * n pairs. Window s has the distances from
            # s - (n - 1) on, which is the row of query n - 1 - s.
            by_distance = table[self._bucket(torch.arange(1 - n, n, device=table.device))].t()
            bias = by_distance.unfold(1, n, 1).flip(1)
        else:
            distance = relative_positions(positions_q, positions_k, table.device)
            bias = table[self._bucket(distance)].movedim(-1, -3)
        if not self.unties_cls:
            return bias
        to_other, to_cls = table[self.cls_to_other_row], table[self.other_to_cls_row]
        return untie_cls(bias, to_other, to_cls, positions_q, positions_k)

    def _bucket(self, distance: Tensor) -> Tensor:
        index = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.buckets.to(distance.device, non_blocking=True)[index]


class WithRelativeBias(PositionEncoding):
    """An encoding to which ``rel_pos`` adds T5's bias R, :class:`RelativePositionBias`.

    For its options see ``PositionOptions``; ``untie_cls`` gives [CLS] its own scores in R.
    """

    takes = {**T5_OPTIONS, "untie_cls": False}
    need_rel_pos = ("rel_pos_buckets", "max_rel_pos", "untie_cls")

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rel_pos: bool = False,
        rel_pos_buckets: int = NUM_BUCKETS,
        max_rel_pos: int = MAX_DISTANCE,
        untie_cls: bool = False,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        if rel_pos:
            self.relative = RelativePositionBias(
                num_heads, rel_pos_buckets, max_rel_pos, untie_cls=untie_cls, causal=causal
            )
            self.cls_row_is_constant = untie_cls
        self.make_table()

    def make_table(self) -> None:
        """Create the parameters of a subclass, after those of the bias."""

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor | None:
        return None if self.relative is None else self.relative(positions_q, positions_k)


# ---- tupe_fairseq.position.tupe ------------------------------------------------------------------
class ProjectedTable(nn.Module):
    """A learned table of positions with its own query and key projections (a mixin).

        LN(p) U_Q + b_Q and LN(p) U_K + b_K for each head    the factors of Ke et al. 2021, Eq. 7

    The LayerNorm and the biases are from the authors' code.
    """

    def make_projected_table(self, num_rows: int, embed_dim: int) -> None:
        self.pos = Embedding(num_rows, embed_dim)
        self.pos_ln = nn.LayerNorm(embed_dim)
        self.pos_q_proj = Linear(embed_dim, embed_dim)
        self.pos_k_proj = Linear(embed_dim, embed_dim)

    def project(self, num_rows: int) -> tuple[Tensor, Tensor]:
        """Queries and keys of the first rows: (H, num_rows, K) each."""
        x = self.pos_ln(self.pos.weight[:num_rows])
        q, k = (
            proj(x).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
            for proj in (self.pos_q_proj, self.pos_k_proj)
        )
        return q, k


def rows_at(projected: Tensor, positions: Positions) -> Tensor:
    """Select rows: (H, rows, K) -> (H, T, K), or (B, H, T, K) for positions (B, T)."""
    if isinstance(positions, range):
        return projected[:, positions.start : positions.stop]
    if not isinstance(positions, Tensor) or positions.dim() == 0:
        return projected[:, :positions]
    return projected[:, as_tensor(positions, projected.device)].movedim(0, -3)


class UntiedAbsoluteBias(ProjectedTable, PositionEncoding):
    """Untied absolute position scores, the A of TUPE.

        A[h, i, j] = scaling * (p_i U_Q^h) . (p_j U_K^h), then [CLS] untied
        Ke et al. 2021, Eq. 7, second term, and Eq. 9, https://arxiv.org/abs/2006.15595

    Position t is row t + 1 of the table. As in the authors' code, each of the two scores of the
    untied [CLS] is the score of a row with itself: row 0 if [CLS] looks at others, row 1 if others
    look at [CLS]. With a tied [CLS], row 1 is only the row of position 0, and row 0 is unused.

    Shape: see ``PositionEncoding.bias``.
    """

    correlations = 2

    def __init__(
        self, embed_dim: int, num_heads: int, max_positions: int, *, untie_cls: bool = True
    ):
        super().__init__(embed_dim, num_heads, max_positions)
        self.unties_cls = untie_cls
        self.make_projected_table(max_positions + 1, embed_dim)

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        rows = max(table_rows(p, self.max_positions) for p in (positions_q, positions_k))
        q, k = self.project(rows + 1)
        rows_q, rows_k = rows_at(q[:, 1:], positions_q), rows_at(k[:, 1:], positions_k)
        bias = self.scaling * torch.matmul(rows_q, rows_k.transpose(-2, -1))
        if not self.unties_cls:
            return bias
        cls_to_other, other_to_cls = (self.scaling * (q[:, r] * k[:, r]).sum(-1) for r in (0, 1))
        return untie_cls(bias, cls_to_other, other_to_cls, positions_q, positions_k)


class TupePositionBias(WithRelativeBias):
    """The position scores that all layers and all sequences of a batch share.

        TUPE-A: A        TUPE-R (``rel_pos``): A + R        scaling = 1 / sqrt(2 K)
        Ke et al. 2021, Eqs. 10 and 11, https://arxiv.org/abs/2006.15595

    A is :class:`UntiedAbsoluteBias`, R is ``RelativePositionBias``. The 2 keeps the variance of the
    logits, which are now a sum of two correlations, one of words and one of positions.

    For its options see ``PositionOptions``.

    Shape: n tokens -> (H, n, n), float32; positions (B, T) -> (B, H, T, T); rows are queries.
    """

    takes = {**T5_OPTIONS, "tie_cls": False}
    correlations = UntiedAbsoluteBias.correlations
    TABLE = "untied_absolute.pos.weight"
    table_begins = 1

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rel_pos: bool = False,
        rel_pos_buckets: int = NUM_BUCKETS,
        max_rel_pos: int = MAX_DISTANCE,
        tie_cls: bool = False,
        causal: bool = False,
    ):
        untie = not tie_cls
        super().__init__(
            embed_dim,
            num_heads,
            max_positions,
            rel_pos=rel_pos,
            rel_pos_buckets=rel_pos_buckets,
            max_rel_pos=max_rel_pos,
            untie_cls=untie,
            causal=causal,
        )
        sizes = embed_dim, num_heads, max_positions
        self.untied_absolute = UntiedAbsoluteBias(*sizes, untie_cls=untie)
        self.cls_row_is_constant = untie

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        absolute = self.untied_absolute(positions_q, positions_k)
        relative = super().bias(positions_q, positions_k)
        return absolute if relative is None else absolute + relative


# ---- tupe_fairseq.attention.sequences ------------------------------------------------------------
def is_traced(device: torch.device) -> bool:
    """Whether a program is recorded from this batch, which must not contain its numbers."""
    return device.type == "meta" or torch.compiler.is_compiling() or torch.jit.is_tracing()


class Batch(NamedTuple):
    """A padded batch (S, n) of sequences, which holds some or all of the N packed tokens."""

    shape: tuple[int, int]  # S, n
    tokens: Tensor | None = None  # indices of its tokens among the N; None: all
    places: Tensor | None = None  # indices of its tokens among the S * n; None: all
    hidden: Tensor | None = None  # bool (S, 1, 1, n), True = padding

    def unpack(self, x: Tensor) -> Tensor:
        """(N, ...) -> (S, n, ...), zeros at the padding."""
        x = x if self.tokens is None else x.index_select(0, self.tokens)
        if self.places is not None:
            zeros = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
            x = zeros.index_copy_(0, self.places, x)
        return x.unflatten(0, self.shape)

    def pack(self, x: Tensor) -> Tensor:
        """(S, n, ...) -> its tokens, without the padding."""
        x = x.flatten(0, 1)
        return x if self.places is None else x.index_select(0, self.places)


class Sequences:
    """The sequences of a padded batch: its rows, or with :func:`isolate` their documents.

    Made once for all layers. What Python must know is copied from the device in one transfer, which
    is not needed with ``lengths``, or without padding.

    Args:
        shape (tuple): B and L.
        padding (Tensor, optional): bool (B, L), True = padding.
        lengths (list, optional): the number of tokens of each row, instead of ``padding``.
        least_padding (float): if the share of padding is smaller, it stays among the tokens.
    Attributes:
        lengths (list, optional): the number of tokens of each sequence, in order. None if padding
            is among the N = B * L tokens, because there is little of it, it is not at the end, or
            the model is compiled or exported.
        whole (Batch): the original batch.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        device: torch.device,
        padding: Tensor | None = None,
        *,
        lengths: list[int] | None = None,
        least_padding: float = 0.0,
    ):
        batch, width = shape
        self.device, self.longest = device, width
        self.lengths: list[int] | None = None
        self.whole = Batch(shape, hidden=None if padding is None else padding[:, None, None, :])
        if is_traced(device):
            return
        if padding is None and lengths is None:
            self.lengths = [width] * batch
            return
        lengths = row_lengths(padding) if padding is not None else lengths
        if lengths is None:
            return
        num_padding = batch * width - sum(lengths)
        if 0 < num_padding < least_padding * batch * width:
            if padding is None:
                self.whole = Batch(shape, hidden=_hidden(lengths, width, device))
            return
        self.whole = Batch(shape, places=_places(lengths, width, device))
        self.lengths, self.longest = lengths, max([1, *lengths])

    @property
    def is_full(self) -> bool:
        """Whether all sequences are as long as the longest."""
        return self.lengths is not None and {*self.lengths} <= {self.longest}

    @functools.cached_property
    def positions(self) -> Tensor:
        """The positions of the N tokens, counted from the start of each sequence."""
        if self.lengths is None or self.is_full:
            count = self.whole.shape[0] if self.lengths is None else len(self.lengths)
            return torch.arange(self.longest, device=self.device).expand(count, -1).flatten()
        return _ranges([0] * len(self.lengths), self.lengths, self.device)

    @functools.cached_property
    def batches(self) -> tuple[list[Batch], Tensor | None]:
        """The sequences in padded batches, for attention that takes no packed tokens.

        And indices that put the tokens of all batches in order again; None if they are.
        """
        batch, width = self.whole.shape
        if self.lengths is None or self.lengths == [width] * batch:
            return [self.whole], None
        return _make_batches(self.lengths, batch * width, self.device)


def row_lengths(padding: Tensor) -> list[int] | None:
    """The number of tokens of each row; None if there is padding before a token."""
    # on the device: on the host, torch's threads would wait for data loading processes
    counts = (~padding).sum(dim=1)
    is_token = torch.arange(padding.size(1), device=padding.device) < counts[:, None]
    on_the_left = padding[:, 0] & (counts > 0)
    results = torch.stack([counts, (padding == is_token).any(1), on_the_left])
    lengths, is_wrong, on_the_left = results.tolist()  # one transfer
    if any(on_the_left):
        raise ValueError(
            "a sequence begins with padding; TUPE numbers positions from the left, so pad "
            "on the right (fairseq's masked_lm and sentence_prediction do)"
        )
    return None if any(is_wrong) else lengths


def _make_batches(
    lengths: list[int], room: int, device: torch.device
) -> tuple[list[Batch], Tensor | None]:
    """One batch if it fits into ``room``, else batches of similar lengths; and the tokens' order.

    In the second case every sequence fills more than half of its row.
    """
    firsts, groups = [0, *itertools.accumulate(lengths)], defaultdict(list)
    is_one = len(lengths) * max([1, *lengths]) <= room
    for number, length in enumerate(lengths):
        groups[is_one or (length - 1).bit_length()].append(number)
    batches, all_tokens = [], []
    for group in groups.values():
        own = [lengths[x] for x in group]
        width = max([1, *own])
        if not is_one:
            all_tokens.append(_ranges([firsts[x] for x in group], own, device))
        places = _places(own, width, device)
        hidden = None if places is None else _hidden(own, width, device)
        tokens = None if is_one else all_tokens[-1]
        batches.append(Batch((len(group), width), tokens, places, hidden))
    return batches, None if is_one else torch.cat(all_tokens).argsort()


def _ranges(starts: Iterable[int], lengths: list[int], device: torch.device) -> Tensor:
    """The ranges start, start + 1, .. of each start and length, one after the other."""
    size = sum(lengths)
    first, count = to_device(torch.tensor([[*starts], lengths]), device)
    first = first - (count.cumsum(0) - count)
    return torch.arange(size, device=device) + first.repeat_interleave(count, output_size=size)


def _places(lengths: list[int], width: int, device: torch.device) -> Tensor | None:
    """Indices of the tokens in rows of ``width``; None if all rows are full."""
    if {*lengths} <= {width}:
        return None
    return _ranges(range(0, width * len(lengths), width), lengths, device)


def _hidden(lengths: list[int], width: int, device: torch.device) -> Tensor:
    counts = to_device(torch.tensor(lengths), device)
    return (torch.arange(width, device=device) >= counts[:, None])[:, None, None, :]


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy from the host without waiting for the work that a GPU still has to do."""
    return x.to(device, non_blocking=device.type == "cuda")


# ---- tupe_fairseq.attention.base -----------------------------------------------------------------
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


# ---- tupe_fairseq.modules.transformer ------------------------------------------------------------
#: the names are fairseq's; no lambdas, which could not be pickled
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": functools.partial(F.gelu, approximate="tanh"),
    "linear": torch.positive,
    "relu": F.relu,
    "tanh": torch.tanh,
}


class TupeMultiheadAttention(nn.Module):
    """Self-attention over words, plus a bias that is passed in.

        head_h = dropout(softmax(scaling * (x W_Q^h)(x W_K^h)^T + bias[h])) (x W_V^h)
        Ke et al. 2021, Eqs. 8 and 10, https://arxiv.org/abs/2006.15595; scaling = 1 / sqrt(2 K)

    It does not know positions: with a constant bias, permuting the tokens permutes the output. A
    ``position`` encoding that reads the words changes q and k or adds to the bias.

    Args:
        scaling (float): factor of the content scores, not of the bias.
        position (PositionEncoding, optional): the layer's own encoding.
    Shape: x (N, D), all tokens of a batch -> (N, D), or (n, D) for ``output_tokens`` (n,), the
    indices of the tokens whose output is needed.
    """

    out_proj: nn.Linear

    def __init__(self, config, scaling: float, position: PositionEncoding | None = None):
        super().__init__()
        self.num_heads, self.scaling = config.num_heads, scaling
        self.dropout = config.attention_dropout
        self.make_projections(config.embed_dim)
        self.position = position

    def make_projections(self, dim: int) -> None:
        # W_Q, W_K, W_V stacked, as in torch's own attention and the authors' checkpoints
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * dim))
        self.out_proj = Linear(dim, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's: N(0, 0.02), biases zero."""
        nn.init.normal_(self.in_proj_weight, std=0.02)
        nn.init.zeros_(self.in_proj_bias)

    def project(self, x: Tensor) -> Tensor:
        """To queries, keys and values: (N, D) -> (N, 3 D)."""
        return F.linear(x, self.in_proj_weight, self.in_proj_bias)

    def queries_and_keys(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, 2, H, K)."""
        return self.project(x).unflatten(-1, (3, self.num_heads, -1))[:, :2]

    def forward(
        self, x: Tensor, attention: Attention, output_tokens: Tensor | None = None
    ) -> Tensor:
        """Attend from each token to all tokens of its sequence."""
        qkv = self.project(x).unflatten(-1, (3, self.num_heads, -1))
        dropout = self.dropout if self.training else 0.0
        position, precomputed = self.of_layer(attention)
        out = attention(qkv, position, precomputed, scaling=self.scaling, dropout=dropout)
        return self.out_proj(select(out.flatten(-2), output_tokens))

    def of_layer(self, shared) -> tuple[PositionEncoding | None, list[Tensor]]:
        """The layer's position encoding, and what it gets of what is ``precomputed`` for all."""
        position = self.position or shared.position
        if position is None:
            return None, []
        return position, [position.in_layer(x, self.queries_and_keys) for x in shared.precomputed]


def select(x: Tensor, tokens: Tensor | None) -> Tensor:
    """Select tokens (N, D) by indices (n,) -> (n, D); all if None."""
    return x if tokens is None else x.index_select(0, tokens)


class TupeLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual and a LayerNorm.

        x = LN(x + dropout(f(x))), or pre-LN (``normalize_before``) x = x + dropout(f(LN(x))),
        for f = attention, then f = fc2(activation(fc1(x)))
        Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; BERT's sizes and exact GELU

    Not a subclass of fairseq's layer, which turns a real-valued mask into -1e8 and, in 0.12.2, has
    a fused inference path that takes no bias at all. The names of submodules are fairseq's. With
    ``gradient_checkpointing`` only the layer's input is kept in training; the backward pass
    computes the rest again. ``encoder_attn`` is for decoders.

    Shape: as ``TupeMultiheadAttention``, (N, D) -> (N, D).
    """

    linear: type[nn.Linear] = Linear  # of the feed-forward network

    def __init__(self, config, self_attn: nn.Module, encoder_attn: nn.Module | None = None):
        super().__init__()
        self.config, self.gradient_checkpointing = config, False
        self.self_attn = self_attn
        self.self_attn_layer_norm = nn.LayerNorm(config.embed_dim)
        if encoder_attn is not None:
            self.encoder_attn = encoder_attn
            self.encoder_attn_layer_norm = nn.LayerNorm(config.embed_dim)
        self.fc1 = self.linear(config.embed_dim, config.ffn_embed_dim)
        self.fc2 = self.linear(config.ffn_embed_dim, config.embed_dim)
        self.final_layer_norm = nn.LayerNorm(config.embed_dim)

    def forward(
        self, x: Tensor, attention: Attention, output_tokens: Tensor | None = None
    ) -> Tensor:
        """The output for all tokens, or for ``output_tokens``."""
        return self.recomputed(self._forward, x, attention, output_tokens)

    def _forward(self, x: Tensor, attention: Attention, output_tokens: Tensor | None) -> Tensor:
        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, attention, output_tokens)

        x = self.add(self.self_attn_layer_norm, x, attend, output_tokens)
        return self.add(self.final_layer_norm, x, self.feed_forward)

    def recomputed(self, function: Callable[..., Tensor], *args) -> Tensor:
        """Call the function; with ``gradient_checkpointing``, again in the backward pass."""
        if self.gradient_checkpointing and self.training:
            return checkpoint(function, *args, use_reentrant=False)
        return function(*args)

    def add(
        self,
        layer_norm: nn.Module,
        x: Tensor,
        function: Callable[[Tensor], Tensor],
        tokens: Tensor | None = None,
    ) -> Tensor:
        """Add a sublayer's output for the tokens that it has one for."""
        pre_ln = self.config.normalize_before
        y = function(layer_norm(x) if pre_ln else x)
        x = select(x, tokens) + F.dropout(y, self.config.dropout, self.training)
        return x if pre_ln else layer_norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        x = ACTIVATIONS[self.config.activation_fn](self.fc1(x))
        return self.fc2(F.dropout(x, self.config.activation_dropout, self.training))


class EncoderStack(nn.Module):
    """A stack of layers over word embeddings, which contain no positions.

        x    = dropout(LN(embeddings + position.embed(n))), for all tokens except padding
        bias = position(n), once for all layers and sequences; n is the longest length
        x    = layer(x, attention with bias) for each layer; pre-LN: x = LN(x)
        Ke et al. 2021, section 3, https://arxiv.org/abs/2006.15595

    The layers share one position encoding (``position_bias``), or each has its own. A subclass
    chooses the implementation of attention.
    """

    attention_module = TupeMultiheadAttention

    def __init__(self, config, encoding: type[PositionEncoding]):
        super().__init__()
        self.config, self.encoding = config, encoding
        self.layernorm_embedding = nn.LayerNorm(config.embed_dim)
        self.position_bias = None if encoding.per_layer else encoding.from_config(config)
        layers = []
        for _ in range(config.num_layers):
            own = encoding.from_config(config) if encoding.per_layer else None
            scaling = encoding.scaling_of(config.embed_dim // config.num_heads)
            layers.append(TupeLayer(config, self.attention_module(config, scaling, own)))
        self.layers = nn.ModuleList(layers)
        self.layer_norm = nn.LayerNorm(config.embed_dim) if config.normalize_before else None

    @abstractmethod
    def attention_class(self, sequences: Sequences, x: Tensor) -> type[Attention]:
        """The implementation of attention for a forward pass."""

    def least_padding(self, x: Tensor) -> float:
        """The share of padding from which on it is left out."""
        # on a GPU, unpacking the tokens for attention costs about an eighth of a layer
        return 1 / 8 if x.is_cuda else 0.0

    @property
    def position(self) -> PositionEncoding | None:
        """The position encoding that all layers share; None if each layer has its own."""
        return self.position_bias

    def position_encodings(self) -> dict[int | None, PositionEncoding]:
        """{None: the shared position encoding}, or {layer: its position encoding}."""
        if self.position is not None:
            return {None: self.position}
        layers = cast(list[TupeLayer], self.layers)
        return {n: cast(PositionEncoding, x.self_attn.position) for n, x in enumerate(layers)}

    def encode(
        self,
        embeddings: Tensor,
        sequences: Sequences,
        return_all_hiddens: bool = False,
        output_tokens: Tensor | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """The hidden states (B, L, D), or of the packed ``output_tokens`` (n) alone (n, D).

        With ``return_all_hiddens`` also the input and the output of each layer, with pre-LN before
        the final LayerNorm. A list ``weights`` gets the attention probabilities (B, H, L, L).
        """
        config, whole = self.config, sequences.whole
        attention, x = self._attention(sequences, embeddings, weights), whole.pack(embeddings)
        added = None if self.position is None else self.position.embed(sequences.longest)
        if added is not None:
            added = F.embedding(sequences.positions, added.to(x))
            x = x + added
        x = F.dropout(self.layernorm_embedding(x), config.dropout, self.training)
        hiddens = [whole.unpack(x)] if return_all_hiddens else []
        for number, layer in enumerate(self.layers):
            if number and added is not None and config.position_each_layer:
                x = x + added
            x = layer(x, attention, output_tokens if number == len(self.layers) - 1 else None)
            if return_all_hiddens:
                hiddens.append(whole.unpack(x))
        x = x if self.layer_norm is None else self.layer_norm(x)
        x = whole.unpack(x) if output_tokens is None else x
        return (x, hiddens) if return_all_hiddens else x

    def _attention(
        self, sequences: Sequences, x: Tensor, weights: list[Tensor] | None
    ) -> Attention:
        """What all layers need besides x."""
        # what does not depend on words is the same in each layer
        position = next(iter(self.position_encodings().values()))
        dtype, bias, precomputed = scores_dtype(x), None, None
        if position.uses("content_bias"):  # it is added to the masks
            dtype = torch.promote_types(dtype, torch.float32)
        if position.uses("precompute"):
            at = sequences.positions[:, None, None]
            precomputed = position.precompute(at, sequences.longest)
        if self.position is not None or self.config.one_way_heads:
            bias = _bias(position, sequences.longest, x.device)
        options = dtype, bias, self.position, precomputed
        if weights is None:
            return self.attention_class(sequences, x)(sequences, *options)
        attention = EagerAttention(sequences, *options)
        attention.attend_batch = functools.partial(attend_eagerly, weights=weights)
        return attention


def _bias(position: PositionEncoding, length: int, device: torch.device) -> Tensor | None:
    """The position bias of all layers: (H, length, length)."""
    bias = position(length)  # a call, so that FSDP's hooks run
    if bias is None:
        return None
    expected = position.num_heads, length, length
    if bias.shape != expected:
        kind = type(position).__name__
        raise ValueError(f"bias of {kind} is {tuple(bias.shape)}; expected {expected}")
    bias = bias.to(device)  # without parameters, an encoding may not know it
    if bias.requires_grad and position.cls_row_is_constant:
        # a constant row cancels in the softmax: its gradient would be rounding noise
        rows = is_at_cls(length, device)[:, None]
        bias.register_hook(lambda grad: grad.masked_fill(rows, 0))
    return bias


# ---- tupe_fairseq.modules.heads ------------------------------------------------------------------
def _mean_of_tokens(hidden: Tensor, real: Tensor) -> Tensor:
    # not in 16 bits, where long sums would overflow
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    weights = real.unsqueeze(-1).to(dtype)
    return (hidden.to(dtype) * weights).sum(dim=1) / weights.sum(dim=1)


#: --pooling -> a function of hidden states (B, L, D) and real tokens, bool (B, L), to (B, D)
POOLINGS = {"mean": _mean_of_tokens, "cls": lambda hidden, real: hidden[:, 0]}


# ---- tupe_fairseq.export.modeling_tupe -----------------------------------------------------------
POSITION_ENCODINGS = {"tupe": TupePositionBias}

ATTENTION: dict[str, type[Attention]] = {"eager": EagerAttention, "sdpa": SdpaAttention}


def chosen(config: TupeConfig, option: str, names) -> str:
    """The value of an option that has names to choose from."""
    value = getattr(config, option)
    if value not in names:
        raise ValueError(f"{option} {value!r} is not one of {', '.join(names)}")
    return value


class TupeSelfAttention(TupeMultiheadAttention):
    """With one ``nn.Linear`` for queries, keys and values, which LoRA finds."""

    def make_projections(self, dim: int) -> None:
        self.in_proj, self.out_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def reset_parameters(self) -> None:
        """It has none itself."""

    def project(self, x: Tensor) -> Tensor:
        return self.in_proj(x)


class TupeStack(EncoderStack):
    """The layers, with the attention that transformers' ``attn_implementation`` names."""

    attention_module = TupeSelfAttention

    def __init__(self, config: TupeConfig):
        chosen(config, "hidden_act", ACTIVATIONS)
        name = chosen(config, "position_encoding", POSITION_ENCODINGS)
        super().__init__(config, POSITION_ENCODINGS[name])

    def forward(self, x: Tensor, padding: Tensor | None, return_all_hiddens: bool, weights):
        """The arguments are those of :meth:`encode`; ``padding`` is bool (B, L)."""
        least = self.least_padding(x) if weights is None else 2.0
        sequences = Sequences(tuple(x.shape[:2]), x.device, padding, least_padding=least)
        return self.encode(x, sequences, return_all_hiddens, weights=weights)

    def attention_class(self, sequences: Sequences, x: Tensor) -> type[Attention]:
        name = self.config._attn_implementation
        if name not in ATTENTION:
            why = "would lose the positions, a bias of the attention scores"
            raise ValueError(f"attn_implementation {name!r} {why}; choose 'sdpa' or 'eager'")
        return ATTENTION[name]


class TupePreTrainedModel(PreTrainedModel):
    """Initialization, loading and saving; see ``PreTrainedModel``."""

    config_class = TupeConfig
    base_model_prefix = "tupe"
    _keys_to_ignore_on_load_unexpected = [r"^(lm_head|classifier|qa_outputs)\."]  # other heads
    supports_gradient_checkpointing = True
    _no_split_modules = ["TupeStack"]  # its layers share a bias, which stays on one device
    _supports_sdpa = True
    accepts_loss_kwargs = False  # or Trainer leaves it to the loss to count accumulated batches

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True

    def _init_weights(self, module: nn.Module) -> None:
        """BERT's: N(0, ``initializer_range``); biases and the embedding of padding are zero."""
        if all(getattr(x, "_is_hf_initialized", False) for x in module.parameters(recurse=False)):
            return
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
            if getattr(module, "padding_idx", None) is not None:
                nn.init.zeros_(module.weight[module.padding_idx])
        elif hasattr(module, "reset_parameters"):  # a LayerNorm, or of a position encoding
            module.reset_parameters()


class TupeModel(TupePreTrainedModel):
    """Hidden states from token ids. Position 0 is [CLS]; padding is on the right."""

    _auto_class = "AutoModel"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.encoder = TupeStack(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None,
        output_attentions=None, output_hidden_states=None, **kwargs,
    ):  # fmt: skip
        """0 in ``attention_mask`` (B, L) is padding, on the right; unchecked in a traced model."""
        unknown = [name for name, value in kwargs.items() if value is not None]
        if unknown:
            raise TypeError(
                f"the model takes no {', '.join(unknown)}: it has one type of tokens, counts their "
                "positions itself, and masks no heads"
            )
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        mask = self.mask_of(input_ids, attention_mask)
        if x.size(1) == 0:
            raise ValueError("the sequences are empty; each needs at least 1 token")
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(
                f"attention_mask is {tuple(mask.shape)}, but must be (B, L), {tuple(x.shape[:2])}"
            )
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        padding, weights = None if mask is None else ~mask, [] if output_attentions else None
        out = self.encoder(x, padding, bool(output_hidden_states), weights)
        x, hidden_states = out if output_hidden_states else (out, None)
        if hidden_states and self.config.normalize_before:
            hidden_states[-1] = x
        return outputs.BaseModelOutput(
            last_hidden_state=x,
            hidden_states=hidden_states and tuple(hidden_states),
            attentions=weights and tuple(weights),
        )

    def mask_of(self, input_ids, attention_mask) -> Tensor | None:
        """True where there is a token, (B, L)."""
        if attention_mask is not None:
            return attention_mask != 0
        return None if input_ids is None else input_ids != self.config.pad_token_id


class TupeLMHead(nn.Module):
    def __init__(self, config: TupeConfig):
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(self.activation(self.dense(x))))


class TupeForMaskedLM(TupePreTrainedModel):
    _auto_class = "AutoModelForMaskedLM"
    _tied_weights_keys = {"lm_head.decoder.weight": "tupe.embed_tokens.weight"}

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.lm_head = TupeLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head.decoder = new_embeddings

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """``labels`` (B, L) are -100 where no word is to be predicted."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits, loss = self.lm_head(out.last_hidden_state), None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return outputs.MaskedLMOutput(loss, logits, out.hidden_states, out.attentions)


class TupeClassificationHead(nn.Module):
    """fairseq's: a hidden layer on the first token, or with ``classifier_pooling`` mean on all."""

    def __init__(self, config: TupeConfig, classes: int | None = None):
        super().__init__()
        self.pooling = chosen(config, "classifier_pooling", POOLINGS)
        self.activation = ACTIVATIONS[chosen(config, "pooler_activation", ACTIVATIONS)]
        self.dropout = nn.Dropout(config.head_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.out_proj = nn.Linear(config.hidden_size, classes or config.num_labels)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        mask = x.new_ones(x.shape[:2]) if mask is None else mask
        x = POOLINGS[self.pooling](x, mask).to(x.dtype)
        return self.out_proj(self.dropout(self.activation(self.dense(self.dropout(x)))))


class TupeForSequenceClassification(TupePreTrainedModel):
    _auto_class = "AutoModelForSequenceClassification"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.classifier = TupeClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """``labels``: (B) classes or scores, or (B, num_labels) for independent labels."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        mask = self.tupe.mask_of(input_ids, attention_mask)
        logits, loss = self.classifier(out.last_hidden_state, mask), None
        if labels is not None:
            values = {"pooled_logits": logits.float(), "labels": labels}
            loss = self.loss_function(**values, config=self.config)
        return outputs.SequenceClassifierOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForMultipleChoice(TupePreTrainedModel):
    _auto_class = "AutoModelForMultipleChoice"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.classifier = TupeClassificationHead(config, classes=1)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """Ids (B, C, L) or ``inputs_embeds`` (B, C, L, D); ``labels`` (B): the right candidates."""
        inputs = (input_ids, attention_mask, inputs_embeds)
        flat = [None if x is None else x.flatten(0, 1) for x in inputs]
        out = self.tupe(*flat, return_dict=True, **kwargs)
        scores = self.classifier(out.last_hidden_state, self.tupe.mask_of(*flat[:2]))
        candidates = (input_ids if inputs_embeds is None else inputs_embeds).size(1)
        logits, loss = scores.view(-1, candidates), None
        if labels is not None:
            loss = F.cross_entropy(logits.float(), labels.flatten())
        return outputs.MultipleChoiceModelOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForTokenClassification(TupePreTrainedModel):
    _auto_class = "AutoModelForTokenClassification"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """``labels`` (B, L) are -100 for tokens without a label."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits, loss = self.classifier(self.dropout(out.last_hidden_state)), None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return outputs.TokenClassifierOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForQuestionAnswering(TupePreTrainedModel):
    _auto_class = "AutoModelForQuestionAnswering"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, start_positions=None,
        end_positions=None, **kwargs,
    ):  # fmt: skip
        """Positions (B) beyond the sequence have no loss."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        start, end = self.qa_outputs(out.last_hidden_state).unbind(-1)
        loss = self.loss_function(start.float(), end.float(), start_positions, end_positions)
        states = out.hidden_states, out.attentions
        return outputs.QuestionAnsweringModelOutput(loss, start, end, *states)
