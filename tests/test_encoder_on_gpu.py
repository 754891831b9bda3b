"""The whole encoder on a GPU, with every position encoding, as in float64 on the CPU."""

import pytest
import torch

from helpers.gpu import needs_gpu
from helpers.position_cases import (
    ALL_OF_ENCODER,
    DIM,
    REL_POS,
    SEQ_LEN,
    Case,
    encoder_of,
    parametrized,
    random_input,
)
from helpers.tensors import assert_within
from tupe_fairseq.attention import choice

DEVICE = "cuda"
PADDING = torch.tensor([[False] * SEQ_LEN, [False] * 4 + [True] * 3])
TUPE_R = Case("tupe", REL_POS)


def answer(encoder, dtype, device):
    """Outputs at real tokens and the gradient of every parameter and of the input."""
    x = random_input(dtype=dtype).to(device).requires_grad_()
    padding = PADDING.to(device)
    out = encoder(x, padding)
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(len(PADDING), SEQ_LEN, DIM, generator=generator)
    (out * weights.to(out))[~padding].sum().backward()
    grads = {name: p.grad for name, p in encoder.named_parameters()}
    found = {"output": out.detach()[~padding], **grads, "input": x.grad}
    return {name: None if value is None else value.cpu() for name, value in found.items()}


def assert_as_on_the_cpu(case, tolerance, dtype=torch.float32, **options):
    expected = answer(encoder_of(case), torch.float64, "cpu")
    encoder = encoder_of(case, dtype, attn_impl="auto", **options).to(DEVICE)
    actual = answer(encoder, dtype, DEVICE)
    assert_within(actual, expected, tolerance)


# two layers of float32, sums of a dozen terms, and differences of them in the LayerNorms
@needs_gpu
@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@parametrized(ALL_OF_ENCODER)
def test_every_position_encoding(case, unpad):
    assert_as_on_the_cpu(case, 1e-4, unpad=unpad)


@needs_gpu
@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@parametrized([case for case in ALL_OF_ENCODER if case.name in ("tupe", "alibi", "learned")])
def test_a_bias_in_factors(case, unpad, monkeypatch):
    monkeypatch.setattr(choice, "MANY_FIXED_SCORES", 0)
    assert_as_on_the_cpu(case, 1e-4, unpad=unpad)


@needs_gpu
@pytest.mark.parametrize("in_factors", [False, True], ids=["whole", "in_factors"])
def test_compiled_layers(in_factors, monkeypatch):
    if in_factors:
        monkeypatch.setattr(choice, "MANY_FIXED_SCORES", 0)
    assert_as_on_the_cpu(TUPE_R, 1e-4, compile_layers=True)


@needs_gpu
def test_training_with_dropout_repeats_with_its_seed():
    """The masks follow torch's generator, whatever the device."""
    found = []
    for seed in (7, 7, 8):
        encoder = encoder_of(TUPE_R, torch.float32, attn_impl="auto", attention_dropout=0.3)
        torch.manual_seed(seed)
        found.append(answer(encoder.to(DEVICE).train(), torch.float32, DEVICE)["output"])
    assert found[0].equal(found[1]) and not found[0].equal(found[2])
