"""Models of transformers, from a folder's own files: the numbers of this package, in every mode."""

import dataclasses
import importlib
import os
import sys

import pytest
import torch
import torch.nn.functional as F

from helpers.folders import PAD, write_folder
from helpers.position_cases import ALL_OF_ENCODER, SMALL, Case, parametrized
from helpers.tensors import assert_within
from tupe_fairseq.export.bundle import bundle

transformers = pytest.importorskip("transformers")
if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (4, 48):
    pytest.skip("needs transformers 4.48 or later", allow_module_level=True)

TUPE_R = Case("tupe", {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5})
IDS = torch.tensor([[0, 5, 9, 7, 8, 2], [0, 6, 4, 2, PAD, PAD], [0, 30, 12, 11, 2, PAD]])
REAL = IDS != PAD
MASK = REAL.long()
LABELS = torch.where(REAL, IDS, -100)
NO_DROPOUT = {
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """The modeling file as a module."""
    folder = tmp_path_factory.mktemp("remote")
    (folder / "folder_code").mkdir()
    (folder / "folder_code" / "__init__.py").touch()
    for name, text in bundle().items():
        (folder / "folder_code" / name).write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield importlib.import_module("folder_code.modeling_tupe")
    sys.path.remove(str(folder))


def config_of(case, **changes):
    return dataclasses.replace(SMALL, position_encoding=case.name, **case.options, **changes)


@pytest.fixture
def folder(tmp_path):
    """A folder of TUPE-R with a head for three classes, and what it must compute."""
    return tmp_path, write_folder(tmp_path, config_of(TUPE_R), num_labels=3)


def gradients(model, loss, prefix=""):
    model.zero_grad()
    loss.backward()
    return {prefix + n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@parametrized(ALL_OF_ENCODER)
def test_hidden_states_and_gradients_of_every_position_encoding(case, attention, remote, tmp_path):
    made = write_folder(tmp_path, config_of(case, normalize_before=attention == "eager"))
    model = remote.TupeModel.from_pretrained(tmp_path, attn_implementation=attention).eval()
    actual, expected = model(IDS, MASK).last_hidden_state, made.hidden(IDS)
    # float32, rounded in another order
    assert_within({"": actual[REAL]}, {"": expected[REAL]}, 1e-5)

    weights = torch.randn(expected.shape) * REAL.unsqueeze(-1)
    ours = gradients(model.encoder, (actual * weights).sum())
    theirs = gradients(made.encoder, (expected * weights).sum())
    assert_within(ours, theirs, 2e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_masked_lm(tied, remote, tmp_path):
    made = write_folder(tmp_path, config_of(TUPE_R), tied=tied)
    model, info = remote.TupeForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    out = model.eval()(IDS, MASK, labels=LABELS)
    expected = made.masked_lm(IDS)
    assert_within({"": out.logits[REAL]}, {"": expected[REAL]}, 1e-5)
    loss = F.cross_entropy(expected[REAL], IDS[REAL])
    torch.testing.assert_close(out.loss, loss, atol=1e-5, rtol=0)
    assert (model.lm_head.decoder.weight is model.tupe.embed_tokens.weight) == tied


@pytest.mark.parametrize("unpad", [True, False], ids=["unpad", "padded"])
@pytest.mark.parametrize("pooling", [{}, {"classifier_pooling": "mean"}], ids=["cls", "mean"])
def test_classification(pooling, unpad, remote, tmp_path):
    made = write_folder(tmp_path, config_of(TUPE_R), num_labels=3, **pooling)
    model, info = remote.TupeForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True, unpad=unpad
    )
    assert not any(info.values())
    out = model.eval()(IDS, MASK, labels=torch.tensor([2, 0, 1]))
    expected = made.classification(IDS)
    assert_within({"": out.logits}, {"": expected}, 1e-5)
    loss = F.cross_entropy(expected, torch.tensor([2, 0, 1]))
    torch.testing.assert_close(out.loss, loss, atol=1e-5, rtol=0)
    assert model.config.problem_type == "single_label_classification"
    embeddings = model.get_input_embeddings()(IDS)
    assert torch.equal(model(inputs_embeds=embeddings, attention_mask=MASK).logits, out.logits)
    alone = model(inputs_embeds=embeddings[1:2, :4]).logits  # all of them are tokens
    torch.testing.assert_close(alone, out.logits[1:2], atol=1e-5, rtol=0)


def test_a_pooling_that_is_unknown(folder, remote):
    with pytest.raises(ValueError, match="unknown pooling 'max'; --pooling is one of cls, mean"):
        remote.TupeForSequenceClassification.from_pretrained(folder[0], classifier_pooling="max")


@pytest.mark.parametrize("name", ["TupeModel", "TupeForMaskedLM"])
def test_a_folder_with_a_head_serves_others_without_a_warning(name, folder, remote):
    _, info = getattr(remote, name).from_pretrained(folder[0], output_loading_info=True)
    assert not any(info.values())


def test_regression_and_independent_labels(folder, remote):
    model = remote.TupeForSequenceClassification.from_pretrained(folder[0]).eval()
    questions = torch.rand(3, 3)
    out = model(IDS, MASK, labels=questions)
    expected = F.binary_cross_entropy_with_logits(out.logits, questions)
    assert (model.config.problem_type, out.loss) == ("multi_label_classification", expected)
    model = remote.TupeForSequenceClassification.from_pretrained(
        folder[0], num_labels=1, id2label={0: "SCORE"}, ignore_mismatched_sizes=True
    ).eval()
    out = model(IDS, MASK, labels=torch.tensor([0.1, 0.2, 0.3]))
    expected = F.mse_loss(out.logits[:, 0], torch.tensor([0.1, 0.2, 0.3]))
    assert (model.config.problem_type, out.loss) == ("regression", expected)


def test_new_heads_of_tokens_and_spans(folder, remote):
    model = remote.TupeForTokenClassification.from_pretrained(folder[0]).eval()
    labels = torch.where(REAL, IDS % 3, -100)
    out = model(IDS, MASK, labels=labels)
    torch.testing.assert_close(out.loss, F.cross_entropy(out.logits[REAL], labels[REAL]))
    model = remote.TupeForQuestionAnswering.from_pretrained(folder[0]).eval()
    start, end = torch.tensor([1, 2, 1]), torch.tensor([2, 3, 99])  # one is cut off
    out = model(IDS, MASK, start_positions=start, end_positions=end)
    loss = F.cross_entropy(out.start_logits, start) + F.cross_entropy(out.end_logits[:2], end[:2])
    torch.testing.assert_close(out.loss, loss / 2)
    weight = model.qa_outputs.weight
    assert weight.device.type == "cpu" and 0.005 < weight.std() < 0.05
    assert not model.qa_outputs.bias.any()


class TestAutoClasses:
    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path, monkeypatch):
        cache = str(tmp_path / "modules")
        monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", cache)
        monkeypatch.syspath_prepend(cache)
        for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
            monkeypatch.delitem(sys.modules, name)

    @pytest.mark.parametrize("task", ["", "ForMaskedLM", "ForSequenceClassification"])
    def test_load_save_and_load_again(self, task, tmp_path, recwarn, caplog):
        # folders, because transformers keeps code by the name of a folder
        first, second = tmp_path / f"first{task}", tmp_path / f"second{task}"
        write_folder(first, config_of(TUPE_R), num_labels=3)
        auto = getattr(transformers, f"AutoModel{task}")
        model = auto.from_pretrained(first, trust_remote_code=True).eval()
        assert type(model).__name__ == f"Tupe{task or 'Model'}"
        model.save_pretrained(second)
        assert {"configuration_tupe.py", "modeling_tupe.py"} < set(os.listdir(second))
        for name, text in bundle().items():
            assert (second / name).read_text(encoding="utf-8") == text
        again = auto.from_pretrained(second, trust_remote_code=True).eval()
        assert torch.equal(again(IDS, MASK)[0], model(IDS, MASK)[0])
        assert again.config.auto_map == model.config.auto_map
        assert len(again.config.auto_map) == 6
        assert "transformers" not in caplog.text

    def test_the_code_is_saved_of_a_model_made_in_code(self, remote, tmp_path):
        config = remote.TupeConfig(
            vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=8, max_position_embeddings=6,
        )  # fmt: skip
        model = remote.TupeForMaskedLM(config)
        model.save_pretrained(tmp_path / "made")
        again = transformers.AutoModelForMaskedLM.from_pretrained(
            tmp_path / "made", trust_remote_code=True
        )
        tokens = torch.tensor([[0, 5, 6, 2]])
        assert torch.equal(again.eval()(tokens).logits, model.eval()(tokens).logits)


class TestAttention:
    def test_flex_attention(self, folder, remote):
        pytest.importorskip("torch.nn.attention.flex_attention")
        model = remote.TupeModel.from_pretrained(folder[0], attn_implementation="flex_attention")
        with torch.no_grad():
            actual = model.eval()(IDS, MASK)[0]
        assert_within({"": actual[REAL]}, {"": folder[1].hidden(IDS)[REAL]}, 1e-5)
        with pytest.raises(ValueError, match="flex_attention has no dropout"):
            model.config._attn_implementation = "flex_attention"
            for layer in model.encoder.layers:
                layer.self_attn.dropout = 0.1
            model.train()(IDS, MASK)

    def test_the_config_decides_at_every_call(self, folder, remote):
        model = remote.TupeForMaskedLM.from_pretrained(folder[0]).eval()
        assert model.config._attn_implementation == "sdpa"
        seen = []
        for name in ("eager", "sdpa"):
            function = remote.OWN_FUNCTIONS[name]

            def noted(*args, function=function, name=name, **kwargs):
                seen.append(name)
                return function(*args, **kwargs)

            remote.OWN_FUNCTIONS[name] = noted
        try:
            model(IDS, MASK)
            model.set_attn_implementation("eager")
            model(IDS, MASK)
            model.config._attn_implementation = "sdpa"
            model(IDS, MASK)
        finally:
            for name in ("eager", "sdpa"):
                remote.OWN_FUNCTIONS[name] = getattr(remote, f"{name}_attention")
        assert seen == ["sdpa"] * 2 + ["eager"] * 2 + ["sdpa"] * 2

    def test_a_registered_function_gets_bias_and_padding(self, folder, remote):
        def takes_bias(module, q, k, v, attention_mask, scaling, dropout, position_bias, **unused):
            assert attention_mask is None and not module.is_causal
            scores = scaling * q @ k.transpose(-2, -1) + position_bias
            return (scores.softmax(-1) @ v).transpose(1, 2), None

        remote.ALL_ATTENTION_FUNCTIONS["takes_bias"] = takes_bias
        try:
            model = remote.TupeModel.from_pretrained(folder[0], attn_implementation="takes_bias")
            actual = model.eval()(IDS, MASK)[0]
        finally:
            del remote.ALL_ATTENTION_FUNCTIONS["takes_bias"]
        assert_within({"": actual[REAL]}, {"": folder[1].hidden(IDS)[REAL]}, 1e-5)

    def test_a_function_that_would_drop_the_positions_is_refused(self, folder, remote):
        def swallows(module, q, k, v, attention_mask, **kwargs):
            raise AssertionError

        remote.ALL_ATTENTION_FUNCTIONS["swallows"] = swallows
        try:
            with pytest.raises(ValueError, match="'swallows' takes no position_bias.*lose its pos"):
                remote.TupeModel.from_pretrained(folder[0], attn_implementation="swallows")
            model = remote.TupeModel.from_pretrained(folder[0])
            model.config._attn_implementation = "swallows"
            with pytest.raises(ValueError, match="'swallows' takes no position_bias.*lose its pos"):
                model(IDS)
            model.config._attn_implementation = "flash_attention_2"
            with pytest.raises(ValueError, match="'flash_attention_2' takes no position_bias"):
                model(IDS)
            model.config._attn_implementation = "unknown"
            with pytest.raises(ValueError, match="unknown attn_implementation 'unknown'; .*eager"):
                model(IDS)
        finally:
            del remote.ALL_ATTENTION_FUNCTIONS["swallows"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@parametrized([TUPE_R, Case("disentangled", {}), Case("shaw", {})])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing(case, attention, use_reentrant, remote, tmp_path):
    write_folder(tmp_path, config_of(case))
    model = remote.TupeForMaskedLM.from_pretrained(tmp_path, attn_implementation=attention).train()
    plain = gradients(model, model(IDS, MASK, labels=LABELS).loss)
    calls = []
    for layer in model.tupe.encoder.layers:
        layer.register_forward_pre_hook(lambda *args: calls.append(1))
    model.gradient_checkpointing_enable(
        gradient_checkpointing_kwargs={"use_reentrant": use_reentrant}
    )
    assert_within(gradients(model, model(IDS, MASK, labels=LABELS).loss), plain, 1e-6)
    assert len(calls) == 4


class TestOutputs:
    def test_attentions_and_hidden_states(self, folder, remote):
        path, made = folder
        model = remote.TupeForMaskedLM.from_pretrained(path).eval()
        out = model(IDS, MASK, output_attentions=True, output_hidden_states=True)
        embeddings = model.get_input_embeddings()(IDS)
        assert len(out.attentions) == 2 and len(out.hidden_states) == 3
        for ours, theirs in zip(out.attentions, made.encoder.attention_weights(embeddings, ~REAL)):
            assert_within({"": ours[REAL.unsqueeze(1).expand(-1, 3, -1)]},
                          {"": theirs[REAL.unsqueeze(1).expand(-1, 3, -1)]}, 1e-5)  # fmt: skip
        assert torch.equal(out.hidden_states[-1], model.tupe(IDS, MASK)[0])

    def test_attentions_in_training(self, folder, remote):
        model = remote.TupeModel.from_pretrained(folder[0], hidden_dropout_prob=0.5).train()
        out = model(IDS, MASK, output_attentions=True, output_hidden_states=True)
        sums = out.attentions[1].sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
        out.attentions[1].square().sum().backward()
        assert model.embed_tokens.weight.grad.any()

    def test_the_last_hidden_state_of_pre_ln(self, remote, tmp_path):
        write_folder(tmp_path, config_of(TUPE_R, normalize_before=True))
        model = remote.TupeModel.from_pretrained(tmp_path).eval()
        out = model(IDS, MASK, output_hidden_states=True)
        assert torch.equal(out.hidden_states[-1], out.last_hidden_state)

    @pytest.mark.parametrize("name", ["TupeModel", "TupeForMaskedLM", "TupeForQuestionAnswering"])
    def test_a_tuple(self, name, folder, remote):
        model = getattr(remote, name).from_pretrained(folder[0]).eval()
        out = model(IDS, MASK)
        values = model(IDS, MASK, return_dict=False)
        assert isinstance(values, tuple)
        assert all(torch.equal(a, b) for a, b in zip(values, out.to_tuple()))

    def test_padding_from_the_ids_and_embeddings_in_their_place(self, folder, remote):
        model = remote.TupeForMaskedLM.from_pretrained(folder[0]).eval()
        expected = model(IDS, MASK).logits
        assert torch.equal(model(IDS).logits, expected)
        assert torch.equal(model(IDS, REAL).logits, expected)
        embeddings = model.get_input_embeddings()(IDS)
        assert torch.equal(model(None, MASK, inputs_embeds=embeddings).logits, expected)

    def test_without_unpad(self, folder, remote):
        model = remote.TupeModel.from_pretrained(folder[0], unpad=False).eval()
        assert_within({"": model(IDS, MASK)[0][REAL]}, {"": folder[1].hidden(IDS)[REAL]}, 1e-5)


class TestErrors:
    def test_too_long(self, folder, remote):
        model = remote.TupeModel.from_pretrained(folder[0])
        with pytest.raises(ValueError, match="the input has 12 tokens, but the model has 11 pos"):
            model(torch.full((1, 12), 5))

    def test_no_table_no_limit(self, remote, tmp_path):
        write_folder(tmp_path, config_of(Case("rope", {})))
        assert remote.TupeModel.from_pretrained(tmp_path)(torch.full((1, 12), 5))

    def test_padding_on_the_left(self, folder, remote):
        with pytest.raises(ValueError, match="begins with padding; .* pad on the right"):
            remote.TupeModel.from_pretrained(folder[0])(IDS, MASK.flip(1))

    def test_both_or_no_input(self, folder, remote):
        model = remote.TupeModel.from_pretrained(folder[0])
        for ids, embeddings in ((None, None), (IDS, torch.zeros(3, 6, 12))):
            with pytest.raises(ValueError, match="give either input_ids or inputs_embeds"):
                model(ids, inputs_embeds=embeddings)

    def test_an_unknown_position_encoding(self, remote):
        with pytest.raises(ValueError, match="unknown position encoding 'spiral'"):
            remote.TupeModel(remote.TupeConfig(position_encoding="spiral"))


@pytest.mark.parametrize("tied", [True, False])
def test_resized_embeddings(tied, remote, tmp_path):
    write_folder(tmp_path, config_of(TUPE_R), tied=tied)
    model = remote.TupeForMaskedLM.from_pretrained(tmp_path).eval()
    before = model(IDS, MASK).logits
    model.resize_token_embeddings(before.size(-1) + 8)
    after = model(IDS, MASK).logits
    assert after.size(-1) == model.config.vocab_size == before.size(-1) + 8
    assert torch.equal(after[REAL][:, :-8], before[REAL])
    assert (model.lm_head.decoder.weight is model.tupe.embed_tokens.weight) == tied
    model.save_pretrained(tmp_path / "resized")
    again = remote.TupeForMaskedLM.from_pretrained(tmp_path / "resized").eval()
    assert torch.equal(again(IDS, MASK).logits, after)


@parametrized([TUPE_R, Case("alibi", {}), Case("sinusoidal", {}), Case("enformer", {})])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_from_the_start(case, dtype, remote, tmp_path):
    made = write_folder(tmp_path, config_of(case))
    # transformers builds the model on the meta device, with this dtype as default
    model = remote.TupeModel.from_pretrained(tmp_path, torch_dtype=dtype).eval()
    actual = model(IDS, MASK)[0]
    assert actual.dtype == dtype
    # 8 bits of a mantissa, in two layers
    torch.testing.assert_close(actual[REAL].float(), made.hidden(IDS)[REAL], atol=0.06, rtol=0)


def test_new_models_are_initialised_as_berts(remote):
    config = remote.TupeConfig(
        vocab_size=400, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=50, rel_pos=True, initializer_range=0.05,
        num_labels=40,
    )  # fmt: skip
    for name in ("TupeForMaskedLM", "TupeForSequenceClassification", "TupeForTokenClassification"):
        model = getattr(remote, name)(config)
        for key, parameter in model.named_parameters():
            if ("norm" in key or "_ln" in key) and key.endswith("weight"):
                assert (parameter == 1).all(), key
            elif key.endswith("bias"):
                assert not parameter.any(), key
            else:
                assert 0.04 < parameter.std() < 0.06, key
        assert not model.tupe.embed_tokens.weight[PAD].any()


@parametrized([Case("alibi", {"untie_cls": True}), Case("transformer-xl", {})])
def test_parameters_of_a_position_encoding_are_initialised(case, remote):
    config = remote.TupeConfig(
        vocab_size=40, hidden_size=480, num_hidden_layers=1, num_attention_heads=60,
        intermediate_size=8, position_encoding=case.name, initializer_range=0.05, **case.options,
    )  # fmt: skip
    model = remote.TupeModel(config)
    positions = [model.encoder.position or model.encoder.layers[0].self_attn.position]
    for parameter in positions[0].parameters():
        assert 0.03 < parameter.std() < 0.07


def test_a_transformers_that_is_too_old(remote, monkeypatch):
    monkeypatch.delattr(transformers.modeling_utils, "ALL_ATTENTION_FUNCTIONS")
    monkeypatch.delitem(sys.modules, remote.__name__)
    with pytest.raises(ImportError, match="need transformers 4.48 or later .* and this is [45]"):
        importlib.import_module(remote.__name__)
    # what was loaded before stays for the tests that follow
    monkeypatch.setitem(sys.modules, remote.__name__, remote)
