"""Every option of the position encodings, defined once.

Flags, presets, configs, checkpoints, tupe-compare and tupe-finetune take names, kinds, defaults and
help texts from here.
"""

import dataclasses
from typing import Any, Dict, NamedTuple, Optional

from tupe_fairseq.position.known_schemes import MAX_DISTANCE, MAX_REL_POS, NUM_BUCKETS


def _option(default: Optional[bool], help: str, always_recorded: bool = False) -> Any:
    """A field: a switch if ``default`` is False, a number above 0 if it is None."""
    metadata = {"help": help, "always_recorded": always_recorded}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class PositionOptions:
    """What a position encoding can be told in addition to its sizes.

    A scheme takes those that its ``OPTIONS`` name; ``position_each_layer`` is the encoder's.  Each
    field is also a flag of fairseq-train.  Its metadata has the flag's help text, and whether
    checkpoints record the value even if the option was not given (``always_recorded``).
    """

    rel_pos: bool = _option(
        False,
        "add the relative position bias: tupe becomes TUPE-R, Eq. (11), instead of TUPE-A, "
        "Eq. (10), learned becomes BERT-R, none becomes T5's; for tupe, learned, sinusoidal, none "
        "and disentangled",
        always_recorded=True,
    )
    rel_pos_buckets: Optional[int] = _option(
        None,
        "number of relative-position buckets over both directions, even and at least 4; only with "
        f"--rel-pos; default {NUM_BUCKETS}",
        always_recorded=True,
    )
    max_rel_pos: Optional[int] = _option(
        None,
        "distance in tokens beyond which all distances share the last bucket of their direction, "
        f"above a quarter of the buckets; only with --rel-pos (default {MAX_DISTANCE}) and for "
        f"shaw (default {MAX_REL_POS})",
        always_recorded=True,
    )
    tie_cls: bool = _option(
        False,
        "treat [CLS] as an ordinary position instead of untying it, Eq. (9) (an ablation); for "
        "tupe, which otherwise unties it",
        always_recorded=True,
    )
    untie_cls: bool = _option(
        False,
        "give [CLS] position scores of its own, Eq. (9); for alibi, and with --rel-pos for "
        "learned, sinusoidal, none and disentangled, which otherwise do not",
    )
    symmetric_basis: bool = _option(
        False, "use basis functions of the distance without its sign; for enformer"
    )
    position_each_layer: bool = _option(
        False,
        "add the position vectors of the input again before every further layer; for learned and "
        "sinusoidal",
    )


class Option(NamedTuple):
    """A field of :class:`PositionOptions`, as flags and records need it.

    Args:
        name (str): the field.
        default (False or None): the value of a switch, or of a number, that is not given.
        help (str): the help text of the flag.
        always_recorded (bool): see :class:`PositionOptions`.
    """

    name: str
    default: Optional[bool]
    help: str
    always_recorded: bool

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def is_number(self) -> bool:
        """Whether it takes a number above 0; else it is a switch."""
        return self.default is None


POSITION_OPTIONS: Dict[str, Option] = {
    field.name: Option(field.name, getattr(PositionOptions, field.name), **field.metadata)
    for field in dataclasses.fields(PositionOptions)
}
