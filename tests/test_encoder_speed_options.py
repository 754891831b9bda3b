"""Options that change how an encoder computes, and not what."""

import dataclasses
import shutil

import pytest
import torch

from helpers.tensors import assert_within, normal
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.attention import IMPLEMENTATIONS, NAMES, Padding

BATCH, SEQ_LEN, HEADS, DIM = 4, 11, 3, 6
SMALL = TupeConfig(
    embed_dim=DIM, num_heads=HEADS, num_layers=2, ffn_embed_dim=5, max_positions=16, dropout=0.0,
    attention_dropout=0.0, attn_impl="eager",
)  # fmt: skip
TUPE_R = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}
PADDINGS = {
    "none": torch.zeros(BATCH, SEQ_LEN, dtype=torch.bool),
    "at_end": torch.arange(SEQ_LEN) >= torch.tensor([[4], [11], [1], [7]]),
    "an_empty_sequence": torch.arange(SEQ_LEN) >= torch.tensor([[4], [0], [11], [7]]),
    "in_the_middle": torch.arange(SEQ_LEN) == torch.tensor([[4], [2], [11], [10]]),
}


def randomized(config, dtype=torch.float64):
    """The same parameters for all options that do not change what is computed."""
    encoder = TupeEncoder(config).to(dtype)
    torch.manual_seed(2)
    return normal(encoder)


def batch_of(mask, dtype=torch.float64):
    """Embeddings, and the weights of outputs in a loss."""
    torch.manual_seed(3)
    x, weights = torch.randn(2, *mask.shape, DIM, dtype=dtype)
    return x, weights.masked_fill(mask[:, :, None], 0)


def answer(encoder, mask):
    """Outputs at real tokens; gradients of all parameters and of the embeddings; by name."""
    dtype = next(encoder.parameters()).dtype
    x, weights = batch_of(mask, dtype)
    x.requires_grad_()
    encoder.zero_grad()
    out = encoder(x, mask)
    (out * weights).sum().backward()
    grads = {name: p.grad.clone() for name, p in encoder.named_parameters()}
    return {"outputs": out.detach()[~mask], **grads, "embeddings": x.grad}


def skip_if_refused(name):
    if name != "auto":
        q = torch.zeros(BATCH, SEQ_LEN, HEADS, DIM // HEADS, dtype=torch.float64)
        reason = IMPLEMENTATIONS[name].refusal(q, None, Padding(PADDINGS["at_end"]))
        if reason is not None:
            pytest.skip(f"{name}: {reason}")


@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@pytest.mark.parametrize("tie_cls", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("rel_pos", [{}, TUPE_R], ids=["tupe_a", "tupe_r"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "eager"])
def test_attn_impl_changes_nothing(name, rel_pos, tie_cls, unpad):
    skip_if_refused(name)
    config = dataclasses.replace(SMALL, tie_cls=tie_cls, **rel_pos)
    expected = answer(randomized(config), PADDINGS["at_end"])
    config = dataclasses.replace(config, attn_impl=name, unpad=unpad)
    assert_within(answer(randomized(config), PADDINGS["at_end"]), expected, 1e-12)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post_ln", "pre_ln"])
@pytest.mark.parametrize("name", ["eager", "auto"])
@pytest.mark.parametrize("where", list(PADDINGS))
def test_unpad_changes_nothing(where, name, normalize_before):
    config = dataclasses.replace(SMALL, attn_impl=name, normalize_before=normalize_before, **TUPE_R)
    padded, unpadded = (
        randomized(dataclasses.replace(config, unpad=unpad)) for unpad in (False, True)
    )
    mask = PADDINGS[where]
    assert_within(answer(unpadded, mask), answer(padded, mask), 1e-12)

    x, _ = batch_of(mask)
    expected, theirs = padded(x, mask, return_all_hiddens=True)
    actual, ours = unpadded(x, mask, return_all_hiddens=True)
    assert len(ours) == len(theirs) == 3
    for a, b in zip([actual, *ours], [expected, *theirs]):
        assert a.shape == b.shape == x.shape
        torch.testing.assert_close(a[~mask], b[~mask], rtol=0, atol=1e-12)
        if where in ("at_end", "an_empty_sequence"):
            assert not a[mask].any()


@pytest.mark.parametrize("where", list(PADDINGS))
def test_unpad_takes_the_padding_out_of_the_layers(where):
    encoder = randomized(dataclasses.replace(SMALL, unpad=True))
    seen = []
    encoder.layers[1].fc1.register_forward_hook(lambda _, args, out: seen.append(args[0].shape))
    mask = PADDINGS[where]
    encoder(batch_of(mask)[0], mask)
    if where in ("at_end", "an_empty_sequence"):
        assert seen == [(int((~mask).sum()), DIM)]
    else:
        assert seen == [(BATCH, SEQ_LEN, DIM)]


@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@pytest.mark.parametrize("name", ["eager", "auto"])
def test_what_cancels_in_the_softmax_gets_exactly_no_gradient(name, unpad):
    config = dataclasses.replace(SMALL, attn_impl=name, unpad=unpad, **TUPE_R)
    encoder = randomized(config, torch.float32)
    grads = answer(encoder, PADDINGS["at_end"])
    pos = grads["position_bias.untied_absolute.pos.weight"]
    table = grads["position_bias.relative.relative_attention_bias.weight"]
    bucket = encoder.position_bias.relative.cls_to_other_row
    assert not pos[0].any() and not table[bucket].any()
    assert pos[1 : SEQ_LEN + 1].abs().max(dim=1).values.min() > 1e-6
    # the module alone has a true gradient for these very rows
    encoder.zero_grad()
    bias = encoder.position_bias(SEQ_LEN)
    (bias * torch.randn_like(bias)).sum().backward()
    module = encoder.position_bias
    assert module.untied_absolute.pos.weight.grad[0].abs().min() > 1e-6
    assert module.relative.relative_attention_bias.weight.grad[bucket].abs().min() > 1e-6


@pytest.mark.parametrize("name", ["eager", "auto"])
def test_with_tie_cls_no_row_is_left_out(name):
    """The gradient of the bias reaches its row 0: [CLS] is a query like any other."""
    encoder = randomized(dataclasses.replace(SMALL, attn_impl=name, tie_cls=True, **TUPE_R))
    received = []

    def keep_grad(module, args, bias):
        # on a tensor behind the bias: the encoder's hooks on it have run by then
        bias = bias * 1
        bias.register_hook(received.append)
        return bias * 1

    encoder.position_bias.register_forward_hook(keep_grad)
    answer(encoder, PADDINGS["none"])
    (grad,) = received
    assert grad.shape == (HEADS, SEQ_LEN, SEQ_LEN)
    assert grad.abs().amax(dim=2).min() > 1e-6


def test_without_tie_cls_row_0_is_left_out_and_no_other():
    encoder = randomized(dataclasses.replace(SMALL, **TUPE_R))
    received = []

    def keep_grad(module, args, bias):
        bias = bias * 1
        bias.register_hook(received.append)
        return bias * 1

    encoder.position_bias.register_forward_hook(keep_grad)
    answer(encoder, PADDINGS["none"])
    (grad,) = received
    assert not grad[:, 0].any() and grad[:, 1:].abs().amax(dim=2).min() > 1e-6


def test_dropout_of_packed_tokens_is_finite_and_repeatable():
    config = dataclasses.replace(
        SMALL, attn_impl="auto", unpad=True, dropout=0.2, attention_dropout=0.2,
        activation_dropout=0.2,
    )  # fmt: skip
    encoder = randomized(config).train()
    first, again = answer(encoder, PADDINGS["at_end"]), answer(encoder, PADDINGS["at_end"])
    assert_within(first, again, 0.0)  # batch_of() sets the seed
    without = answer(encoder.eval(), PADDINGS["at_end"])
    assert not first["outputs"].equal(without["outputs"])


CAN_COMPILE = hasattr(torch.nn.Module, "compile") and shutil.which("g++") is not None
needs_compiler = pytest.mark.skipif(not CAN_COMPILE, reason="needs torch 2.2 and g++")


@pytest.fixture(scope="module")
def compiled():
    """An encoder and its compiled twin; without a name in the state dict that differs."""
    config = dataclasses.replace(SMALL, attn_impl="auto", **TUPE_R)
    plain = randomized(config, torch.float32)
    pair = [
        randomized(dataclasses.replace(config, compile_layers=True, unpad=unpad), torch.float32)
        for unpad in (False, True)
    ]
    for twin in pair:
        twin.load_state_dict(plain.state_dict())
        assert list(twin.state_dict()) == list(plain.state_dict())
        assert [n for n, _ in twin.named_parameters()] == [n for n, _ in plain.named_parameters()]
    return plain, pair


@needs_compiler
def test_compile_layers_gives_the_same_outputs(compiled):
    plain, (padded, _) = compiled
    padded.eval()
    for seq_len in (SEQ_LEN, 7):
        x = torch.randn(BATCH, seq_len, DIM)
        with torch.no_grad():
            torch.testing.assert_close(padded(x), plain.eval()(x), rtol=0, atol=1e-5)
    assert padded.layers[0]._compiled_call_impl is not None


@needs_compiler
@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
def test_compile_layers_gives_the_same_gradients(compiled, unpad):
    plain, pair = compiled
    for where in ("at_end", "none"):
        expected = answer(plain.train(), PADDINGS[where])
        assert_within(answer(pair[unpad].train(), PADDINGS[where]), expected, 1e-5)


def test_compile_layers_is_refused_where_torch_cannot(monkeypatch):
    monkeypatch.delattr(torch.nn.Module, "compile", raising=False)
    monkeypatch.setattr(torch, "__version__", "1.13.1")
    with pytest.raises(ValueError, match=r"--compile-layers.*1\.13\.1"):
        TupeEncoder(dataclasses.replace(SMALL, compile_layers=True))
