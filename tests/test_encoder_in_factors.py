"""Layers that get the position bias in factors compute what they do with a whole one."""

import pytest
import torch

from helpers.position_cases import (
    ALL_OF_ENCODER,
    BATCH,
    REL_POS,
    SEQ_LEN,
    Case,
    encoder_of,
    parametrized,
    random_input,
)
from helpers.tensors import assert_within
from test_encoder_merged_mask import WRAPPERS
from tupe_fairseq import TupeEncoder
from tupe_fairseq.attention import Padding, choice
from tupe_fairseq.modules import shared_bias

TUPE_R = Case("tupe", REL_POS)
MASK = torch.arange(SEQ_LEN) >= torch.tensor([[SEQ_LEN], [4]])


@pytest.fixture
def in_factors(monkeypatch):
    """Toy lengths are long enough; gives the biases that are made."""
    monkeypatch.setattr(choice, "MANY_SCORES", 0)
    monkeypatch.setattr(choice, "MANY_FIXED_SCORES", 0)
    made, compute = [], shared_bias._compute

    def seen(*args):
        made.append(compute(*args))
        return made[-1]

    monkeypatch.setattr(shared_bias, "_compute", seen)
    return made


def answer(encoder, mask=MASK):
    encoder.zero_grad()
    x = random_input().requires_grad_()
    out = encoder(x, mask)
    if mask is not None:
        out = out.masked_fill(mask[:, :, None], 0)
    (out * torch.cos(torch.arange(out.numel())).view(out.shape)).sum().backward()
    grads = {name: parameter.grad for name, parameter in encoder.named_parameters()}
    return {"out": out.detach(), "x": x.grad, **grads}


@parametrized(ALL_OF_ENCODER)
def test_outputs_and_all_gradients(in_factors, case):
    expected = answer(encoder_of(case, attn_impl="eager"))
    assert all(bias is None or bias.layout is None for bias in in_factors)
    in_factors.clear()
    encoder = encoder_of(case, attn_impl="auto")
    assert_within(answer(encoder), expected, 1e-11)
    shared = encoder.position_encodings().get(None)
    has_factors = shared is not None and shared.bias_factors(SEQ_LEN) is not None
    assert has_factors == any(b is not None and b.layout is not None for b in in_factors)


@pytest.mark.parametrize("options", [{"unpad": True}, {"unpad": False}], ids=["packed", "padded"])
def test_of_a_batch_without_padding_too(in_factors, options):
    for mask in (None, MASK):
        expected = answer(encoder_of(TUPE_R, attn_impl="eager", **options), mask)
        assert_within(
            answer(encoder_of(TUPE_R, attn_impl="auto", **options), mask), expected, 1e-11
        )
    assert in_factors[-1].layout is not None


def test_what_cancels_in_the_softmax_gets_no_gradient(in_factors):
    encoder = encoder_of(TUPE_R, attn_impl="auto")
    answer(encoder)
    assert in_factors[-1].layout is not None
    position = encoder.position_bias
    relative = position.relative
    assert not relative.relative_attention_bias.weight.grad[relative.cls_to_other_row].any()
    assert relative.relative_attention_bias.weight.grad[relative.other_to_cls_row].all()
    # row 0 of the table is theta_1's alone
    assert not position.untied_absolute.pos.weight.grad[0].any()
    assert position.untied_absolute.pos.weight.grad[1].any()


@pytest.mark.parametrize("kind", list(WRAPPERS))
def test_layers_that_are_computed_again(in_factors, kind):
    plain = encoder_of(TUPE_R, attn_impl="auto")
    wrapped = TupeEncoder(plain.config, wrap_layer=WRAPPERS[kind]).double().eval()
    for ours, theirs in zip(wrapped.parameters(), plain.parameters()):
        ours.data.copy_(theirs)
    expected = list(answer(plain).values())
    assert_within(dict(enumerate(answer(wrapped).values())), dict(enumerate(expected)), 1e-12)
    assert in_factors[-1].layout is not None


@torch.no_grad()
def test_evaluation_keeps_factors_and_no_matrix(in_factors):
    encoder = encoder_of(TUPE_R, attn_impl="auto")
    expected = encoder_of(TUPE_R, attn_impl="eager")(random_input())
    for _ in range(2):
        torch.testing.assert_close(encoder(random_input()), expected, rtol=0, atol=1e-11)
    assert sum(bias.layout is not None for bias in in_factors) == 1
    (kept,) = encoder.shared_bias._kept.biases.values()
    assert kept.layout is not None
    assert kept.num_bytes == kept.values.numel() * kept.values.element_size()
    for parameter in encoder.position_bias.parameters():
        parameter.mul_(1.5)
    assert (encoder(random_input()) - expected).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("name", ["eager", "sdpa", "triton"])
def test_only_for_those_that_read_them(in_factors, name):
    x = random_input()
    assert not choice.takes_factors(name, x, None, 3)
    assert choice.takes_factors("chunked", x, None, 3)
    assert not choice.takes_factors("chunked", x.to("meta"), None, 3)
    middle = torch.zeros(BATCH, SEQ_LEN, dtype=torch.bool)
    middle[0, 2] = True
    assert not choice.takes_factors("auto", x, Padding(middle), 3)
    assert choice.takes_factors("auto", x, Padding(MASK), 3)


@pytest.mark.parametrize("mode, name", [
    (torch.enable_grad, "MANY_SCORES"), (torch.no_grad, "MANY_FIXED_SCORES"),
])  # fmt: skip
def test_from_some_length_on(mode, name):
    heads = 4
    length = round((getattr(choice, name) / heads) ** 0.5)
    with mode():
        for seq_len, expected in ((length - 1, False), (length + 1, True)):
            x = torch.empty(1, seq_len, 1).expand(1, seq_len, 8)
            assert choice.takes_factors("auto", x, None, heads) == expected
