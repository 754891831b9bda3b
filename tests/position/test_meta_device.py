"""A model built on the meta device, without memory, is an ordinary one once it has its state."""

import pytest
import torch

from helpers.position_cases import (
    ALL_OF_ENCODER,
    Case,
    attend,
    build,
    encoder_of,
    parametrized,
    random_input,
)
from tupe_fairseq import TupeEncoder

PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
#: the parameterless ones, which cannot take device and dtype from a parameter
WITHOUT_PARAMETERS = [Case("alibi", {}), Case("sinusoidal", {}), Case("rope", {})]


def on_meta(config):
    """An encoder without memory: built there, or put there where torch cannot build there."""
    if VERSION < (2, 0):
        return TupeEncoder(config).eval().to("meta")
    with torch.device("meta"):
        return TupeEncoder(config).eval()


def spoil(encoder):
    """What ``to_empty`` may leave: anything.  The allocator's leftovers are often zeros."""
    for tensor in [*encoder.parameters(), *encoder.buffers()]:
        tensor.data.fill_(77)


def by_assignment(encoder, state):
    if VERSION < (2, 1):
        pytest.skip("load_state_dict(assign=True) needs torch 2.1")
    encoder.load_state_dict(state, assign=True)


def by_assignment_after_a_move(encoder, state):
    by_assignment(encoder.to("meta"), state)


def by_copy(encoder, state):
    encoder.to_empty(device="cpu")
    spoil(encoder)
    encoder.load_state_dict(state)


def by_reset(encoder, state):
    """As sharding with deferred initialisation; then the values, which are random, put in."""
    encoder.to_empty(device="cpu")
    spoil(encoder)
    for module in encoder.modules():
        if list(module.parameters(recurse=False)) or list(module.buffers(recurse=False)):
            module.reset_parameters()
    for name, tensor in encoder.state_dict().items():
        assert (tensor != 77).any(), name
        if tensor.is_floating_point():
            tensor.copy_(state[name])
        assert tensor.equal(state[name]), name


@pytest.mark.parametrize("fill", [by_assignment, by_assignment_after_a_move, by_copy, by_reset])
@parametrized(ALL_OF_ENCODER)
def test_the_numbers_are_those_of_an_ordinary_build(case, fill):
    ordinary, x = encoder_of(case, torch.float32, unpad=True), random_input(dtype=torch.float32)
    encoder = on_meta(ordinary.config)
    fill(encoder, {name: x.clone() for name, x in ordinary.state_dict().items()})
    with torch.no_grad():
        assert encoder(x, PADDING).equal(ordinary(x, PADDING))
        theirs = ordinary.attention_weights(x, PADDING)
        for ours, their in zip(encoder.attention_weights(x, PADDING), theirs):
            assert ours.equal(their)
    assert list(encoder.state_dict()) == list(ordinary.state_dict())


@parametrized(ALL_OF_ENCODER)
def test_no_constant_is_a_buffer(case):
    """All that is not a parameter is in the state dict; the rest cannot be lost."""
    buffers = [name for name, _ in encoder_of(case).named_buffers()]
    assert buffers == ["position_version"]


@parametrized(ALL_OF_ENCODER)
def test_shapes_alone(case):
    """On the meta device it computes as on any other."""
    encoder = encoder_of(case).to("meta")
    assert encoder(random_input().to("meta")).shape == random_input().shape


@parametrized(WITHOUT_PARAMETERS)
def test_without_parameters_a_scheme_follows_its_module(case):
    position, x = build(case, torch.float64), random_input()
    expected = attend(position, x)
    assert all(part.dtype == torch.float64 for part in expected)
    there = attend(position.to("meta"), x.to("meta"))
    assert all(part.is_meta for part in there)
    # the dtype is kept, and nothing is lost
    for ours, theirs in zip(attend(position, x), expected):
        assert ours.equal(theirs)
    for part in attend(position.float(), x.float()):
        assert part.dtype == torch.float32
    assert not position.state_dict()
