"""A bias in factors is the bias of the same positions, for every scheme that has one."""

import pytest
import torch

from helpers.position_cases import ALL, HEADS, MAX, Case, build, parametrized
from tupe_fairseq.attention import Bias

# those whose term of positions alone is not added to one that depends on the words
IN_FACTORS = ("tupe", "learned", "sinusoidal", "none", "alibi")
IN_FACTORS_CASES = [
    case
    for case in ALL
    if case.name in ("tupe", "alibi") or (case.name in IN_FACTORS and "rel_pos" in case.options)
]


def gradients(position, bias, weights):
    parameters = dict(position.named_parameters())
    given = [p for p in parameters.values() if p.requires_grad]
    if not bias.requires_grad:
        assert not given
        return {}
    found = torch.autograd.grad((bias * weights).sum(), given, allow_unused=True)
    return dict(zip(parameters, found))


@parametrized(IN_FACTORS_CASES)
@pytest.mark.parametrize("seq_len", [1, 2, 7, MAX])
def test_they_multiply_out_to_the_bias(case, seq_len):
    position = build(case)
    expected = position.position_bias(seq_len)
    actual = Bias.of_factors(*position.bias_factors(seq_len)).whole()
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13)
    weights = torch.randn_like(expected)
    wanted = gradients(position, expected, weights)
    for name, ours in gradients(position, actual, weights).items():
        theirs = wanted[name]
        # nothing is left out of the graph, which DistributedDataParallel would not stand
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@parametrized([case for case in ALL if case not in IN_FACTORS_CASES])
def test_the_others_have_none(case):
    assert build(case).bias_factors(7) is None


def test_their_memory_grows_with_the_length():
    position = build(Case("tupe", {"rel_pos": True}), max_positions=64)
    sizes = [sum(x.numel() for x in position.bias_factors(n)[:3]) for n in (16, 32, 64)]
    assert sizes[1] - HEADS * 1 <= 2 * sizes[0] + HEADS and sizes[2] <= 2 * sizes[1] + HEADS


def test_half_precision_has_factors_in_float32():
    position = build(Case("tupe", {"rel_pos": True}), torch.bfloat16)
    assert {x.dtype for x in position.bias_factors(7)[:3]} == {torch.float32}


@pytest.mark.parametrize("seq_len", [0, MAX + 1])
def test_a_length_that_is_none_is_refused(seq_len):
    with pytest.raises(ValueError, match="seq_len"):
        build(Case("tupe", {})).bias_factors(seq_len)
