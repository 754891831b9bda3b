"""What torch makes of an encoder: traced, exported, differentiated by sample, quantized."""

import warnings

import pytest
import torch

from helpers.position_cases import (
    ALL_OF_ENCODER,
    BATCH,
    MAX,
    REL_POS,
    SEQ_LEN,
    Case,
    assert_near,
    encoder_of,
    parametrized,
    random_input,
)
from helpers.tensors import assert_within

PADDING = torch.tensor([[False] * SEQ_LEN, [False] * 4 + [True] * 3])
# another batch and another length, padding elsewhere or none
OTHERS = [
    torch.zeros(1, MAX, dtype=torch.bool),
    torch.tensor([[False, True, True], [False] * 3, [False, True, False]]),
    torch.tensor([[False, False], [False, True], [False, False], [False, False]]),
]
#: with all the terms that it can have
LARGEST = [*{case.name: case for case in ALL_OF_ENCODER}.values(), Case("tupe", REL_POS)]


def assert_same(recorded, encoder):
    for mask in (PADDING, *OTHERS):
        batch, seq_len = mask.shape
        x = random_input(seq_len, batch)
        actual, expected = recorded(x, mask), encoder(x, mask)
        assert_near(actual[~mask], expected[~mask])


@parametrized(LARGEST)
@torch.no_grad()
def test_traced(case):
    encoder = encoder_of(case, attn_impl="auto", unpad=True, num_layers=1)
    before = encoder(random_input(), PADDING)
    with warnings.catch_warnings():
        # sizes that are checked, with the same outcome for all batches
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        recorded = torch.jit.trace(encoder, (random_input(), PADDING))
    assert_same(recorded, encoder)
    # nothing of the recording is kept
    assert encoder(random_input(), PADDING).equal(before)


CAN_EXPORT = hasattr(getattr(torch, "compiler", None), "is_exporting")


@pytest.mark.skipif(not CAN_EXPORT, reason="needs torch 2.7")
@parametrized(LARGEST)
@torch.no_grad()
def test_exported(case):
    encoder = encoder_of(case, attn_impl="auto", num_layers=1)
    before = encoder(random_input(), PADDING)
    sizes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    exported = torch.export.export(
        encoder, (random_input(), PADDING), dynamic_shapes=(sizes, sizes)
    )
    assert_same(exported.module(), encoder)
    assert encoder(random_input(), PADDING).equal(before)


@pytest.mark.skipif(not hasattr(torch, "func"), reason="needs torch 2.0")
@parametrized(LARGEST)
def test_gradients_of_each_sample(case):
    encoder = encoder_of(case)
    x, weights = random_input(), random_input(SEQ_LEN, BATCH) ** 2

    def loss(parameters, x, weights):
        out = torch.func.functional_call(encoder, (parameters, buffers), (x[None],))
        return (out[0] * weights).sum()

    parameters, buffers = dict(encoder.named_parameters()), dict(encoder.named_buffers())
    by_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    actual = by_sample(parameters, x, weights)
    for b in range(BATCH):
        encoder.zero_grad()
        (encoder(x[b : b + 1]) * weights[b]).sum().backward()
        expected = {name: p.grad for name, p in encoder.named_parameters()}
        assert_within({name: grad[b] for name, grad in actual.items()}, expected, 1e-11)


@parametrized(LARGEST)
@torch.no_grad()
def test_quantized(case):
    encoder = encoder_of(case, torch.float32, attn_impl="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer torch advises another library
        quantized = torch.ao.quantization.quantize_dynamic(encoder, {torch.nn.Linear})
    x = random_input(dtype=torch.float32)
    out, expected = quantized(x, PADDING)[~PADDING], encoder(x, PADDING)[~PADDING]
    # weights of 8 bits
    assert 0 < (out - expected).abs().mean() < 0.1
