"""Every position encoding of the catalogue with every option that it takes, at toy size."""

from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.reference import FIRST_VALUES
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.options import POSITION_OPTIONS
from tupe_fairseq.position import CATALOGUE, build_position_encoding

# all different, so that a wrong axis does not fit; an even width of a head, as rope needs
BATCH, HEADS, HEAD_DIM, SEQ_LEN, MAX = 2, 3, 4, 7, 11
DIM = HEADS * HEAD_DIM
# so small that SEQ_LEN tokens reach the last bucket
REL_POS = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}
#: a value for an option that is a number: odd, and within SEQ_LEN
OPTION_VALUES = {name: 3 for name, option in POSITION_OPTIONS.items() if option.default is None}
OPTION_VALUES |= {"rope_share": 0.5, "rope_base": 50}
SMALL = TupeConfig(
    embed_dim=DIM, num_heads=HEADS, num_layers=2, ffn_embed_dim=5, max_positions=MAX, dropout=0.0,
    attention_dropout=0.0, attn_impl="eager",
)  # fmt: skip


class Case(NamedTuple):
    """A scheme and its options."""

    name: str
    options: dict[str, Any]

    @property
    def has_table(self) -> bool:
        return CATALOGUE[self.name].TABLE is not None

    @property
    def id(self) -> str:
        sizes = ("rel_pos_buckets", "max_rel_pos") if "rel_pos" in self.options else ()
        return "-".join([self.name, *(name for name in self.options if name not in sizes)])


def choices(name):
    """No option, T5's bias, and each further option of a scheme alone or with T5's bias."""
    takes, others = CATALOGUE[name].takes, {"rel_pos", "rel_pos_buckets", "position_each_layer"}
    bases = [{}, REL_POS] if "rel_pos" in takes else [{}]
    if name == "deberta":  # SEQ_LEN tokens reach the last bucket
        return [{"rel_pos_buckets": 8, "max_rel_pos": 5}]
    others |= {"max_rel_pos"} if "rel_pos" in takes else set()
    further = [
        {**base, option: OPTION_VALUES.get(option, True)}
        for option in takes
        if option not in others
        for base in bases
        if option in CATALOGUE[name].defaults(bool(base))
    ]
    return [*bases, *further]


ALL = [Case(name, options) for name in CATALOGUE for options in choices(name)]
#: cases for TupeEncoder: also with position vectors added before every layer
ALL_OF_ENCODER = ALL + [
    Case(name, {**options, "position_each_layer": True})
    for name in ("learned", "sinusoidal")
    for options in ({}, REL_POS)
]
#: each encoding with all the terms that it can have
LARGEST = [*{case.name: case for case in ALL_OF_ENCODER}.values(), Case("tupe", REL_POS)]


def parametrized(cases):
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in cases])


def randomize(module):
    """Set all parameters to values far from the initial zeros and ones, the same in each call."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.5 * values)
    return module


def build(case, dtype=torch.float64, max_positions=MAX, **options):
    """The scheme alone."""
    position = build_position_encoding(
        case.name, embed_dim=DIM, num_heads=HEADS, max_positions=max_positions,
        **{**case.options, **options},
    )  # fmt: skip
    return randomize(position.to(dtype))


def logits(position, q, k, *positions, projection=None):
    """``forward_attn``; what each layer projects gets W_Q and W_K of a random layer, (3, D, D)."""
    if not position.uses("in_layer"):
        return position.forward_attn(q, k, *positions)
    if projection is None:
        generator = torch.Generator().manual_seed(6)
        projection = torch.randn(2, DIM, DIM + 1, generator=generator, dtype=q.dtype)

    def queries_and_keys(x):
        x = torch.einsum("nd,pcd->npc", F.pad(x, (0, 1), value=1.0), projection)
        return x.unflatten(-1, (q.size(1), -1))

    return position.forward_attn(q, k, *positions, queries_and_keys=queries_and_keys)


def has_first_values(name, parameter):
    """Whether a parameter has its values of FIRST_VALUES; None if it is not listed there."""
    if (key := name.rpartition(".")[2]) not in FIRST_VALUES:
        return None
    (low, high), (least, most) = FIRST_VALUES[key], parameter.detach().aminmax()
    rounding = 1e-6  # of float32
    return low - rounding <= least and most <= high + rounding and (most > least) == (high > low)


def encoder_of(case, dtype=torch.float64, **options):
    """A TupeEncoder with the scheme, in evaluation mode."""
    config = TupeConfig(
        **{**SMALL.__dict__, "position_encoding": case.name, **case.options, **options}
    )
    return randomize(TupeEncoder(config).to(dtype)).eval()


class Operations(TorchDispatchMode):
    """Records the names of torch's operations within the block, except views."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if not function.is_view and "view" not in str(function):
            self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def random_input(seq_len=SEQ_LEN, batch=BATCH, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(batch, seq_len, DIM, generator=generator, dtype=torch.float64).to(dtype)


def assert_near(actual, expected, atol=1e-11):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)
