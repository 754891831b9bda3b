"""DeBERTa's relative positions: words attend to distances, and distances to words."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tupe_fairseq.initialization import Embedding
from tupe_fairseq.options import DEBERTA_BUCKETS, DEBERTA_MAX_DISTANCE
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions, pick, relative_positions


def distance_bucket(distance: Tensor, num_buckets: int, max_distance: int) -> Tensor:
    """DeBERTa-v2's buckets of query minus key position: exact near zero, then logarithmic.

        n = |distance|, half = num_buckets / 2, exact = half // 2
        bucket = sign(distance) (n if n <= exact else min(half - 1, exact +
                 ceil(log(n / exact) / log((max_distance - 1) / exact) * (exact - 1))))

    Computed in float32, as in their code, whose buckets weights were trained with. There, a later
    key beyond max_distance falls into bucket -half, which shorter texts do not train; here, as
    an earlier one does, into the last bucket that they train.

    Shape: any -> the same, int64.
    """
    if num_buckets < 4 or num_buckets % 2:
        raise ValueError(f"rel_pos_buckets ({num_buckets}) must be even and at least 4")
    half = num_buckets // 2
    exact = half // 2
    if max_distance <= exact + 1:
        raise ValueError(
            f"max_rel_pos ({max_distance}) must be above the range of exact buckets ({exact}) by "
            "more than 1; raise it, or lower rel_pos_buckets"
        )
    n = distance.abs()
    log = torch.log(n.clamp(min=exact) / exact) / torch.log(
        torch.tensor((max_distance - 1) / exact, device=distance.device)
    )
    far = (torch.ceil(log * (exact - 1)).long() + exact).clamp(max=half - 1)
    return torch.where(n <= exact, n, far) * distance.sign()


class DebertaPositions(PositionEncoding):
    """A table of distances, which each layer projects like words, to queries and to keys.

        logits = (q_i . k_j + q_i . k^r_d + q^r_d . k_j) / sqrt(3 K),   d = bucket(p_i - p_j)
        q^r = LN(E) W_Q + b_Q,  k^r = LN(E) W_K + b_K,  with the layer's own W_Q, b_Q, W_K, b_K
        He et al. 2021, Eqs. 2 to 4, https://arxiv.org/abs/2006.03654, as DeBERTa-v2 and v3

    All layers share E and its LayerNorm. The paper writes d of p_j - p_i in the last term; this is
    the authors' code, which all checkpoints were trained with. Row ``rel_pos_buckets`` / 2 + d of E
    is bucket d, as there; row 0 is unused.
    """

    takes = {"rel_pos_buckets": DEBERTA_BUCKETS, "max_rel_pos": DEBERTA_MAX_DISTANCE}
    correlations = 3

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rel_pos_buckets: int = DEBERTA_BUCKETS,
        max_rel_pos: int = DEBERTA_MAX_DISTANCE,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.max_rel_pos = max_rel_pos
        # not a buffer: see PositionEncoding.unit
        distances = torch.arange(-max_rel_pos, max_rel_pos + 1, device="cpu")
        self.rows = distance_bucket(distances, rel_pos_buckets, max_rel_pos) + rel_pos_buckets // 2
        self.rel_embeddings = Embedding(rel_pos_buckets, embed_dim)
        self.rel_ln = nn.LayerNorm(embed_dim)

    def precompute(self, positions: Tensor, length: int) -> Tensor:
        """LN(E): (rel_pos_buckets, D)."""
        return self.rel_ln(self.rel_embeddings.weight)

    def in_layer(self, precomputed: Tensor, queries_and_keys: Callable[[Tensor], Tensor]) -> Tensor:
        """q^r and k^r: (rel_pos_buckets, 2, H, K)."""
        return queries_and_keys(precomputed)

    def content_bias(
        self,
        q: Tensor,
        k: Tensor,
        positions_q: Positions,
        positions_k: Positions,
        precomputed: Tensor | None = None,
    ) -> Tensor:
        # query minus key, a row for each key
        distances = relative_positions(positions_k, positions_q, q.device)
        index = distances.clamp(-self.max_rel_pos, self.max_rel_pos) + self.max_rel_pos
        rows = self.rows.to(q.device, non_blocking=True)[index]
        if precomputed is None:  # without a layer
            table = self.precompute(rows, 0).unflatten(-1, (1, self.num_heads, -1))
            precomputed = table.expand(-1, 2, -1, -1)
        # (rows, 2, H, K) -> (H, K, rows) each
        table_q, table_k = (self.scaling * precomputed).to(q.dtype).permute(1, 2, 3, 0)
        by_query = pick(torch.matmul(q, table_k), rows.transpose(-2, -1))
        by_key = pick(torch.matmul(k, table_q), rows)
        return by_query + by_key.transpose(-2, -1)
