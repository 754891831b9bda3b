"""Every model flag of fairseq-train changes the model, or is refused; shown on the built model."""

import argparse

import pytest
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.modules import LayerDropModuleList

from helpers.running import USER_DIR
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.plugin.model import sentence_encoder
from tupe_fairseq.plugin.model.mean_pooling_head import head_outputs

SMALL = [
    "--arch", "tupe_roberta_tiny", "--encoder-embed-dim", 12, "--encoder-ffn-embed-dim", 10,
    "--encoder-attention-heads", 2, "--max-positions", 9,
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    dictionary = Dictionary()
    for n in range(20):
        dictionary.add_symbol(f"w{n}")
    folder = tmp_path_factory.mktemp("data")
    dictionary.save(str(folder / "dict.txt"))
    return folder


def build(folder, *flags):
    words = [
        folder, "--user-dir", USER_DIR, "--task", "masked_lm", "--tokens-per-sample", 8, *SMALL,
        *flags,
    ]  # fmt: skip
    args = options.parse_args_and_arch(options.get_training_parser(), list(map(str, words)))
    model = tasks.setup_task(args).build_model(args)
    model.register_classification_head("a", num_classes=3)
    return model


def described(model):
    """What its parts are, without its config."""
    encoder = model.encoder.sentence_encoder
    layer, head = encoder.layers[0], model.classification_heads["a"]
    attn, position = layer.self_attn, encoder.position
    table = None if position is None else getattr(position, "pos", None)
    if hasattr(position, "untied_absolute"):
        table = position.untied_absolute.pos
    relative = getattr(position, "relative", None)
    x = torch.linspace(-1, 1, 5)
    return {
        "layers": len(encoder.layers),
        "width": layer.fc1.in_features,
        "inner": layer.fc1.out_features,
        "heads": attn.num_heads,
        "activation": [round(float(y), 4) for y in layer.activation_fn(x)],
        "pooler activation": head.activation_fn(x).tolist(),
        "pre-LN": (layer.normalize_before, encoder.layer_norm is not None),
        "branches": {one.dropout for one in encoder.layers},
        "of the embedding": encoder.config.dropout,
        "probabilities": {one.self_attn.dropout for one in encoder.layers},
        "activations": {one.activation_dropout for one in encoder.layers},
        "pooler": head.dropout.p,
        "pooled": pooled(model),
        "rows of positions": None if table is None else len(table.weight),
        "tied LM head": model.encoder.lm_head.weight is encoder.embed_tokens.weight,
        "layer drop": getattr(encoder.layers, "p", 0),
        "spectral norm": hasattr(head.out_proj, "weight_orig"),
        "scheme": type(position).__name__,
        "buckets": None if relative is None else relative.num_buckets,
        "distance": None if relative is None else relative.max_distance,
        "unties [CLS]": position is not None and position.unties_cls,
        "basis": encoder.config.symmetric_basis,
        "attention": attn.attn_impl,
        "unpad": (encoder.config.unpad, model.encoder.unpad),
        "documents begin with": encoder.document_start,
        "compiled": getattr(layer, "_compiled_call_impl", None) is not None,
        # fairseq's wrapper takes the place of forward
        "checkpointed": "forward" in vars(layer),
    }


def pooled(model):
    """What the head makes a vector of, of the features 1, 2 and 3, the last of them padding's."""
    got = []
    handle = model.classification_heads["a"].dense.register_forward_hook(
        lambda layer, given, _: got.append(given[0])
    )
    features = torch.arange(1.0, 4.0).view(1, 3, 1).expand(-1, -1, model.args.encoder_embed_dim)
    real = torch.tensor([[True, True, False]])
    head_outputs(model.classification_heads["a"].eval(), features, real)
    handle.remove()
    return got[0][0, 0].item()


# other flags that it needs, its words, and what alone is then different
CASES = {
    "--encoder-layers": ([], [3], {"layers": 3}),
    "--encoder-embed-dim": ([], [16], {"width": 16}),
    "--encoder-ffn-embed-dim": ([], [11], {"inner": 11}),
    "--encoder-attention-heads": ([], [3], {"heads": 3}),
    "--activation-fn": ([], ["relu"], {"activation": [0, 0, 0, 0.5, 1]}),
    "--pooler-activation-fn": ([], ["relu"], {"pooler activation": [0, 0, 0, 0.5, 1]}),
    "--encoder-normalize-before": ([], [], {"pre-LN": (True, True)}),
    "--dropout": ([], [0.3], {"branches": {0.3}, "of the embedding": 0.3}),
    "--attention-dropout": ([], [0.3], {"probabilities": {0.3}}),
    "--activation-dropout": ([], [0.3], {"activations": {0.3}}),
    "--pooler-dropout": ([], [0.3], {"pooler": 0.3}),
    # of the first of two tokens, and of both
    "--pooling": (["--load-checkpoint-heads"], ["mean"], {"pooled": 1.5}),
    "--max-positions": ([], [20], {"rows of positions": 21}),
    "--untie-weights-roberta": ([], [], {"tied LM head": False}),
    "--encoder-layerdrop": ([], [0.4], {"layer drop": 0.4}),
    "--spectral-norm-classification-head": ([], [], {"spectral norm": True}),
    "--position-encoding": (
        [], ["learned"],
        {"scheme": "LearnedPositions", "rows of positions": 9, "unties [CLS]": False},
    ),
    "--rel-pos": ([], [], {"buckets": 32, "distance": 128}),
    "--rel-pos-buckets": (["--rel-pos"], [8], {"buckets": 8}),
    "--max-rel-pos": (["--rel-pos"], [20], {"distance": 20}),
    "--tie-cls": ([], [], {"unties [CLS]": False}),
    "--untie-cls": (["--position-encoding", "alibi"], [], {"unties [CLS]": True}),
    "--attn-impl": ([], ["chunked"], {"attention": "chunked"}),
    "--unpad": ([], [], {"unpad": (True, True)}),
    "--isolate-documents": ([], [], {"documents begin with": 0}),
    "--checkpoint-activations": ([], [], {"checkpointed": True}),
}  # fmt: skip
REFUSED = {
    "--quant-noise-pq": [0.1], "--quant-noise-scalar": [0.1],
    "--mha-reg-scale-factor": [0.1], "--ffn-reg-scale-factor": [0.1], "--mha-heads-to-keep": [1],
    "--ffn-blocks-to-remove": [1],
}  # fmt: skip
# each in a test of its own; for fewer layers on loading see through_fairseq/test_pretrain.py
ELSEWHERE = {
    "--compile-layers", "--encoder-layers-to-keep", "--load-checkpoint-heads",
    "--min-params-to-wrap", "--offload-activations", "--position-each-layer", "--symmetric-basis",
}  # fmt: skip
# of fairseq's RoBERTa: the first is always on, the second says how --quant-noise-pq, which is
# refused, cuts a matrix
OF_NO_EFFECT = {"--layernorm-embedding", "--quant-noise-pq-block-size"}


@pytest.mark.parametrize("flag", CASES)
def test_it_changes_one_thing(flag, folder):
    further, words, expected = CASES[flag]
    before = described(build(folder, *further))
    after = described(build(folder, *further, flag, *words))
    assert {name: after[name] for name in after if after[name] != before[name]} == expected


@pytest.mark.parametrize("flag", REFUSED)
def test_it_is_refused(flag, folder):
    with pytest.raises(ValueError, match=rf"{flag} \({REFUSED[flag][0]}"):
        build(folder, flag, *REFUSED[flag])


def test_layers_are_left_out(folder):
    layers = build(folder, "--encoder-layerdrop", 0.5).encoder.sentence_encoder.layers
    assert isinstance(layers, LayerDropModuleList)
    counts = {len(list(layers.train())) for _ in range(50)}
    assert counts == {0, 1, 2} and len(list(layers.eval())) == 2


@pytest.mark.parametrize("offload", [False, True])
def test_activations_are_recomputed(offload, folder, monkeypatch):
    """The layer runs again in the backward pass; offloading is asked of fairseq's wrapper."""
    asked = []
    wrap = sentence_encoder.checkpoint_wrapper

    def spy(layer, offload_to_cpu):
        asked.append(offload_to_cpu)
        return wrap(layer, offload_to_cpu=offload_to_cpu)

    monkeypatch.setattr(sentence_encoder, "checkpoint_wrapper", spy)
    flag = "--offload-activations" if offload else "--checkpoint-activations"
    model = build(folder, flag).train()
    assert asked == [offload] * 2
    runs = []
    fc1 = model.encoder.sentence_encoder.layers[0].fc1
    fc1.register_forward_hook(lambda *_: runs.append(1))
    model(torch.tensor([[0, 5, 6, 2]]))[0].sum().backward()
    assert len(runs) == 2


def test_wrapping_for_sharding(folder, monkeypatch):
    asked, wrap = [], sentence_encoder.fsdp_wrap

    def spy(layer, **given):
        asked.append(given)
        return wrap(layer, **given)

    monkeypatch.setattr(sentence_encoder, "fsdp_wrap", spy)
    build(folder, "--min-params-to-wrap", 77)
    build(folder, "--min-params-to-wrap", 77, "--checkpoint-activations")
    assert asked == [{"min_num_params": 77}] * 2 + [{"min_num_params": 0}] * 2


def test_heads_of_a_checkpoint(folder):
    saved = build(folder).state_dict()
    names = [name for name in saved if name.startswith("classification_heads.b.")]
    assert not names
    for name in [name for name in saved if name.startswith("classification_heads.a.")]:
        saved[name.replace(".a.", ".b.")] = saved[name].clone()
    for flags, expected in (([], {"a"}), (["--load-checkpoint-heads"], {"a", "b"})):
        model = build(folder, *flags)
        model.load_state_dict({name: value.clone() for name, value in saved.items()})
        assert set(model.classification_heads) == expected


def test_positions_in_each_layer_and_a_symmetric_basis(folder):
    tokens = torch.tensor([[0, 5, 6, 7, 8, 2]])
    for scheme, flag in (
        ("sinusoidal", "--position-each-layer"), ("enformer", "--symmetric-basis"),
    ):  # fmt: skip
        outs = []
        for further in ([], [flag]):
            torch.manual_seed(1)
            model = build(folder, "--position-encoding", scheme, *further).eval()
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.3)
            outs.append(model(tokens)[0])
        assert outs[0].shape == outs[1].shape and not torch.allclose(*outs), flag


@pytest.mark.skipif(not hasattr(torch.nn.Module, "compile"), reason="needs torch 2.2")
def test_layers_are_compiled(folder):
    assert described(build(folder, "--compile-layers"))["compiled"]
    assert not described(build(folder))["compiled"]


@pytest.mark.parametrize("is_whole", [False, True], ids=["at_end", "none"])
def test_unpad_leaves_out_padding_and_nothing_else(is_whole, folder):
    """Which tokens are real, in the layers and in the LM head; also with given embeddings."""
    models = [build(folder, *flags).eval() for flags in ([], ["--unpad"])]
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        torch.manual_seed(2)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    tokens = torch.tensor([[0, 5, 6, 7, 8, 2], [0, 9, 2, 1, 1, 1]])
    if is_whole:
        tokens = tokens[:1]
    real = tokens.ne(1)
    (expected, _), (found, _) = (model(tokens) for model in models)
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-5)
    assert not found[~real].any()
    encoders = [model.encoder.sentence_encoder for model in models]
    given = encoders[0].embed_tokens(tokens)
    shapes = []
    encoders[1].layers[0].fc1.register_forward_hook(
        lambda _, args, __: shapes.append(args[0].shape)
    )
    out = [encoder(tokens, token_embeddings=given)["encoder_out"][0] for encoder in encoders]
    torch.testing.assert_close(out[1].transpose(0, 1)[real], out[0].transpose(0, 1)[real])
    # packed: 6 and 3 tokens
    assert shapes == [(1, 6, 12) if is_whole else (9, 12)]


def test_there_are_no_other_flags():
    parser = argparse.ArgumentParser()
    TupeRobertaModel.add_args(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert flags - {"-h", "--help"} == {*CASES, *REFUSED, *ELSEWHERE, *OF_NO_EFFECT}
