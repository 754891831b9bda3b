"""Encoders against the float64 oracle of loops in helpers/reference.py: outputs and gradients."""

import functools

import pytest
import torch

from helpers import reference
from helpers.position_cases import (
    BATCH,
    DIM,
    HEADS,
    LARGEST,
    MAX,
    REL_POS,
    Case,
    encoder_of,
    parametrized,
    random_input,
)
from tupe_fairseq.position import CATALOGUE

PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
WAYS = ["eager", "sdpa", "chunked"]


def encoder_in_loops(p, x, case, normalize_before=False, heads=HEADS, one_way=False):
    def logit_of(number):
        own = reference.position_parameters(p, number, "position_bias.")
        entry = reference.Entry(own, DIM, heads, MAX, case.name, case.options)

        def logit(h, q, k, i, j):
            is_hidden = one_way and (j > i if h < heads // 2 else j < i)
            return None if is_hidden else entry.logit(h, q, k, i, j)

        return logit

    x = [reference.layer_norm(t, p, "layernorm_embedding") for t in x]
    return reference.transformer(p, x, heads, normalize_before, reference.gelu, logit_of)


def assert_as_in_loops(build, case, **options):
    """Outputs and gradients of each implementation; returns the encoder of the last one."""
    x, weights, real = random_input(), random_input().sin(), ~PADDING
    p = {name: x.detach().clone().requires_grad_() for name, x in build().named_parameters()}
    rows = [encoder_in_loops(p, x[b][real[b]], case, **options) for b in (0, 1)]
    expected = torch.cat(rows)
    (expected * weights[real]).sum().backward()
    for way in WAYS:
        if way == "chunked" and CATALOGUE[case.name].uses("content_bias"):
            continue
        encoder = build(attn_impl=way)
        actual = encoder(x, PADDING)[real]
        (actual * weights[real]).sum().backward()
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)
        for name, parameter in encoder.named_parameters():
            gradient = torch.zeros_like(p[name]) if p[name].grad is None else p[name].grad
            scale = max(1.0, gradient.abs().max().item())
            torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-10 * scale)
    return encoder


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-LN", "pre-LN"])
@pytest.mark.parametrize("tie_cls", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("rel_pos", [{}, REL_POS], ids=["tupe_a", "tupe_r"])
def test_the_encoder(rel_pos, tie_cls, normalize_before):
    case = Case("tupe", {"tie_cls": tie_cls, **rel_pos})
    build = functools.partial(encoder_of, case, normalize_before=normalize_before)
    encoder = assert_as_in_loops(build, case, normalize_before=normalize_before)
    for name, parameter in encoder.named_parameters():
        # with a tied [CLS] p_i . b_K is the same for every key, and cancels in the softmax
        if not (tie_cls and name.endswith("pos_k_proj.bias")):
            assert parameter.grad.abs().max() > 1e-6, name


def test_deberta_projects_its_table_in_each_layer():
    case = Case("deberta", {"rel_pos_buckets": 8, "max_rel_pos": 5})
    assert_as_in_loops(functools.partial(encoder_of, case), case)


@parametrized([case for case in LARGEST if not CATALOGUE[case.name].uses("embed")])
def test_heads_that_look_one_way(case):
    if case.name == "alibi":  # the loop has the slopes of 3 heads
        case = Case("none", {})
    build = functools.partial(encoder_of, case, num_heads=2, one_way_heads=True)
    assert_as_in_loops(build, case, heads=2, one_way=True)


@pytest.mark.parametrize("way", WAYS)
def test_what_cancels_in_the_softmax_gets_no_gradient(way):
    """It is exactly 0, so that no optimizer turns rounding noise into steps."""
    case = Case("tupe", {"rel_pos": True})
    encoder = encoder_of(case, torch.float32, max_positions=160, attn_impl=way)
    x = torch.randn(BATCH, 160, DIM)
    (encoder(x) * torch.randn_like(x)).sum().backward()
    bias = encoder.position_bias
    table = bias.relative.relative_attention_bias.weight.grad
    pos = bias.untied_absolute.pos.weight.grad
    assert not pos[0].any() and not table[16].any()
    assert (pos[1:].abs().amax(dim=1) > 0).all()
    assert (table[[n for n in range(33) if n != 16]].abs() > 0).all()
