"""Shared by the schemes of absolute positions: T5's bucketed bias on top, if asked for."""

from typing import Any, Dict, Mapping, Optional, cast

from torch import Tensor

from tupe_fairseq.position.bias_factors import BiasFactors
from tupe_fairseq.position.encoding import PositionEncoding
from tupe_fairseq.position.known_schemes import MAX_DISTANCE, NUM_BUCKETS
from tupe_fairseq.position.positions import Positions
from tupe_fairseq.position.relative_position_bias import RelativePositionBias
from tupe_fairseq.position.reset_cls import untied_factors


class AbsoluteEncoding(PositionEncoding):
    """A scheme to which ``rel_pos`` adds T5's bucketed bias, :class:`RelativePositionBias`.

    Args:
        embed_dim, num_heads, max_positions, causal, scaling: see :class:`PositionEncoding`.
        rel_pos (bool): add the bias.
        rel_pos_buckets, max_rel_pos (int, optional): number of buckets, and the distance
            from which there is only one per direction; only with ``rel_pos``.
        untie_cls (bool): give [CLS] scores of its own in the bias; only with ``rel_pos``.
    Raises:
        ValueError: if an option that needs ``rel_pos`` is given without it.
    """

    OPTIONS = ("rel_pos", "rel_pos_buckets", "max_rel_pos", "untie_cls")

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rel_pos: bool = False,
        rel_pos_buckets: Optional[int] = None,
        max_rel_pos: Optional[int] = None,
        untie_cls: bool = False,
        causal: bool = False,
        scaling: Optional[float] = None,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal, scaling=scaling)
        if rel_pos:
            self.relative = RelativePositionBias(
                num_heads,
                NUM_BUCKETS if rel_pos_buckets is None else rel_pos_buckets,
                MAX_DISTANCE if max_rel_pos is None else max_rel_pos,
                untie_cls=untie_cls,
                causal=causal,
            )
            self.unties_cls = untie_cls
            # [CLS]'s row of R is one value, and the gradient that reaches it through a softmax is
            # rounding noise
            self.softmax_invariant_rows = (0,) if untie_cls else ()
            return
        given = {
            "rel_pos_buckets": rel_pos_buckets,
            "max_rel_pos": max_rel_pos,
            "untie_cls": untie_cls or None,
        }
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name} ({value}) has no effect without rel_pos; add --rel-pos or drop "
                    f"--{name.replace('_', '-')}"
                )

    @classmethod
    def defaults(cls, given: Mapping[str, Any]) -> Dict[str, Any]:
        if not given.get("rel_pos"):
            return {}
        return {"rel_pos_buckets": NUM_BUCKETS, "max_rel_pos": MAX_DISTANCE}

    def position_bias(
        self, positions_q: Positions, positions_k: Optional[Positions] = None
    ) -> Optional[Tensor]:
        return None if self.relative is None else self.relative(positions_q, positions_k)

    def bias_factors(self, seq_len: int) -> Optional[BiasFactors]:
        if self.relative is None:
            return None
        relative = cast(RelativePositionBias, self.relative)
        by_distance = relative.by_distance(seq_len)
        if not relative.unties_cls:
            return BiasFactors(None, None, by_distance)
        return untied_factors(None, None, by_distance, *relative.of_cls())
