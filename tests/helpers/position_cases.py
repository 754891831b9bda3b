"""Every position encoding of the catalogue with every option that it takes, at toy size."""

from typing import Any, NamedTuple

import pytest
import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.options import POSITION_ENCODINGS
from tupe_fairseq.position import CATALOGUE, build_position_encoding

# all different, so that a wrong axis does not fit; an even width of a head, as rope needs
BATCH, HEADS, HEAD_DIM, SEQ_LEN, MAX = 2, 3, 4, 7, 11
DIM = HEADS * HEAD_DIM
# so small that SEQ_LEN tokens reach the last bucket
REL_POS = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}
#: schemes that see the difference of two positions alone; all others must notice a shift
RELATIVE = ("none", "transformer-xl", "enformer", "rope", "alibi", "shaw")
SMALL = TupeConfig(
    embed_dim=DIM, num_heads=HEADS, num_layers=2, ffn_embed_dim=5, max_positions=MAX, dropout=0.0,
    attention_dropout=0.0, attn_impl="eager",
)  # fmt: skip


class Case(NamedTuple):
    """A scheme and its options."""

    name: str
    options: dict[str, Any]

    @property
    def unties_cls(self) -> bool:
        """From the options, not from what is tested."""
        if self.name == "tupe":
            return not self.options.get("tie_cls")
        return bool(self.options.get("untie_cls"))

    @property
    def is_relative(self) -> bool:
        return self.name in RELATIVE

    @property
    def has_table(self) -> bool:
        return CATALOGUE[self.name].TABLE is not None

    @property
    def id(self) -> str:
        sizes = ("rel_pos_buckets", "max_rel_pos") if "rel_pos" in self.options else ()
        return "-".join([self.name, *(name for name in self.options if name not in sizes)])


def _choices(name):
    """The sensible combinations of a scheme's options, position_each_layer left out."""
    takes = POSITION_ENCODINGS[name]
    choices = [{}]
    if "rel_pos" in takes:
        choices.append(REL_POS)
    elif "max_rel_pos" in takes:
        choices.append({"max_rel_pos": 3})
    if "tie_cls" in takes:
        choices += [{**given, "tie_cls": True} for given in list(choices)]
    if "untie_cls" in takes:
        needed = REL_POS if "rel_pos" in takes else {}
        choices.append({**needed, "untie_cls": True})
    if "symmetric_basis" in takes:
        choices.append({"symmetric_basis": True})
    return choices


ALL = [Case(name, options) for name in CATALOGUE for options in _choices(name)]
#: what TupeEncoder takes: as above, and position vectors added before every layer
ALL_OF_ENCODER = ALL + [
    Case(case.name, {**case.options, "position_each_layer": True})
    for case in ALL
    if CATALOGUE[case.name].uses("embed") and not case.unties_cls
]

#: each encoding with all the terms that it can have
LARGEST = [*{case.name: case for case in ALL_OF_ENCODER}.values(), Case("tupe", REL_POS)]


def parametrized(cases):
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in cases])


def randomize(module):
    """Parameters all far from their initial zeros and ones, the same in each call."""
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


def encoder_of(case, dtype=torch.float64, **options):
    """A TupeEncoder with the scheme, in evaluation."""
    config = TupeConfig(
        **{**SMALL.__dict__, "position_encoding": case.name, **case.options, **options}
    )
    return randomize(TupeEncoder(config).to(dtype)).eval()


def attend(position, x, positions=None):
    """Logits and outputs of a self-attention whose projections are slices of x, nothing else."""
    x = position.forward_input(x, positions)
    # (B, T, D) -> (B, H, T, K); queries, keys and values that differ
    heads = x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
    q, k, v = heads, heads.roll(1, -1) * 0.7, heads.roll(1, 1)
    logits = position.forward_attn(q, k, positions, positions)
    return logits, torch.softmax(logits, dim=-1).to(v.dtype) @ v


def random_input(seq_len=SEQ_LEN, batch=BATCH, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(batch, seq_len, DIM, generator=generator, dtype=torch.float64).to(dtype)


def random_heads(seq_len=SEQ_LEN, batch=BATCH, dtype=torch.float64, seed=4):
    """(B, H, T, K)."""
    generator = torch.Generator().manual_seed(seed)
    shape = batch, HEADS, seq_len, HEAD_DIM
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def of_sequence(positions, b, length):
    """The positions of a sequence of a batch, as a list: given for all, for each, or counted."""
    if positions is None:
        return list(range(length))
    return positions[b] if isinstance(positions[0], list) else positions


def assert_near(actual, expected, atol=1e-11):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def differ(actual, expected):
    return (actual - expected).abs().max().item() > 1e-3
