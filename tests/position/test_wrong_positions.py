"""Positions and sizes that are none, and what their refusal says."""

import inspect

import numpy as np
import pytest
import torch

from helpers.position_cases import (
    ALL,
    DIM,
    HEADS,
    MAX,
    SEQ_LEN,
    attend,
    build,
    parametrized,
    random_heads,
    random_input,
)
from tupe_fairseq.position import (
    CATALOGUE,
    RelativePositionBias,
    TupePositionBias,
    UntiedAbsoluteBias,
    build_position_encoding,
)


def use(position, positions):
    """Every hook that positions are given to."""
    if position.adds_to_input:
        position.embed(positions)
    position.position_bias(positions)
    position.position_bias(3, positions)
    if position.reads_content:
        q = random_heads(3)
        position.content_bias(q, q, positions, 3)
        position.content_bias(q, q, 3, positions)


@pytest.mark.parametrize(
    "wrong",
    [[0, 1, 2], (0, 1, 2), 3.0, np.arange(3), "3", True, None],
    ids=lambda wrong: type(wrong).__name__,
)
@parametrized(ALL)
def test_another_kind_is_named(case, wrong):
    position, q = build(case), random_heads(3)
    message = f"positions are a {type(wrong).__name__}; expected is a tensor of integers"
    if wrong is not None:  # which here means 0 .. T - 1
        with pytest.raises(TypeError, match=message):
            position.forward_attn(q, q, wrong, wrong)
        with pytest.raises(TypeError, match=message):
            position.forward_input(random_input(3), wrong)
    if case.name in ("tupe", "alibi", "disentangled"):
        with pytest.raises(TypeError, match=message):
            position.position_bias(wrong)
    if case.name in ("learned", "sinusoidal"):
        with pytest.raises(TypeError, match=message):
            position.embed(wrong)


@parametrized(ALL)
def test_a_length_may_be_any_integer(case):
    position, x = build(case), random_input()
    for ours, theirs in zip(attend(position, x, np.int64(SEQ_LEN)), attend(position, x, SEQ_LEN)):
        assert ours.equal(theirs)
    use(position, np.int64(3))
    bias, expected = position.position_bias(np.int64(3)), position.position_bias(3)
    assert bias is expected is None or bias.equal(expected)


@parametrized(ALL)
def test_nothing_is_refused_in_the_same_way_by_all(case):
    position, q, x = build(case), random_heads(0), random_input(0)
    for refuse in (lambda: position.forward_attn(q, q), lambda: position.forward_input(x)):
        with pytest.raises(ValueError, match=r"seq_len \(0\) must be at least 1"):
            refuse()
    none = torch.zeros(0, dtype=torch.int64)
    for refuse in (
        lambda: position.forward_attn(q, q, none, none),
        lambda: position.forward_attn(random_heads(3), q, None, none),
        lambda: position.forward_input(x, none),
    ):
        with pytest.raises(ValueError, match="positions are empty|must be at least 1"):
            refuse()
    if position.position_bias(3) is not None:
        for wrong in (0, -2, none):
            with pytest.raises(ValueError, match="positions are empty|must be at least 1"):
                position.position_bias(wrong)


@pytest.mark.parametrize("value", [0, -2])
@pytest.mark.parametrize(
    "size, flag",
    [
        ("embed_dim", "--encoder-embed-dim"),
        ("num_heads", "--encoder-attention-heads"),
        ("max_positions", "--max-positions"),
    ],
)
@pytest.mark.parametrize("name", CATALOGUE)
def test_sizes_below_1(name, size, flag, value):
    sizes = {"embed_dim": DIM, "num_heads": HEADS, "max_positions": MAX, size: value}
    with pytest.raises(ValueError, match=rf"{size} \({value}\) must be at least .*{flag}"):
        build_position_encoding(name, **sizes)


def test_heads_of_the_absolute_term():
    with pytest.raises(ValueError, match=r"num_heads \(0\) must be at least 1"):
        UntiedAbsoluteBias(DIM, 0, MAX, scaling=1.0)


@pytest.mark.parametrize("value", [0, -1, -128])
def test_a_distance_below_1(value):
    for refuse in (
        lambda: RelativePositionBias(HEADS, 8, value),
        lambda: TupePositionBias(DIM, HEADS, MAX, rel_pos=True, max_rel_pos=value),
    ):
        with pytest.raises(ValueError, match=rf"max_rel_pos \({value}\) must be above"):
            refuse()


def test_what_tupe_takes_is_in_its_signature():
    """And nothing else: its scaling and what untie_cls means are not the caller's."""
    taken = inspect.signature(TupePositionBias).parameters
    assert set(taken) == {"embed_dim", "num_heads", "max_positions", "causal"} | set(
        TupePositionBias.OPTIONS
    )
    for wrong in ({"scaling": 1.0}, {"untie_cls": True}):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{[*wrong][0]}'"):
            TupePositionBias(DIM, HEADS, MAX, **wrong)
