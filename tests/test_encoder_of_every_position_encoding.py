"""The encoder with every position encoding; the properties of all are in position/."""

import shutil

import pytest
import torch

from helpers.position_cases import (
    ALL_OF_ENCODER,
    BATCH,
    DIM,
    HEAD_DIM,
    HEADS,
    SEQ_LEN,
    assert_near,
    encoder_of,
    parametrized,
    random_input,
)
from helpers.tensors import assert_within
from tupe_fairseq import TupeEncoder
from tupe_fairseq.attention import IMPLEMENTATIONS
from tupe_fairseq.position import CATALOGUE, PositionEncoding

PADDING = torch.tensor([[False] * SEQ_LEN, [False] * 4 + [True] * 3])
NOT_EAGER = ["auto", *(name for name in IMPLEMENTATIONS if name not in ("eager", "triton"))]


def by_hand(encoder, x, padding):
    """What the encoder computes, out of forward_input and forward_attn; and all probabilities."""
    shared = encoder.position_bias
    positions = [shared or layer.self_attn.position for layer in encoder.layers]
    weights = []
    x = encoder.layernorm_embedding(positions[0].forward_input(x))
    x = x.masked_fill(padding[..., None], 0)
    for index, (layer, position) in enumerate(zip(encoder.layers, positions)):
        if index and encoder.config.position_each_layer:
            x = position.forward_input(x)
        attn = layer.self_attn
        projected = torch.nn.functional.linear(x, attn.in_proj_weight, attn.in_proj_bias)
        q, k, v = projected.unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        logits = position.forward_attn(q, k)
        logits = logits.masked_fill(padding[:, None, None], float("-inf"))
        weights.append(torch.softmax(logits, dim=-1))
        attended = (weights[-1] @ v).transpose(1, 2).flatten(2)
        x = layer.self_attn_layer_norm(x + attn.out_proj(attended))
        x = layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))
    return x, weights


def answer(encoder, padding=PADDING):
    """Outputs at real tokens and the gradient of every parameter and of the input."""
    dtype = next(encoder.parameters()).dtype
    x = random_input(dtype=dtype).requires_grad_()
    return gradients(encoder, x, encoder(x, padding), padding)


def gradients(encoder, x, out, padding):
    encoder.zero_grad()
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
    (out * weights)[~padding].sum().backward()
    grads = {name: p.grad.clone() for name, p in encoder.named_parameters()}
    return {"output": out.detach()[~padding], **grads, "input": x.grad.clone()}


@parametrized(ALL_OF_ENCODER)
def test_it_is_forward_input_and_forward_attn(case):
    """The fast paths (one bias for all layers, one gradient for the batch) change nothing."""
    encoder = encoder_of(case)
    actual = answer(encoder)
    x = random_input().requires_grad_()
    out, weights = by_hand(encoder, x, PADDING)
    expected = gradients(encoder, x, out, PADDING)
    assert_within(actual, expected, 1e-11)
    with torch.no_grad():
        ours = encoder.attention_weights(random_input(), PADDING)
    assert len(ours) == len(weights) == 2
    for w, theirs in zip(ours, weights):
        assert w.shape == (BATCH, HEADS, SEQ_LEN, SEQ_LEN)
        assert_near(w, theirs)
        assert not w[1, ..., 4:].any()


@parametrized(ALL_OF_ENCODER)
def test_training_and_evaluation_agree(case):
    """Without dropout; in evaluation the bias of a length is kept."""
    encoder, x = encoder_of(case), random_input()
    in_training = encoder.train()(x, PADDING)
    with torch.no_grad():
        first, again = (encoder.eval()(x, PADDING) for _ in range(2))
    assert first.equal(again)
    assert_near(first, in_training)


@parametrized(ALL_OF_ENCODER)
def test_each_layer_has_its_own_or_all_share_one(case):
    encoder = encoder_of(case)
    modules = [m for m in encoder.modules() if isinstance(m, PositionEncoding)]
    own = [layer.self_attn.position for layer in encoder.layers]
    if CATALOGUE[case.name].per_layer:
        assert encoder.position_bias is None and modules == own
    else:
        assert own == [None, None] and modules == [encoder.position_bias]
    assert {module.scaling for module in modules} == {
        layer.self_attn.scaling for layer in encoder.layers
    }


@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@pytest.mark.parametrize("name", NOT_EAGER)
@parametrized(ALL_OF_ENCODER)
def test_attn_impl_changes_nothing(case, name, unpad):
    encoder = encoder_of(case, attn_impl=name, unpad=unpad)
    try:
        actual = answer(encoder)
    except RuntimeError as refusal:
        # which only a named implementation may do, with its reason
        assert name != "auto" and f"--attn-impl {name} does not support this" in str(refusal)
        pytest.skip(str(refusal))
    assert_within(actual, answer(encoder_of(case)), 1e-11)


@pytest.fixture(scope="module")
def process_group():
    """Data-parallel training of one process; what it forbids, it forbids there, too."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@parametrized(ALL_OF_ENCODER)
def test_data_parallel_training_with_checkpointed_activations(case, process_group):
    """No parameter may then be used inside of two layers."""
    theirs = pytest.importorskip("fairseq.modules.checkpoint_activations", reason="its wrapper")
    plain = encoder_of(case)
    checkpointed = TupeEncoder(plain.config, wrap_layer=theirs.checkpoint_wrapper).double()
    checkpointed.load_state_dict(plain.state_dict())
    parallel = torch.nn.parallel.DistributedDataParallel(checkpointed)
    x = random_input().requires_grad_()
    actual = gradients(checkpointed, x, parallel(x, PADDING), PADDING)
    assert_within(actual, answer(plain), 1e-12)


CAN_COMPILE = hasattr(torch.nn.Module, "compile") and shutil.which("g++") is not None


@pytest.mark.skipif(not CAN_COMPILE, reason="needs torch 2.2 and g++")
@parametrized(ALL_OF_ENCODER)
def test_compiled_layers(case):
    plain = encoder_of(case, torch.float32, attn_impl="auto")
    compiled = encoder_of(case, torch.float32, attn_impl="auto", compile_layers=True)
    compiled.load_state_dict(plain.state_dict())
    assert list(compiled.state_dict()) == list(plain.state_dict())
    # float32 rounds at 6e-8, and a compiled layer in another order
    assert_within(answer(compiled), answer(plain), 2e-5)


@parametrized(ALL_OF_ENCODER)
def test_autocast(case):
    encoder, x = encoder_of(case, torch.float32), random_input(dtype=torch.float32)
    expected = encoder(x, PADDING)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = encoder(x, PADDING)
    error = (out.float() - expected)[~PADDING].abs()
    assert error.mean() < 0.02 and error.max() < 0.2
    out.float()[~PADDING].square().sum().backward()
    assert all(p.grad.isfinite().all() for p in encoder.parameters())


@parametrized(ALL_OF_ENCODER)
def test_all_hidden_states(case):
    encoder, x = encoder_of(case, unpad=True), random_input()
    out, hiddens = encoder(x, PADDING, return_all_hiddens=True)
    assert len(hiddens) == 3 and out.equal(hiddens[-1])
    _, expected = encoder_of(case)(x, PADDING, return_all_hiddens=True)
    for ours, theirs in zip(hiddens, expected):
        assert ours.shape == (BATCH, SEQ_LEN, DIM)
        assert_near(ours[~PADDING], theirs[~PADDING])


WITH_UNTIED_BUCKETS = [
    case for case in ALL_OF_ENCODER if case.unties_cls and case.options.get("rel_pos")
]


@parametrized(WITH_UNTIED_BUCKETS)
def test_the_bucket_that_cancels_in_the_softmax_gets_no_rounding_noise(case):
    encoder, x = encoder_of(case, torch.float32), random_input(dtype=torch.float32)
    out = encoder(x, PADDING)
    (out * torch.randn_like(out))[~PADDING].sum().backward()
    relative = encoder.position.relative
    grad = relative.relative_attention_bias.weight.grad[relative.cls_to_other_row]
    # of disentangled, [CLS] has scores of its own besides
    assert (grad != 0).all() if case.name == "disentangled" else not grad.any()
