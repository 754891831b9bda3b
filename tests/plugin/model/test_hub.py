"""The hub interface's position terms and attention weights, for every kind of scheme."""

import argparse

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaHubInterface
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from helpers.gpu import needs_gpu
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.plugin.model.hub import TupeRobertaHub

LENGTH, MAX, HEADS, WIDTH, LAYERS = 7, 11, 3, 12, 2
REL_POS = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}
SCHEMES = {
    "tupe-a": {},
    "tupe-r": REL_POS,
    "tupe-tied": {**REL_POS, "tie_cls": True},
    "learned": {"position_encoding": "learned"},
    "learned-each-layer": {"position_encoding": "learned", "position_each_layer": True},
    "sinusoidal-rel-pos": {"position_encoding": "sinusoidal", **REL_POS},
    "none": {"position_encoding": "none"},
    "rope": {"position_encoding": "rope"},
    "alibi": {"position_encoding": "alibi", "untie_cls": True},
    "shaw": {"position_encoding": "shaw", "max_rel_pos": 3},
    "transformer-xl": {"position_encoding": "transformer-xl"},
    "disentangled": {"position_encoding": "disentangled", **REL_POS},
}
WITHOUT_BIAS = ["learned", "learned-each-layer", "none", "rope", "shaw"]


def build(options, **sizes):
    dictionary = Dictionary()
    for n in range(20):
        dictionary.add_symbol(f"w{n}")
    task = MaskedLMTask(MaskedLMConfig(tokens_per_sample=MAX), dictionary)
    args = argparse.Namespace(
        arch="tupe_roberta_tiny", encoder_layers=LAYERS, encoder_embed_dim=WIDTH,
        encoder_ffn_embed_dim=5, encoder_attention_heads=HEADS, max_positions=MAX,
        **{**options, **sizes},
    )  # fmt: skip
    model = TupeRobertaModel.build_model(args, task)
    for parameter in model.parameters():  # of BERT's small numbers, attention is all but uniform
        torch.nn.init.normal_(parameter, std=0.4)
    return TupeRobertaHub(argparse.Namespace(bpe=None), task, model).eval()


def encoder_of(hub):
    return hub.model.encoder.sentence_encoder


@pytest.fixture
def tokens():
    rows = torch.randint(4, 24, (2, LENGTH))
    rows[:, 0] = 0
    rows[1, -2:] = 1
    return rows


@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_attention_is_what_the_model_uses(scheme, unpad, tokens):
    hub = build(SCHEMES[scheme], unpad=unpad, encoder_normalize_before=scheme == "tupe-r")
    seen = []
    for layer in encoder_of(hub).layers:
        layer.self_attn.register_forward_hook(lambda *call: seen.append(call))
    with torch.no_grad():
        features, weights = hub.extract_features(tokens, return_attention=True)
        assert features.equal(hub.extract_features(tokens))
    assert len(weights) == LAYERS
    real = tokens.ne(1)
    for probs, (attn, (x, *_), output) in zip(weights, seen):
        assert probs.shape == (2, HEADS, LENGTH, LENGTH)
        torch.testing.assert_close(probs.sum(-1), torch.ones(2, HEADS, LENGTH))
        assert probs[1, :, :, -2:].abs().max() == 0
        if unpad:
            whole = x.new_zeros(2, LENGTH, WIDTH)
            whole[real] = x
            x = whole
        v = torch.nn.functional.linear(
            x, attn.in_proj_weight[2 * WIDTH :], attn.in_proj_bias[2 * WIDTH :]
        )
        v = v.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
        expected = attn.out_proj((probs @ v).transpose(1, 2).flatten(-2))[real]
        torch.testing.assert_close(output if unpad else output[real], expected)
    assert (weights[0] - weights[1]).abs().max() > 0.01


def test_one_sentence_and_all_hiddens(tokens):
    hub = build(REL_POS)
    states, weights = hub.extract_features(tokens[0], True, return_attention=True)
    assert len(states) == LAYERS + 1 and states[0].shape == (1, LENGTH, WIDTH)
    assert [w.shape for w in weights] == [(1, HEADS, LENGTH, LENGTH)] * LAYERS


def test_attention_is_refused_in_training_mode(tokens):
    hub = build({}).train()
    with pytest.raises(ValueError, match="without dropout.*call eval"):
        hub.extract_features(tokens, return_attention=True)
    with pytest.raises(ValueError, match="12 > 11"):
        hub.eval().extract_features(torch.full((MAX + 1,), 5), return_attention=True)


@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - set(WITHOUT_BIAS)))
def test_position_bias_is_the_logits_without_content(scheme):
    hub = build(SCHEMES[scheme])
    encoder = encoder_of(hub)
    layers = [None] if encoder.position_bias is not None else range(LAYERS)
    for layer in layers:
        module = encoder.position_bias
        if layer is not None:
            module = encoder.layers[layer].self_attn.position
        terms = hub.position_bias(LENGTH, layer)
        nothing = torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS)
        torch.testing.assert_close(terms.sum, module.forward_attn(nothing, nothing)[0])
        given = [term for term in terms[:2] if term is not None]
        torch.testing.assert_close(sum(given), terms.sum)
        assert all(term.shape == (HEADS, LENGTH, LENGTH) for term in given)


def test_terms_of_tupe():
    hub = build(REL_POS)
    bias, terms = encoder_of(hub).position_bias, hub.position_bias(LENGTH)
    torch.testing.assert_close(terms.absolute, bias.untied_absolute(LENGTH))
    torch.testing.assert_close(terms.relative, bias.relative(LENGTH))
    assert not terms.sum.requires_grad
    assert build({}).position_bias(LENGTH).relative is None
    for scheme in ("alibi", "sinusoidal-rel-pos"):
        assert build(SCHEMES[scheme]).position_bias(LENGTH).absolute is None


@pytest.mark.parametrize("scheme", WITHOUT_BIAS)
def test_no_such_bias(scheme):
    layer = 0 if scheme == "shaw" else None
    name = SCHEMES[scheme]["position_encoding"]
    with pytest.raises(ValueError, match=f"'{name}' .*so no part.*return_attention=True"):
        build(SCHEMES[scheme]).position_bias(LENGTH, layer)


@pytest.mark.parametrize(
    "scheme, arguments, message",
    [
        ("tupe-r", (MAX + 1,), r"seq_len \(12\) is not in 1 .. max_positions \(11\)"),
        ("tupe-r", (0,), r"seq_len \(0\) must be at least 1"),
        ("tupe-r", (LENGTH, 0), r"layer \(0\) is given, but all layers share"),
        ("transformer-xl", (LENGTH,), r"layer \(None\).*give layer, 0 .. 1"),
        ("transformer-xl", (LENGTH, 2), r"layer \(2\).*give layer, 0 .. 1"),
    ],
)
def test_wrong_arguments(scheme, arguments, message):
    with pytest.raises(ValueError, match=message):
        build(SCHEMES[scheme]).position_bias(*arguments)


class OnePiece:
    """An encoding in which every piece is a word."""

    def decode(self, pieces):
        return pieces


class OnADevice(torch.Tensor):
    """A tensor that is as little an array of numpy's as one on a GPU, where there is none."""

    def numpy(self):
        raise TypeError("can't convert device type tensor to numpy. Use Tensor.cpu()")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_decode_on_any_device():
    """fairseq's own asks for numpy's array of a tensor, which only the CPU's have."""
    hub = build({})
    hub.bpe = OnePiece()
    tokens = torch.tensor([0, 5, 9, 2, 2, 7, 2])
    with pytest.raises(TypeError, match="Use Tensor.cpu"):
        RobertaHubInterface.decode(hub, tokens.as_subclass(OnADevice))
    assert hub.decode(tokens.as_subclass(OnADevice)) == ["w1 w5", "w3"]
    assert hub.decode(tokens[:4]) == "w1 w5"
    for wrong in (tokens[None], tokens[:0], tokens[0]):
        with pytest.raises(ValueError, match=r"are not one sequence, \(L\)"):
            hub.decode(wrong)


@needs_gpu
def test_decode_on_a_gpu():
    hub = build({})
    hub.bpe = OnePiece()
    assert hub.decode(torch.tensor([0, 5, 9, 2, 2, 7, 2]).cuda()) == ["w1 w5", "w3"]


def test_predict_says_what_to_do_with_a_text_that_is_too_long():
    hub = build({})
    hub.register_classification_head("topics", num_classes=3)
    assert hub.predict("topics", torch.full((MAX,), 5)).shape == (1, 3)
    with pytest.raises(ValueError, match="12 > 11; shorten it, or use predict_texts or tupe-pred"):
        hub.predict("topics", torch.full((MAX + 1,), 5))


def test_it_is_fairseqs_interface():
    assert issubclass(TupeRobertaHub, RobertaHubInterface)
