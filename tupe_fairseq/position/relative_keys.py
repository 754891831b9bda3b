"""A key for each relative position, and two global biases: Transformer-XL's form of attention."""

import torch
from torch import Tensor, nn

from tupe_fairseq.position.encoding import PositionEncoding
from tupe_fairseq.position.positions import Positions, as_length, distinct_relative_positions


class RelativeKeys(PositionEncoding):
    """Queries meet keys of words and keys of relative positions, each under a bias of its own.

    logits = (scaling * q_i + c u) . k_j + (scaling * q_i + c v) . r_ij, r_ij = f(p_j - p_i) W,
    for each head; u is ``global_content_bias``, v ``global_position_bias``, W ``pos_k_proj``.
    A scheme gives the features f, and ``scales_biases`` says whether c is ``scaling`` or 1.

    f and W are applied to the distinct relative positions only, of which a sequence has about
    2 T; time and memory grow with their number.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`.
        num_features (int): how many features f has.
    Dtype and device: those of the parameters and of q and k, the wider; f in float64.
    """

    per_layer = True
    reads_content = True
    #: whether the two biases are multiplied by ``scaling``
    scales_biases = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        num_features: int,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.global_content_bias = nn.Parameter(torch.empty(num_heads, self.head_dim))
        self.global_position_bias = nn.Parameter(torch.empty(num_heads, self.head_dim))
        self.pos_k_proj = nn.Linear(num_features, embed_dim, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's initialisation, N(0, 0.02), of the two biases as well."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def features(self, relative_positions: Tensor) -> Tensor:
        """f: integers (N), key position minus query position -> (N, num_features), float64."""
        raise NotImplementedError

    def content_bias(
        self, q: Tensor, k: Tensor, positions_q: Positions, positions_k: Positions
    ) -> Tensor:
        factor = self.scaling if self.scales_biases else 1.0
        distinct, index = distinct_relative_positions(positions_q, positions_k, q.device)
        # of which quantization makes a module without a weight that could be asked
        features = self.features(distinct).to(self.global_content_bias.dtype)
        keys = self.pos_k_proj(features.to(q.device))
        # N x D -> H x K x N
        keys = keys.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0)
        # (H, K) -> H x 1 x K
        content, position = (
            factor * bias.unsqueeze(1)
            for bias in (self.global_content_bias, self.global_position_bias)
        )
        query = self.scaling * q + position
        by_offset = torch.matmul(query, keys.to(query.dtype))
        num_queries, num_keys = as_length(positions_q), as_length(positions_k)
        # lengths that export leaves open are no ints
        if isinstance(num_queries, int) and isinstance(num_keys, int):
            of_pairs = _diagonals(by_offset, num_keys)
        else:
            of_pairs = pick(by_offset, index)
        return of_pairs + (content * k).sum(dim=-1).unsqueeze(-2)


def _diagonals(by_offset: Tensor, num_keys: int) -> Tensor:
    """Of query i's scores for the offsets 1 - Tq .. Tk - 1 those for j - i, j = 0 .. Tk - 1.

    As :func:`pick` for positions that count from 0, as a view, whose backward pass is several
    times as fast.

    Shape:
        (B, H, Tq, Tq + Tk - 1) -> (B, H, Tq, Tk).
    """
    num_queries, num_offsets = by_offset.shape[-2:]
    if num_queries == 1:
        return by_offset
    # i's score for j - i is the entry i * num_offsets + (j - i + Tq - 1) of the flat matrix,
    # so rows of num_offsets - 1 >= Tk entries, from entry Tq - 1 on, have key j in column j
    row = num_offsets - 1
    flat = by_offset.flatten(-2).narrow(-1, num_queries - 1, num_queries * row)
    return flat.unflatten(-1, (num_queries, row))[..., :num_keys]


def pick(by_offset: Tensor, index: Tensor) -> Tensor:
    """Each query's scores for its keys, of those for all offsets.

    Shape:
        (B, H, Tq, N) at indices (Tq, Tk) or (B, Tq, Tk) -> (B, H, Tq, Tk).
    """
    # (B x) 1 x Tq x Tk
    index = index.unsqueeze(-3)
    batch = max(by_offset.size(0), index.size(0) if index.dim() == 4 else 1)
    by_offset = by_offset.expand(batch, -1, -1, -1)
    return by_offset.gather(-1, index.expand(batch, by_offset.size(1), -1, -1))
