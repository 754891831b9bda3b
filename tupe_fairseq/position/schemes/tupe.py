"""TUPE: untied absolute positions, and for TUPE-R the bucketed distance."""

from typing import Optional, cast

from torch import Tensor

from tupe_fairseq.position.absolute import AbsoluteEncoding
from tupe_fairseq.position.bias_factors import BiasFactors
from tupe_fairseq.position.encoding import head_dim_of
from tupe_fairseq.position.positions import Positions
from tupe_fairseq.position.relative_position_bias import RelativePositionBias
from tupe_fairseq.position.reset_cls import untied_factors
from tupe_fairseq.position.untied_absolute import UntiedAbsoluteBias


class TupePositionBias(AbsoluteEncoding):
    """The part of the attention scores that depends on positions alone.

    TUPE-A: bias = A.  TUPE-R (``rel_pos``): bias = A + R.
    Source: Ke, He and Liu 2021, Eqs. (10) and (11), https://arxiv.org/abs/2006.15595; A is
    :class:`UntiedAbsoluteBias`, R is :class:`RelativePositionBias`.

    It is computed once per forward pass and shared by all layers and by the whole batch.  The
    scores of the words must be scaled by the same ``scaling`` before the two are added.

    Args:
        embed_dim (int): model width, D.
        num_heads (int): number of heads, H; divides ``embed_dim``.
        max_positions (int): the longest sequence, [CLS] included.
        rel_pos (bool): add R: TUPE-R.
        rel_pos_buckets (int, optional): number of buckets of R, even and at least 4; 32 if None.
        max_rel_pos (int, optional): distance from which R has one bucket per direction; 128 if
            None.
        tie_cls (bool): leave [CLS] an ordinary position (the paper's ablation).
        causal (bool): see :class:`PositionEncoding`.
    Shape:
        positions n, (T) or (B, T), for the queries and, if they are others, for the keys ->
        (H, Tq, Tk), with (B, T) positions (B, H, Tq, Tk); rows are queries.
    Dtype and device: those of the parameters, but at least float32, also under autocast.
    Raises:
        ValueError: if a size is less than 1, ``num_heads`` does not divide ``embed_dim``, or a
            position is not in 0 .. max_positions - 1.
        ValueError: if ``rel_pos_buckets`` or ``max_rel_pos`` does not fit, or is given without
            ``rel_pos``.
    """

    OPTIONS = ("rel_pos", "rel_pos_buckets", "max_rel_pos", "tie_cls")
    TABLE = "untied_absolute.pos.weight"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rel_pos: bool = False,
        rel_pos_buckets: Optional[int] = None,
        max_rel_pos: Optional[int] = None,
        tie_cls: bool = False,
        causal: bool = False,
    ):
        # The 2 keeps the variance of the sum of two correlations, words' and positions'.
        scaling = (2 * head_dim_of(embed_dim, num_heads)) ** -0.5
        super().__init__(
            embed_dim,
            num_heads,
            max_positions,
            causal=causal,
            scaling=scaling,
            rel_pos=rel_pos,
            rel_pos_buckets=rel_pos_buckets,
            max_rel_pos=max_rel_pos,
            untie_cls=rel_pos and not tie_cls,
        )
        self.unties_cls = not tie_cls
        self.untied_absolute = UntiedAbsoluteBias(
            embed_dim, num_heads, max_positions, scaling=scaling, untie_cls=not tie_cls
        )
        # The untied [CLS]: theta_1, and its bucket, change no probability, and the gradient that
        # reaches them through a softmax is rounding noise.
        self.softmax_invariant_rows = () if tie_cls else (0,)

    def position_bias(
        self, positions_q: Positions, positions_k: Optional[Positions] = None
    ) -> Tensor:
        bias = self.untied_absolute(positions_q, positions_k)
        relative = super().position_bias(positions_q, positions_k)
        return bias if relative is None else bias + relative

    def bias_factors(self, seq_len: int) -> Optional[BiasFactors]:
        queries, keys, to_other, to_cls = self.untied_absolute.factors(seq_len)
        by_distance = None
        if self.relative is not None:
            relative = cast(RelativePositionBias, self.relative)
            by_distance = relative.by_distance(seq_len)
            # A and R are reset each on its own, so that their scores of [CLS] add up
            of_cls = zip((to_other, to_cls), relative.of_cls())
            to_other, to_cls = (of_absolute + of_relative for of_absolute, of_relative in of_cls)
        if not self.unties_cls:
            return BiasFactors(queries, keys, by_distance)
        return untied_factors(queries, keys, by_distance, to_other, to_cls)
