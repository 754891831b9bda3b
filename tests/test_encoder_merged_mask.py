"""Bias and padding become one mask once a forward pass, where torch's kernel needs such a mask."""

import dataclasses
import functools

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from tupe_fairseq.attention.merged_mask import merged_mask as merged

from helpers.position_cases import (
    ALL_OF_ENCODER,
    HEADS,
    REL_POS,
    SEQ_LEN,
    SMALL,
    Case,
    encoder_of,
    parametrized,
    random_input,
)
from helpers.tensors import assert_within
from tupe_fairseq.attention import Bias, Padding, merged_mask, sdpa

pytestmark = pytest.mark.skipif(
    not hasattr(F, "scaled_dot_product_attention"), reason="this torch has no fused attention"
)
LAYERS, BATCH = 3, 4
TUPE_R = Case("tupe", REL_POS)
# not at the end, so that sequences cannot be attended to one by one; the last is nothing else
MASK = torch.arange(SEQ_LEN) == torch.tensor([[4], [2], [SEQ_LEN], [1]])
MASK[3] = True


def encoder(case=TUPE_R, dtype=torch.float64, **options):
    return encoder_of(case, dtype, **{"attn_impl": "sdpa", "num_layers": LAYERS, **options})


@pytest.fixture
def masks(monkeypatch):
    """The masks that torch's function was given, kept alive so that none has another's memory."""
    seen = []
    real = F.scaled_dot_product_attention

    def spy(q, k, v, attn_mask=None, **options):
        seen.append(attn_mask)
        return real(q, k, v, attn_mask=attn_mask, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return seen


def num_made(masks):
    """How many tensors hold them."""
    return len({mask.untyped_storage().data_ptr() for mask in masks})


def answer(model, dtype=torch.float64):
    """Outputs at tokens, gradients of all parameters and of the embeddings, by name."""
    x = random_input(SEQ_LEN, BATCH, dtype).requires_grad_()
    weights = random_input(SEQ_LEN, BATCH, dtype).sin().masked_fill(MASK[:, :, None], 0)
    model.zero_grad()
    out = model(x, MASK)
    (out * weights).sum().backward()
    grads = {name.replace("wrapped.", ""): p.grad for name, p in model.named_parameters()}
    return {"outputs": out.detach()[~MASK], **grads, "embeddings": x.grad}


MODES = {"trained": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("sequences", [BATCH, 3], ids=["whole", "in_parts"])
@pytest.mark.parametrize("mode", list(MODES))
def test_made_once_a_forward_pass(masks, monkeypatch, mode, sequences, dtype):
    monkeypatch.setattr(sdpa, "MASK_ELEMENTS", sequences * HEADS * SEQ_LEN**2)
    model, parts = encoder(dtype=dtype), 1 if sequences == BATCH else 2
    for passes in (1, 2):
        with MODES[mode]():
            out = model(random_input(SEQ_LEN, BATCH, dtype), MASK)
        assert len(masks) == passes * LAYERS * parts
        assert num_made(masks) == passes * parts
    expected = encoder(dtype=dtype, attn_impl="eager")(random_input(SEQ_LEN, BATCH, dtype), MASK)
    # 16 bits hold 8 of the fraction; each layer rounds a few times
    tolerance = 1e-5 if dtype == torch.float32 else 2**-4
    assert_within({"outputs": out[~MASK]}, {"outputs": expected[~MASK]}, tolerance)


def test_made_by_each_layer_if_it_is_too_large_to_keep(masks, monkeypatch):
    expected = answer(encoder())
    assert num_made(masks) == 1
    monkeypatch.setattr(merged_mask, "KEPT_ELEMENTS", BATCH * HEADS * SEQ_LEN**2 - 1)
    masks.clear()
    assert_within(answer(encoder()), expected, 1e-13)
    assert num_made(masks) == LAYERS


def test_made_by_each_layer_if_it_depends_on_the_words(masks):
    encoder(Case("shaw", {}))(random_input(SEQ_LEN, BATCH), MASK)
    assert num_made(masks) == LAYERS


@parametrized([*{case.name: case for case in ALL_OF_ENCODER}.values(), TUPE_R])
def test_the_same_outputs_and_gradients(case):
    assert_within(answer(encoder(case)), answer(encoder(case, attn_impl="eager")), 1e-11)


class Checkpointed(torch.nn.Module):
    """A layer that is computed again in the backward pass, as torch does it."""

    def __init__(self, layer, use_reentrant):
        super().__init__()
        self.wrapped, self.use_reentrant = layer, use_reentrant

    def forward(self, x, **kwargs):
        def run(*args):
            return self.wrapped(**dict(zip(names, args)))

        names = ("x", *kwargs)
        return torch.utils.checkpoint.checkpoint(
            run, x, *kwargs.values(), use_reentrant=self.use_reentrant
        )


def fairseqs(layer):
    pytest.importorskip("fairseq", reason="fairseq is not installed")
    from fairseq.modules.checkpoint_activations import checkpoint_wrapper

    return checkpoint_wrapper(layer)


WRAPPERS = {
    "reentrant": functools.partial(Checkpointed, use_reentrant=True),
    "not_reentrant": functools.partial(Checkpointed, use_reentrant=False),
    "fairseqs": fairseqs,
}


@pytest.mark.parametrize("sequences", [BATCH, 3], ids=["whole", "in_parts"])
@pytest.mark.parametrize("kind", list(WRAPPERS))
def test_layers_that_are_computed_again(monkeypatch, kind, sequences):
    monkeypatch.setattr(sdpa, "MASK_ELEMENTS", sequences * HEADS * SEQ_LEN**2)
    plain = encoder()
    config = dataclasses.replace(
        SMALL, num_layers=LAYERS, attn_impl="sdpa", position_encoding="tupe", **REL_POS
    )
    wrapped = type(plain)(config, wrap_layer=WRAPPERS[kind]).double()
    for ours, theirs in zip(wrapped.parameters(), plain.parameters()):
        ours.data.copy_(theirs)
    assert_within(answer(wrapped), answer(plain), 1e-12)


@pytest.mark.skipif(
    not hasattr(getattr(torch, "compiler", None), "is_exporting"), reason="needs torch 2.7"
)
@torch.no_grad()
def test_made_once_in_what_is_exported():
    sizes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    args = random_input(SEQ_LEN, BATCH), MASK
    exported = torch.export.export(encoder(), args, dynamic_shapes=(sizes, sizes))
    calls = [
        node
        for node in exported.graph.nodes
        if node.target is torch.ops.aten.scaled_dot_product_attention.default
    ]
    assert len(calls) == LAYERS
    # each layer expands the one
    made = {node.args[3].args[0] for node in calls}
    assert len(made) == 1


def test_a_bias_that_is_written_to_is_another():
    padding, rows = Padding(MASK), slice(None)
    bias = torch.zeros(HEADS, SEQ_LEN, SEQ_LEN)
    first = merged(Bias(bias), padding, rows, bias.dtype)
    assert merged(Bias(bias), padding, rows, bias.dtype) is first
    bias.add_(1)
    again = merged(Bias(bias), padding, rows, bias.dtype)
    assert again[0, 0, 0, 0] == 1 and first[0, 0, 0, 0] == 0


def test_what_is_made_without_a_gradient_does_not_serve_one():
    padding, rows = Padding(MASK), slice(None)
    bias = torch.zeros(HEADS, SEQ_LEN, SEQ_LEN, requires_grad=True)
    with torch.no_grad():
        assert not merged(Bias(bias), padding, rows, bias.dtype).requires_grad
    assert merged(Bias(bias), padding, rows, bias.dtype).requires_grad


def test_rows_begin_where_a_gpus_kernel_wants_them():
    """It would copy a mask of other strides, over the whole batch and in each layer."""
    bias = torch.empty(HEADS, 13, 13, dtype=torch.bfloat16, device="meta")
    mask = merged(Bias(bias), None, slice(None), bias.dtype)
    assert mask.shape == bias.shape
    assert all(stride % 8 == 0 for stride in mask.stride()[:-1]) and mask.stride(-1) == 1
