"""No position, or T5's bucketed distances alone."""

from tupe_fairseq.position.absolute import AbsoluteEncoding


class NoPosition(AbsoluteEncoding):
    """No positions: tokens are a set; with ``rel_pos`` only their distance counts, as in T5.

    logits = q k^T / sqrt(K) (+ R with ``rel_pos``), R of :class:`RelativePositionBias`.
    Source: Raffel et al. 2020, section 2.1, https://arxiv.org/abs/1910.10683.  T5 leaves the
    logits unscaled and initialises the projections smaller instead; here all schemes share one
    initialisation, so the factor stays.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`.
        rel_pos, rel_pos_buckets, max_rel_pos, untie_cls: see :class:`AbsoluteEncoding`.
    """
