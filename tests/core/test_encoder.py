"""The encoder: every encoding and implementation equals eager on each text alone; torch's tools."""

import contextlib
import copy
import dataclasses
import functools
import gc
import io
import itertools
import json
import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import own_encoding
from helpers.position_cases import (
    ALL_OF_ENCODER,
    BATCH,
    DIM,
    HEADS,
    LARGEST,
    MAX,
    REL_POS,
    SEQ_LEN,
    Case,
    Operations,
    assert_near,
    encoder_of,
    has_first_values,
    parametrized,
    random_input,
)
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.attention.base import EagerAttention, SdpaAttention
from tupe_fairseq.attention.chunked import ChunkedAttention
from tupe_fairseq.modules.heads import LMHead
from tupe_fairseq.options import POSITION_ENCODINGS

PADDING = torch.tensor([[False] * SEQ_LEN, [False] * 4 + [True] * 3])
STARTS = torch.zeros(BATCH, SEQ_LEN, dtype=torch.bool)
STARTS[0, 3] = STARTS[0, 4] = STARTS[1, 2] = True
#: where the texts of a batch begin and end
TEXTS = {
    "padded": [(0, 0, 7), (1, 0, 4)],
    "documents": [(0, 0, 3), (0, 3, 4), (0, 4, 7), (1, 0, 2), (1, 2, 4)],
}
ENCODINGS = [Case(name, {}) for name in POSITION_ENCODINGS if name != own_encoding.NAME]
CLASSES = {"eager": EagerAttention, "sdpa": SdpaAttention, "chunked": ChunkedAttention}
#: one of each mechanism, since an export takes seconds
EXPORTED = [Case("tupe", REL_POS)]
EXPORTED += [Case(x, {}) for x in ("learned", "enformer", "rope", "shaw", own_encoding.NAME)]


def gradients(encoder, out, weights):
    encoder.zero_grad()
    (out * weights).sum().backward()
    return {name: p.grad.clone() for name, p in encoder.named_parameters()}


@parametrized(LARGEST)
def test_every_way_is_eager_on_each_text_alone(monkeypatch, case):
    ran = []
    for kind in CLASSES.values():
        attend = kind.attend
        monkeypatch.setattr(
            kind, "attend", lambda *x, f=attend, k=kind, **o: ran.append(k) or f(*x, **o)
        )
    x, weights = random_input(), random_input().sin()
    for kind, normalize_before in itertools.product(TEXTS, (False, True)):
        build = functools.partial(encoder_of, case, normalize_before=normalize_before)
        alone, expected = build(attn_impl="eager"), torch.zeros(BATCH, SEQ_LEN, DIM).double()
        for b, start, end in TEXTS[kind]:
            expected[b, start:end] = alone(x[b : b + 1, start:end])[0]
        theirs = gradients(alone, expected, weights)
        for name, attention in CLASSES.items():
            starts = STARTS if kind == "documents" else None
            if name == "chunked" and alone.encoding.uses("content_bias"):
                with pytest.raises(ValueError, match="attn_impl chunked cannot .*reads the words"):
                    build(attn_impl=name)
                continue
            encoder = build(attn_impl=name)
            ran.clear()
            out = encoder(x, PADDING, document_starts=starts)
            assert ran == [attention] * 2
            out = out.masked_fill(PADDING[..., None], 0)
            assert_near(out, expected)
            ours = gradients(encoder, out, weights)
            for parameter, gradient in theirs.items():
                torch.testing.assert_close(ours[parameter], gradient, rtol=1e-9, atol=1e-10)


@parametrized(LARGEST)
def test_hidden_states_and_attention_weights(case):
    for normalize_before in (False, True):
        encoder, x = encoder_of(case, normalize_before=normalize_before), random_input()
        out, hiddens = encoder(x, PADDING, return_all_hiddens=True)
        assert len(hiddens) == 3 and not hiddens[0][PADDING].any()
        last = encoder.layer_norm(hiddens[-1]) if normalize_before else hiddens[-1]
        assert last[~PADDING].equal(out[~PADDING]) and out.equal(encoder(x, PADDING))
        weights = encoder.attention_weights(x, PADDING)
        assert [tuple(w.shape) for w in weights] == [(BATCH, HEADS, SEQ_LEN, SEQ_LEN)] * 2
        for w in weights:
            assert_near(w.sum(-1), torch.ones(BATCH, HEADS, SEQ_LEN).double())
            assert not w[1, :, :, 4:].any() and (w[0] > 0).all()
        # recompute each layer from its input and its probabilities
        for number, layer in enumerate(encoder.layers):
            attn, y = layer.self_attn, hiddens[number]
            if number and encoder.config.position_each_layer:
                y = y + encoder.position.embed(SEQ_LEN)
            normed = layer.self_attn_layer_norm(y) if normalize_before else y
            v = nn.functional.linear(normed, attn.in_proj_weight[-DIM:], attn.in_proj_bias[-DIM:])
            v = weights[number] @ v.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            y = y + attn.out_proj(v.transpose(1, 2).flatten(2))
            y = y if normalize_before else layer.self_attn_layer_norm(y)
            z = layer.final_layer_norm(y) if normalize_before else y
            y = y + layer.fc2(nn.functional.gelu(layer.fc1(z)))
            y = y if normalize_before else layer.final_layer_norm(y)
            assert_near(y[~PADDING], hiddens[number + 1][~PADDING])


@parametrized(LARGEST)
def test_rows_without_a_token_and_padding_in_the_middle(case):
    x = random_input()
    empty, middle = PADDING.clone(), PADDING.clone()
    empty[1], middle[0, 2:4] = True, True
    encoder = encoder_of(case, attn_impl="auto")
    out = encoder(x, empty)
    assert out.isfinite().all()
    assert_near(out[0], encoder(x[:1])[0])
    assert encoder(x, torch.ones_like(PADDING)).isfinite().all()
    out = encoder(x, middle)
    changed = encoder(x.masked_fill(middle[..., None], 7.0), middle)
    assert changed[~middle].equal(out[~middle])


# ---- Dropout ------------------------------------------------------------------------------------


def test_dropout_of_the_embedding():
    encoder, x = encoder_of(Case("tupe", {}), dropout=0.5).train(), random_input()
    _, (first, *_) = encoder(x, return_all_hiddens=True)
    kept = first != 0
    assert 0 < kept.sum() < kept.numel()
    assert_near(first[kept], 2 * encoder.layernorm_embedding(x)[kept])


@pytest.mark.parametrize("name", ["dropout", "activation_dropout", "attention_dropout"])
def test_each_dropout_acts_in_training_alone(name):
    x = random_input()
    encoder = encoder_of(Case("tupe", {}), **{name: 0.5})
    plain = encoder_of(Case("tupe", {}))(x)
    assert encoder(x).equal(plain)
    assert not encoder.train()(x).equal(plain)


# ---- What a state dict says ---------------------------------------------------------------------


def test_the_record_as_checkpoints_have_it():
    encoder = TupeEncoder(TupeConfig(position_encoding="learned", rel_pos=True, untie_cls=True))
    assert bytes(encoder.position_version.tolist()).decode() == (
        '{"activation_fn": "gelu", "max_rel_pos": 128, "num_heads": 2, "rel_pos": true, '
        '"rel_pos_buckets": 32, "scheme": "learned", "untie_cls": true}'
    )


def test_other_options_are_refused():
    states = [(case, encoder_of(case).state_dict()) for case in ALL_OF_ENCODER]
    for case, own in states:
        encoder = encoder_of(case)
        for other, state in states:
            if other != case:
                name = "position_encoding is" if other.name != case.name else "[a-z_]+ is"
                with pytest.raises(ValueError, match=rf"position options differ: .*{name}"):
                    encoder.load_state_dict(state)
        encoder.load_state_dict(own)


def test_what_changes_results_and_no_shape():
    """Enformer's distances are relative to max_positions; older checkpoints record neither."""
    config = TupeConfig(position_encoding="enformer", max_positions=32)
    state = TupeEncoder(config).state_dict()
    for change, flag in (
        ({"max_positions": 48}, "max_positions is 32 in the checkpoint and 48"),
        ({"activation_fn": "relu"}, "activation_fn is gelu in the checkpoint and relu"),
    ):
        encoder = TupeEncoder(dataclasses.replace(config, **change))
        with pytest.raises(ValueError, match=flag):
            encoder.load_state_dict(state)
        older = {"scheme": "enformer", "num_heads": 2, "rel_pos": False, "rel_pos_buckets": None}
        older = torch.tensor(list(json.dumps(older).encode()))
        encoder.load_state_dict({**state, "position_version": older})
        with pytest.raises(ValueError, match="position options differ"):  # its own record has them
            TupeEncoder(config).load_state_dict(encoder.state_dict())


def test_what_else_a_state_dict_must_be():
    config = TupeConfig(embed_dim=16, num_heads=8, rel_pos=True, max_rel_pos=3001)
    encoder = TupeEncoder(config)
    state = encoder.state_dict()
    # every shape fits, but the scaling and all scores would differ
    two = TupeEncoder(dataclasses.replace(config, num_heads=4)).state_dict()
    with pytest.raises(ValueError, match="num_heads is 4 in the checkpoint and 8"):
        encoder.load_state_dict(two)
    without = {name: x for name, x in state.items() if name != "position_version"}
    with pytest.raises(ValueError, match="holds no position options.*tupe-convert"):
        encoder.load_state_dict(without)
    with pytest.raises(RuntimeError, match="Missing key.*0.position_version"):
        nn.Sequential(encoder).load_state_dict({f"0.{name}": x for name, x in without.items()})
    # a part, such as adapters, needs no record; if there is one, it must fit
    part = {name: x + 1 for name, x in state.items() if "fc1" in name}
    assert not encoder.load_state_dict(part, strict=False).unexpected_keys
    assert encoder.state_dict()["layers.0.fc1.bias"].equal(part["layers.0.fc1.bias"])
    with pytest.raises(ValueError, match="num_heads is 4"):
        nn.Sequential(encoder).load_state_dict({f"0.{n}": x for n, x in two.items()}, strict=False)
    # the record survives a cast of the whole state dict to 16 bits
    for dtype in (torch.bfloat16, torch.float16):
        encoder.load_state_dict({name: x.to(dtype) for name, x in state.items()})
        assert encoder.to(dtype).position_version.dtype == torch.int64


def test_saved_copied_and_made_on_the_meta_device():
    for case in ENCODINGS:
        encoder, x = encoder_of(case, torch.float32), random_input(dtype=torch.float32)
        expected = encoder(x, PADDING)
        file = io.BytesIO()
        torch.save(encoder.state_dict(), file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
        with torch.device("meta"):
            meta = TupeEncoder(encoder.config).eval()
            assert meta(x.to("meta")).is_meta
        empty = copy.deepcopy(meta).to_empty(device="cpu")
        for module in empty.modules():  # parents first, as FSDP does
            getattr(module, "reset_parameters", lambda: None)()
        for name, parameter in empty.named_parameters():
            if (fits := has_first_values(name, parameter)) is not None:
                assert fits, name
                continue
            drawn = parameter.dim() > 1 or "global" in name or "_cls" in name or "cls_" in name
            assert not drawn or 0.005 < parameter.std() < 0.04, name
            assert drawn or parameter.eq(float(name.endswith("weight"))).all(), name
        assert empty.position_version.equal(encoder.position_version)
        empty.load_state_dict(state)
        meta.load_state_dict(state, assign=True)
        for other in (meta, empty, copy.deepcopy(encoder)):
            assert other(x, PADDING).equal(expected), case


@pytest.mark.parametrize("case", [*LARGEST, Case("none", {})], ids=lambda case: case.id)
def test_no_parameter_outlives_its_encoder(case):
    """Without waiting for the garbage collector, which knows nothing of a GPU's memory."""
    gc.collect()
    gc.disable()
    try:
        encoder = encoder_of(case)
        alive = [weakref.ref(parameter) for parameter in encoder.parameters()]
        del encoder
        assert len(alive) > 20 and not any(parameter() is not None for parameter in alive)
    finally:
        gc.enable()


# ---- What a GPU would have to do ----------------------------------------------------------------

#: operations of a layer other than views; a plain Transformer has 10
OPERATIONS = {
    "rope": 19, "pope": 26, "transformer-xl": 22, "enformer": 22, "shaw": 25, "disentangled": 25,
    "deberta": 28,
}  # fmt: skip
#: operations that make the host wait for the GPU
SYNCS = ("_local_scalar_dense", "nonzero", "unique", "aminmax", "equal")


def operations(case, padding=None, is_trained=False, **options):
    """The names of the operations of one pass."""
    encoder = encoder_of(case, torch.bfloat16, attn_impl="sdpa", **options).train(is_trained)
    x = random_input(dtype=torch.bfloat16)
    with torch.set_grad_enabled(is_trained), Operations() as ran:
        out = encoder(x, padding)
        if is_trained:
            out.backward(x)
    return ran.names


@pytest.mark.parametrize("name", POSITION_ENCODINGS)
def test_operations_of_a_layer(name):
    """What does not depend on the layer is computed once for all of them."""
    case = Case(name, REL_POS if name == "tupe" else {})
    for padding, more in ((None, 0), (PADDING, 7)):  # 7 more to unpack and pack again
        one, two = (operations(case, padding, num_layers=n) for n in (1, 2))
        assert len(two) - len(one) <= OPERATIONS.get(name, 10) + more
    step = operations(case, is_trained=True)
    assert not [x for x in step if any(sync in x for sync in SYNCS)]


# ---- Wrappers and exports -----------------------------------------------------------------------


@parametrized(LARGEST)
def test_gradient_checkpointing(case):
    x = random_input()
    for impl in ("eager", "auto"):
        config = dataclasses.replace(
            encoder_of(case).config, attn_impl=impl, dropout=0.1, attention_dropout=0.1
        )
        results = []
        for recomputes in (False, True):
            torch.manual_seed(2)
            encoder = TupeEncoder(config).double()
            for layer in encoder.layers:
                layer.gradient_checkpointing = recomputes
            torch.manual_seed(3)
            results.append(gradients(encoder, encoder(x, PADDING), 1))
        for ours, theirs in zip(results[1].values(), results[0].values(), strict=True):
            assert_near(ours, theirs)


@parametrized(LARGEST)
def test_some_tokens_alone(case):
    """Their hidden states, and the gradients, are those of a whole forward pass."""
    x, tokens, mask = random_input(), torch.tensor([2, 3, 7, 9, 13]), PADDING.flip(0)
    for impl, pre_ln in (("eager", True), ("sdpa", False), ("auto", True)):
        encoder = encoder_of(case, attn_impl=impl, normalize_before=pre_ln)
        out, whole = encoder(x, mask, output_tokens=tokens), encoder(x, lengths=[4, 7])
        expected = whole.flatten(0, 1)[tokens]
        assert_near(out, expected)
        weights = expected.detach().sin()
        theirs = gradients(encoder, expected, weights)
        for name, ours in gradients(encoder, out, weights).items():
            assert_near(ours, theirs[name])


@parametrized(EXPORTED)
@torch.no_grad()
def test_exported_with_an_open_length(case):
    encoder = encoder_of(case, attn_impl="auto", num_layers=1)
    before = encoder(random_input(), PADDING)
    sizes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    exported = torch.export.export(
        encoder, (random_input(), PADDING), dynamic_shapes=(sizes, sizes)
    ).module()
    masks = (
        PADDING,
        torch.zeros(1, MAX, dtype=torch.bool),
        torch.tensor([[False, True, True], [False] * 3, [False, True, False]]),
    )
    for mask in masks:
        x = random_input(mask.size(1), len(mask))
        assert_near(exported(x, mask)[~mask], encoder(x, mask)[~mask])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Iterating over a tensor")
        traced = torch.jit.trace(encoder, (random_input(), PADDING), check_trace=False)
    for x in (random_input(3, 2), random_input()):
        assert_near(traced(x, torch.zeros(x.shape[:2], dtype=torch.bool)), encoder(x))
    assert encoder(random_input(), PADDING).equal(before)


# ---- 16 bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@parametrized(LARGEST)
def test_16_bits_are_near_float64(case, dtype):
    encoder, exact = encoder_of(case, dtype, attn_impl="auto"), encoder_of(case)
    exact.load_state_dict(encoder.state_dict())
    mask = torch.arange(SEQ_LEN) >= torch.tensor([[7], [4], [0]])
    x = random_input(batch=3).to(dtype)
    weights = random_input(batch=3).to(dtype).masked_fill(mask[..., None], 0)
    out, expected = encoder(x, mask), exact(x.double(), mask)
    ours, theirs = gradients(encoder, out, weights), gradients(exact, expected, weights.double())
    assert out.dtype == dtype and all(g.isfinite().all() for g in (out, *ours.values()))

    def distance(actual, expected):
        return ((actual.double() - expected).norm() / expected.norm()).item()

    # A rounding moves a number by up to eps / 2, 0.3 eps in the mean square; some 12 in each of two
    # layers add up at random: 0.3 * 24 ** 0.5 = 1.4 eps. A gradient has those of three passes, and
    # the means that LayerNorm and softmax subtract double them: 5 eps.
    eps = torch.finfo(dtype).eps
    assert distance(out[~mask], expected[~mask]) < 2 * eps
    flat = [torch.cat([g.double().flatten() for g in grads.values()]) for grads in (ours, theirs)]
    assert distance(*flat) < 5 * eps


@parametrized(LARGEST)
def test_autocast(case):
    x, eps = random_input(dtype=torch.float32), torch.finfo(torch.bfloat16).eps
    for impl in ("eager", "sdpa", "auto"):
        encoder, results = encoder_of(case, torch.float32, attn_impl=impl), []
        for context in (torch.autocast("cpu", dtype=torch.bfloat16), contextlib.nullcontext()):
            with context:
                out = encoder(x, PADDING)[~PADDING]
            results.append([out.float(), *gradients(encoder, out.float(), 1).values()])
        for ours, theirs in zip(*results):
            assert ours.dtype == torch.float32
            # as above, and a small gradient may be the sum of large terms that cancel
            assert (ours - theirs).norm() < 4 * eps * (theirs.norm() + results[1][0].norm())


# ---- What is refused ----------------------------------------------------------------------------


def test_wrong_input_is_refused():
    encoder, x = encoder_of(Case("tupe", {})), random_input()
    for mask in (PADDING[:, 1:], PADDING[:1], PADDING.long(), PADDING[..., None]):
        with pytest.raises(ValueError, match=r"key_padding_mask is .* expected bool"):
            encoder(x, mask)
        with pytest.raises(ValueError, match="document_starts is"):
            encoder(x, None, document_starts=mask)
    with pytest.raises(ValueError, match="begins with padding.*pad on the right"):
        encoder(x, PADDING.flip(1))
    with pytest.raises(ValueError, match="weights are those of whole rows"):
        encoder(x, document_starts=STARTS, weights=[])
    middle = PADDING.roll(-1, 1)
    with pytest.raises(ValueError, match="only where padding is on the right"):
        encoder(x, middle, document_starts=STARTS)
    with pytest.raises(ValueError, match=r"seq_len \(12\) .*max_positions \(11\); raise it"):
        encoder(random_input(MAX + 1))
    for wrong in (x[:, :0], x[0]):
        with pytest.raises(ValueError, match=r"embeddings are \(.*\); expected \(B, L, D\)"):
            encoder(wrong)
    with pytest.raises(ValueError, match="output_tokens must be indices"):
        encoder(x, output_tokens=PADDING)
    for lengths in ([4], [4, 8], [4, -1], [4, 3, 2]):
        with pytest.raises(ValueError, match="lengths are .* expected 2 values, 0 to 7"):
            encoder(x, lengths=lengths)
    with pytest.raises(ValueError, match="lengths replace key_padding_mask"):
        encoder(x, PADDING, lengths=[7, 4])
    for tokens in ([14], [3, 99], [-1]):  # must not return another token's hidden state
        for mask in (None, PADDING):
            with pytest.raises(IndexError, match="out of range"):
                encoder(x, mask, output_tokens=torch.tensor(tokens))
    with pytest.raises(ValueError, match="return_all_hiddens returns all tokens"):
        encoder(x, return_all_hiddens=True, output_tokens=torch.tensor([3]))
    with pytest.raises(Exception, match="exported model would hard-code .* documents"):
        torch.export.export(encoder, (x, PADDING, False, STARTS))
    with pytest.raises(ValueError, match="without dropout; call eval"):
        encoder.train().attention_weights(x)


def test_lm_head_of_an_odd_vocabulary_under_a_gpus_autocast():
    """There LayerNorm returns float32, and the product is in 16 bits."""
    torch.manual_seed(0)
    head, x = LMHead(8, 13, "gelu"), torch.randn(5, 8)
    head.layer_norm.register_forward_hook(lambda *args: args[-1].float())
    with torch.autocast("cpu", dtype=torch.bfloat16), Operations() as ran:
        out = head(x)
    assert out.dtype == torch.bfloat16 and out.shape == (5, 13)
    assert any("constant_pad_nd" in name for name in ran.names)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_lm_head_of_an_odd_vocabulary_in_16_bits(dtype):
    torch.manual_seed(0)
    head, x = LMHead(8, 13, "gelu").to(dtype), torch.randn(5, 8, dtype=dtype)
    head.bias.data.normal_()
    features = head.layer_norm(F.gelu(head.dense(x)))
    outs, parameters = [head(x), F.linear(features, head.weight, head.bias)], [*head.parameters()]
    for found, expected in zip(
        *([out, *torch.autograd.grad(out.sin().sum(), parameters)] for out in outs)
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
