"""TUPE's bias against the float64 oracle, its parameters, its [CLS], its limits."""

import pytest
import torch

from helpers import reference
from helpers.tensors import normal
from tupe_fairseq.position import TupePositionBias, UntiedAbsoluteBias


def randomized(**options):
    return normal(TupePositionBias(6, 3, 9, **options).double(), std=1.0)


@pytest.mark.parametrize("tie_cls", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("rel_pos", [False, True], ids=["tupe_a", "tupe_r"])
def test_alone_it_agrees_with_the_oracle_and_every_gradient_is_true(rel_pos, tie_cls):
    """Alone, row 0 does not cancel: theta_1 and its bucket have their gradient."""
    sizes = {"rel_pos_buckets": 8, "max_rel_pos": 5} if rel_pos else {}
    bias = randomized(rel_pos=rel_pos, tie_cls=tie_cls, **sizes)
    weights = torch.randn(3, 8, 8, dtype=torch.float64)
    actual = bias(8)
    (actual * weights).sum().backward()

    params = {n: p.detach().clone().requires_grad_() for n, p in bias.named_parameters()}
    expected = reference.position_bias(
        params, 8, 3, rel_pos=rel_pos, num_buckets=8, max_distance=5, tie_cls=tie_cls
    )
    (expected * weights).sum().backward()
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)
    for name, parameter in bias.named_parameters():
        torch.testing.assert_close(parameter.grad, params[name].grad, rtol=1e-10, atol=1e-10)
    used_from = 1 if tie_cls else 0
    pos = bias.untied_absolute.pos.weight.grad
    assert (pos[used_from:9].abs().max(dim=1).values > 1e-6).all()


def test_parameter_count():
    """(M + 1) D for the table, 2 D for its norm, 2 (D^2 + D) for the projections, 33 H for R."""
    count = sum(p.numel() for p in TupePositionBias(768, 12, 512, rel_pos=True).parameters())
    assert count == 513 * 768 + 2 * 768 + 2 * (768**2 + 768) + 33 * 12


def test_cls_reset_touches_row_0_and_column_0_alone():
    untied = UntiedAbsoluteBias(6, 3, 9, scaling=0.5)
    tied = UntiedAbsoluteBias(6, 3, 9, scaling=0.5, untie_cls=False)
    tied.load_state_dict(untied.state_dict())
    assert untied(7)[:, 1:, 1:].equal(tied(7)[:, 1:, 1:])
    assert (untied(7)[:, 0] != tied(7)[:, 0]).any()
    assert untied(7)[:, 0].unique(dim=1).size(1) == 1


def test_half_precision_and_autocast_give_a_float32_bias():
    bias = TupePositionBias(6, 3, 9, rel_pos=True)
    full = bias(9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert bias(9).equal(full)
    assert bias.bfloat16()(9).dtype == torch.float32


def test_length_out_of_range():
    with pytest.raises(ValueError, match=r"seq_len \(10\).*\(9\).*--max-positions"):
        randomized()(10)
