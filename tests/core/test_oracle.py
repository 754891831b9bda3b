"""TUPE against the float64 oracle of loops in helpers/reference.py: outputs and all gradients."""

import functools

import pytest
import torch

from helpers import reference
from helpers.position_cases import BATCH, DIM, HEADS, MAX, REL_POS, Case, encoder_of, random_input

PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
WAYS = ["eager", "sdpa", "chunked"]


def encoder_in_loops(p, x, is_padding, options, normalize_before):
    entry = reference.Entry(reference.sub(p, "position_bias."), DIM, HEADS, MAX, "tupe", options)

    def logit(h, q, k, i, j):
        return None if is_padding[j] else entry.logit(h, q, k, i, j)

    x = [reference.layer_norm(t, p, "layernorm_embedding") for t in x]
    x = [torch.zeros_like(t) if pad else t for t, pad in zip(x, is_padding)]
    return reference.transformer(p, x, HEADS, normalize_before, reference.gelu, lambda _: logit)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-LN", "pre-LN"])
@pytest.mark.parametrize("tie_cls", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("rel_pos", [{}, REL_POS], ids=["tupe_a", "tupe_r"])
def test_the_encoder(rel_pos, tie_cls, normalize_before):
    case = Case("tupe", {"tie_cls": tie_cls, **rel_pos})
    build = functools.partial(encoder_of, case, normalize_before=normalize_before)
    x, weights = random_input(), random_input().sin().masked_fill(PADDING[..., None], 0)
    p = {name: x.detach().clone().requires_grad_() for name, x in build().named_parameters()}
    rows = [encoder_in_loops(p, x[b], PADDING[b], case.options, normalize_before) for b in (0, 1)]
    expected = torch.stack(rows)
    (expected * weights).sum().backward()
    for way in WAYS:
        encoder = build(attn_impl=way)
        actual = encoder(x, PADDING)
        (actual * weights).sum().backward()
        real = ~PADDING
        torch.testing.assert_close(actual[real], expected[real], rtol=0, atol=1e-10)
        for name, parameter in encoder.named_parameters():
            gradient = p[name].grad
            scale = max(1.0, gradient.abs().max().item())
            torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-10 * scale)
            # with a tied [CLS] p_i . b_K is the same for every key, and cancels in the softmax
            if not (tie_cls and name.endswith("pos_k_proj.bias")):
                assert parameter.grad.abs().max() > 1e-6, name


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
