"""TUPE's position bias: the sum of its terms, each with [CLS] untied."""

from typing import Optional, Tuple

from torch import Tensor, nn

from tupe_fairseq.position.relative import RelativePositionBias
from tupe_fairseq.position.untied_absolute import UntiedAbsoluteBias


class TupePositionBias(nn.Module):
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
        rel_pos (bool): add the relative term (TUPE-R).
        rel_pos_buckets (int, optional): number of relative-position buckets, 32 if None; only
            with ``rel_pos``.
        max_rel_pos (int, optional): distance from which on all share a bucket, 128 if None; only
            with ``rel_pos``.
        tie_cls (bool): leave [CLS] an ordinary position (the paper's ablation).
    Shape:
        seq_len -> (H, L, L); rows are queries, columns are keys.
    Dtype and device: those of the parameters, but at least float32.
    Raises:
        ValueError: if ``rel_pos_buckets`` or ``max_rel_pos`` is given without ``rel_pos``.
        ValueError: as its two terms.
    """

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
    ):
        super().__init__()
        # The 2 keeps the variance of the sum of two correlations, words' and positions'.
        self.scaling = (2 * embed_dim / num_heads) ** -0.5
        self.untied_absolute = UntiedAbsoluteBias(
            embed_dim, num_heads, max_positions, scaling=self.scaling, tie_cls=tie_cls
        )
        if rel_pos:
            self.relative = RelativePositionBias(
                num_heads,
                32 if rel_pos_buckets is None else rel_pos_buckets,
                128 if max_rel_pos is None else max_rel_pos,
                tie_cls=tie_cls,
            )
        else:
            given = {"rel_pos_buckets": rel_pos_buckets, "max_rel_pos": max_rel_pos}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"{name} ({value}) has no effect without rel_pos; add --rel-pos or drop "
                        f"--{name.replace('_', '-')}"
                    )
            self.relative = None

    @property
    def softmax_invariant_rows(self) -> Tuple[int, ...]:
        """Rows (queries) that hold one value for all keys: it cancels in the softmax.

        The row of the untied [CLS]: theta_1, and its bucket, change no probability, and the
        gradient that reaches them through a softmax is rounding noise.
        """
        return () if self.untied_absolute.tie_cls else (0,)

    def forward(self, seq_len: int) -> Tensor:
        bias = self.untied_absolute(seq_len)
        return bias if self.relative is None else bias + self.relative(seq_len)
