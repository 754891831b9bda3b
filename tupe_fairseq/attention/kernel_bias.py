"""A bias as the Triton kernels read it: whole, or the factors that they make tiles of."""

import math
from typing import Any, Dict, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.bias import Bias, Parts

# So many columns of the factors are multiplied one by one where tl.dot would have to be twice as
# wide for them, such as the two of an untied [CLS] beside those of a head.
FEW_COLUMNS = 4
LOG2_E = math.log2(math.e)


class KernelBias(NamedTuple):
    """What the kernels get, without gradient; all None without a bias.

    Factors are in base 2, as the kernels' exponentials are.

    Args:
        whole (Tensor, optional): the bias itself.
        factors (Tensor, optional): the columns that tl.dot multiplies, filled up with zeros: of
            queries, then of keys, each in P parts whose sum they are.  For float32 it is one part,
            for 16 bits two in bfloat16: their products keep 16 bits of each term, where a copy of
            the whole bias keeps 8 or 11 of what lies between it and the row's maximum.  (TF32, two
            thirds of that work, would keep 11 of each term: fewer where the terms are larger.)
        vectors (Tensor, optional): the other columns in float32, first L numbers for each of the
            queries', then for each of the keys'; and in the end the numbers by distance.
        columns (int): how many those columns are.
        distances_from (int, optional): the first query, and key, that has a number by distance;
            None if none has.
    Shape:
        whole (H, L, L), factors (2, P, H, L, W), vectors (H, M).
    """

    whole: Optional[Tensor] = None
    factors: Optional[Tensor] = None
    vectors: Optional[Tensor] = None
    columns: int = 0
    distances_from: Optional[int] = None

    def arguments(self) -> Dict[str, Any]:
        """Those of the kernels that this answers."""
        in_rows = self.vectors if self.whole is None else self.whole
        return {
            "bias_ptr": self.whole,
            "factors_ptr": self.factors,
            "vectors_ptr": self.vectors,
            "bias_head": 0 if in_rows is None else in_rows.stride(0),
            "bias_row": 0 if self.whole is None else self.whole.stride(1),
            "WIDTH": 0 if self.factors is None else self.factors.size(-1),
            "COLUMNS": self.columns,
            "DISTANCES_FROM": self.distances_from,
        }


def kernel_bias(attn_bias: Optional[Bias], dtype: torch.dtype, is_padded: bool) -> KernelBias:
    """``attn_bias`` for kernels that compute in ``dtype``; factors are copied once for all layers.

    Args:
        attn_bias (Bias, optional): of one shape for the whole batch.
        dtype (torch.dtype): of q.
        is_padded (bool): whether sequences are shorter than the bias.  A whole one then stays in
            float32: in 16 bits, each length would need a copy of its own (``Bias.corner``).
    """
    if attn_bias is None:
        return KernelBias()
    layout = attn_bias.layout
    if layout is None:
        whole = attn_bias.values.detach().float() if is_padded else attn_bias.copy_in(dtype)
        return KernelBias(whole if whole.stride(-1) == 1 else whole.contiguous())
    parts = attn_bias.parts(attn_bias.values.detach().float())
    dotted = dotted_columns(layout.width)
    factors = vectors = None
    if dotted:
        is_split = torch.finfo(dtype).bits < 32
        key = "factors", is_split
        factors = attn_bias.once(key, lambda: _factors(parts, dotted, is_split))
    if dotted < layout.width or layout.has_distances:
        vectors = attn_bias.once("vectors", lambda: _vectors(parts, dotted))
    distances_from = int(layout.spares_first) if layout.has_distances else None
    return KernelBias(None, factors, vectors, layout.width - dotted, distances_from)


def padded_width(width: int) -> int:
    """tl.dot takes powers of two from 16 on."""
    return max(1 << (width - 1).bit_length(), 16)


def dotted_columns(width: int) -> int:
    """How many columns of the factors tl.dot multiplies: all, or all but a few."""
    if width <= FEW_COLUMNS:
        return 0
    fewer = padded_width(width) // 2
    return fewer if fewer >= 16 and width - fewer <= FEW_COLUMNS else width


def _factors(parts: Parts, dotted: int, is_split: bool) -> Tensor:
    assert parts.queries is not None and parts.keys is not None
    of_queries = parts.queries[:, :, :dotted] * LOG2_E
    sides = torch.stack([of_queries, parts.keys[:, :dotted].transpose(1, 2)])
    sides = F.pad(sides, (0, padded_width(dotted) - dotted))
    if not is_split:
        return sides[:, None]
    high = sides.bfloat16()
    return torch.stack([high, (sides - high).bfloat16()], dim=1)


def _vectors(parts: Parts, dotted: int) -> Tensor:
    rows = []
    if parts.queries is not None and parts.keys is not None:
        rows.append((parts.queries[:, :, dotted:].transpose(1, 2) * LOG2_E).flatten(1))
        rows.append(parts.keys[:, dotted:].flatten(1))
    if parts.by_distance is not None:
        rows.append(parts.by_distance * LOG2_E)
    return torch.cat(rows, dim=1)
