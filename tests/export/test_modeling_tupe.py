"""The code of a folder computes what the checkpoint does, and is what transformers expects."""

import argparse
import inspect
import pickle
import sys

import pytest
import torch
import torch.nn.functional as F
import transformers
from scipy.stats import ks_2samp
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import destroy_process_group, init_process_group
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers import models
from helpers.models import MEAN_POOLING
from helpers.position_cases import ALL_OF_ENCODER, LARGEST, Case, Operations, parametrized
from tupe_fairseq.checkpoint.checkpoint import symbols_of
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.export import modeling_tupe, onnx_files
from tupe_fairseq.export.check import load_code
from tupe_fairseq.export.configuration_tupe import AUTO_MAP, TupeConfig
from tupe_fairseq.export.modeling_tupe import (
    TupeForMaskedLM,
    TupeForSequenceClassification,
    TupeModel,
)
from tupe_fairseq.export.names import TUPE, Head, to_config, to_transformers
from tupe_fairseq.export.write_folder import CODE
from tupe_fairseq.kinds import KINDS
from tupe_fairseq.options import TupeConfig as CoreConfig
from tupe_fairseq.position import CATALOGUE

# float32, summed in another order
TOLERANCE = {"atol": 1e-5, "rtol": 0}
CASES = {case.id: case for case in ALL_OF_ENCODER}
SIZES = {
    "encoder_layers": 2, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 20,
    "encoder_attention_heads": 3, "max_positions": 14,
}  # fmt: skip
WORDS = 31
PAD = 1
SENTENCE_HEAD = Head("mine", ["no", "yes", "perhaps"], KINDS["classification"])
TOKEN_HEAD = Head("tags", ["O", "B", "I"], KINDS["tagging"])
SMALL = {
    "vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 10, "max_position_embeddings": 14,
}  # fmt: skip


def write_folder(folder, case="tupe-rel_pos", head=None, **options):
    name, of_case = CASES[case]
    options = {"position_encoding": name, **of_case, **SIZES, **options}
    return models.write_folder(folder, head, WORDS, **options)


def load(folder, kind="TupeForMaskedLM", **options):
    """The model of a folder with the folder's own code."""
    return getattr(load_code(str(folder)), kind).from_pretrained(folder, **options)


def batch(*lengths):
    """Random ids with padding on the right, and the mask of the real tokens."""
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(4, WORDS + 4, is_real.shape)
    ids[:, 0] = 0
    return ids.masked_fill(~is_real, PAD), is_real


def sizes(case):
    """The options of a model without dropout, by their names in the package."""
    rates = dict.fromkeys(("dropout", "attention_dropout"), 0.0)
    names = {"embed_dim": 12, "num_heads": 3, "num_layers": 2, "ffn_embed_dim": 10}
    return {**names, **rates, "max_positions": 14, "position_encoding": case.name, **case.options}


def small(case, kind="TupeModel"):
    return getattr(modeling_tupe, kind)(TupeConfig(vocab_size=40, **sizes(case))).eval()


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "folder")
    return tmp_path / "folder"


# ---- What the checkpoint computes ---------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_logits_of_every_position_encoding(case, tmp_path):
    for attention in ("eager", "sdpa"):
        folder = tmp_path / attention
        expected = write_folder(folder, case, encoder_normalize_before=attention == "eager")
        model = load(folder, attn_implementation=attention)
        for lengths in ([14, 9, 2], [5, 5]):
            ids, is_real = batch(*lengths)
            logits = model(ids, attention_mask=is_real.long()).logits
            torch.testing.assert_close(logits[is_real], expected(ids)[0][is_real], **TOLERANCE)


@pytest.mark.parametrize("name", ["tupe", "rope", "deberta", "shaw"])
def test_heads_that_look_one_way(name, tmp_path):
    options = {"position_encoding": name, "one_way_heads": True, "encoder_attention_heads": 4}
    for attention in ("eager", "sdpa"):
        folder = tmp_path / attention
        expected = models.write_folder(folder, None, WORDS, **{**SIZES, **options})
        model, (ids, is_real) = load(folder, attn_implementation=attention), batch(14, 9)
        logits = model(ids, attention_mask=is_real.long()).logits
        torch.testing.assert_close(logits[is_real], expected(ids)[0][is_real], **TOLERANCE)


@parametrized(LARGEST)
@torch.no_grad()
def test_no_more_operations_than_in_the_package(case):
    model, core = small(case), TupeEncoder(CoreConfig(**sizes(case), attn_impl="sdpa")).eval()
    ids, is_real = batch(9, 5)
    with Operations() as of_model:
        model(ids, attention_mask=is_real)
    with Operations() as of_core:
        core(model.embed_tokens(ids), is_real.logical_not())
    of_mask = ["aten.ne.Scalar"]  # 0 is padding
    assert len(of_model.names) <= len([*of_core.names, *of_mask])


class Devices(TorchDispatchMode):
    """Records which results are on the CPU, except small constants."""

    def __init__(self):
        super().__init__()
        self.on_cpu = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.on_cpu += [
            f"{function} {tuple(x.shape)}"
            for x in tree_leaves(out)
            if isinstance(x, torch.Tensor) and x.device.type == "cpu" and x.numel() > 99
        ]
        return out


@parametrized([*LARGEST, Case("alibi", {})])  # which has no parameters
@torch.no_grad()
def test_positions_are_computed_where_transformers_loads_the_model(case):
    """It sets parameters and buffers one by one; here to torch's fake tensors of a GPU."""
    model = small(case)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in model.modules():
            for name, x in module.named_parameters(recurse=False):
                fake = torch.empty(x.shape, device="cuda")
                setattr(module, name, torch.nn.Parameter(fake, requires_grad=False))
            for name, x in module.named_buffers(recurse=False):
                setattr(module, name, torch.empty(x.shape, device="cuda"))
        x = torch.empty(2, 14, 12, device="cuda")
        with Devices() as devices:
            assert model(inputs_embeds=x)[0].is_cuda
    assert devices.on_cpu == []


@parametrized(LARGEST)
def test_gradient_checkpointing_in_a_distributed_training(case, tmp_path):
    model, (ids, is_real) = small(case, "TupeForMaskedLM").train(), batch(9, 5)
    inputs = {"input_ids": ids, "attention_mask": is_real.long(), "labels": ids}
    model(**inputs).loss.backward()
    expected = {name: x.grad for name, x in model.named_parameters()}
    model.zero_grad()
    model.gradient_checkpointing_enable()
    init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        torch.nn.parallel.DistributedDataParallel(model)(**inputs).loss.backward()
    finally:
        destroy_process_group()
    for name, x in model.named_parameters():
        torch.testing.assert_close(x.grad, expected[name], msg=name, **TOLERANCE)


def test_gradients(tmp_path):
    expected = write_folder(tmp_path / "a")
    model = load(tmp_path / "a", attn_implementation="sdpa").eval()
    ids, is_real = batch(14, 9, 2)
    F.cross_entropy(expected(ids)[0][is_real], ids[is_real]).backward()
    model(
        ids, attention_mask=is_real.long(), labels=ids.masked_fill(~is_real, -100)
    ).loss.backward()
    of_ours = {name: x.grad for name, x in expected.state_dict(keep_vars=True).items()}
    of_ours = {name: x for name, x in of_ours.items() if x is not None}
    for name, gradient in to_transformers(of_ours, TUPE).items():
        found = model.get_parameter(name).grad
        torch.testing.assert_close(found, gradient, msg=name, **TOLERANCE)


@pytest.mark.parametrize("options", [{}, MEAN_POOLING, None], ids=["cls", "mean", "tags"])
def test_classification(options, tmp_path):
    head = TOKEN_HEAD if options is None else SENTENCE_HEAD
    expected = write_folder(tmp_path / "a", head=head, **(options or {}))
    kind = "TupeForTokenClassification" if head.kind.of_words else "TupeForSequenceClassification"
    model, info = load(tmp_path / "a", kind, output_loading_info=True)
    assert not any(info.values())
    ids, is_real = batch(14, 9, 2)
    labels = torch.where(is_real, ids % 3, -100) if head.kind.of_words else torch.tensor([2, 0, 1])
    out = model(ids, attention_mask=is_real.long(), labels=labels)
    logits = expected(ids, features_only=True, classification_head_name=head.name)[0]
    kept = is_real if head.kind.of_words else slice(None)
    torch.testing.assert_close(out.logits[kept], logits[kept], **TOLERANCE)
    loss = F.cross_entropy(logits[kept], labels[kept])
    torch.testing.assert_close(out.loss, loss, **TOLERANCE)


def test_questions(folder):
    """Begin and end are scored for each token; the loss is the mean of both."""
    model = load(folder, "TupeForQuestionAnswering").eval()
    ids, is_real = batch(14, 9, 2)
    start, end = torch.tensor([3, 0, 14]), torch.tensor([5, 0, 99])  # the last one is cut off
    out = model(ids, attention_mask=is_real.long(), start_positions=start, end_positions=end)
    features = load(folder, "TupeModel").eval()(ids).last_hidden_state.double()
    expected = features @ model.qa_outputs.weight.T.double() + model.qa_outputs.bias.double()
    found = torch.stack([out.start_logits, out.end_logits], -1).double()
    torch.testing.assert_close(found[is_real], expected[is_real], **TOLERANCE)
    shares = found.log_softmax(1)
    losses = [shares[0, 3, 0], shares[1, 0, 0], shares[0, 5, 1], shares[1, 0, 1]]
    assert out.loss.item() == pytest.approx(-sum(losses).item() / 4, abs=1e-6)


@pytest.mark.parametrize("options", [{}, MEAN_POOLING], ids=["cls", "mean"])
def test_multiple_choice(options, tmp_path):
    """Each candidate is a text of its own; the classes of a row are its candidates."""
    head = Head("mine", ["score"], KINDS["regression"])
    expected = write_folder(tmp_path / "a", head=head, **options)
    model, info = load(tmp_path / "a", "TupeForMultipleChoice", output_loading_info=True)
    assert not any(info.values())
    ids, is_real = batch(14, 9, 2, 5, 5, 7)
    labels, mask = torch.tensor([2, 0]), is_real.view(2, 3, 14)
    out = model(ids.view(2, 3, 14), attention_mask=mask.long(), labels=labels)
    scores = [
        expected(row[None, real], features_only=True, classification_head_name="mine")[0]
        for row, real in zip(ids, is_real)
    ]
    torch.testing.assert_close(out.logits, torch.cat(scores).view(2, 3), **TOLERANCE)
    assert out.loss.item() == pytest.approx(
        F.cross_entropy(torch.cat(scores).view(2, 3), labels).item(), abs=1e-6
    )
    assert torch.equal(model(ids.view(2, 3, 14)).logits, out.logits)  # padding by its id
    embeddings = model.get_input_embeddings()(ids).view(2, 3, 14, -1)
    assert torch.equal(model(inputs_embeds=embeddings, attention_mask=mask).logits, out.logits)


@parametrized(LARGEST)
def test_a_new_model_has_the_initial_values_of_fairseq(case, tmp_path):
    """Each parameter is drawn from the same distribution."""
    lines = [f"word{n} 1" for n in range(WORDS)]
    (tmp_path / "dict.txt").write_text("\n".join(lines) + "\n")
    options = {"position_encoding": case.name, **case.options, **SIZES, "encoder_layers": 1}
    drawn = [models.new(tmp_path / "dict.txt", **options) for _ in range(20)]
    config = to_config(argparse.Namespace(**drawn[0][0]), symbols_of(lines))
    expected = [to_transformers(model.state_dict(), TUPE) for _, model in drawn]
    found = [TupeForMaskedLM(TupeConfig(**config)).state_dict() for _ in drawn]
    for name in expected[0]:
        x, y = (torch.cat([one[name].flatten() for one in many]) for many in (expected, found))
        assert ks_2samp(x, y).pvalue > 1e-4, name


# ---- What transformers does with it -------------------------------------------------------------


def test_auto_classes(tmp_path, monkeypatch, caplog):
    cache = str(tmp_path / "modules")
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", cache)
    monkeypatch.syspath_prepend(cache)
    for module in [module for module in sys.modules if module.startswith("transformers_modules")]:
        monkeypatch.delitem(sys.modules, module)
    # transformers keeps the code under the name of the folder
    first, second = tmp_path / "first", tmp_path / "second"
    write_folder(first, head=SENTENCE_HEAD)
    auto_class = transformers.AutoModelForSequenceClassification
    model = auto_class.from_pretrained(first, trust_remote_code=True)
    assert type(model).__name__ == "TupeForSequenceClassification"
    model.save_pretrained(second)
    for file in CODE:
        assert (second / file).read_text() == (first / file).read_text()
    again = auto_class.from_pretrained(second, trust_remote_code=True)
    ids, _ = batch(9, 5)
    assert torch.equal(again(ids)[0], model(ids)[0])
    assert again.config.auto_map == model.config.auto_map == AUTO_MAP
    assert "transformers" not in caplog.text  # no warning: the folder has all weights
    auto_class = transformers.AutoModelForPreTraining  # the LM head is not in the folder
    model = auto_class.from_pretrained(second, trust_remote_code=True)
    assert type(model).__name__ == "TupeForMaskedLM"


def test_attention_implementations_that_would_lose_the_positions(folder):
    for name in ("flash_attention_2", "flex_attention"):
        with pytest.raises((ValueError, ImportError)):
            load(folder, "TupeModel", attn_implementation=name)
    ids, _ = batch(9, 5)
    transformers.AttentionInterface.register("no_bias", lambda *args, **kwargs: None)
    model = load(folder, "TupeModel", attn_implementation="no_bias")
    for name in ("no_bias", "flash_attention_2", "flex_attention"):
        model.config._attn_implementation = name
        with pytest.raises(ValueError, match=f"'{name}' would lose the positions"):
            model(ids)


def test_attentions_hidden_states_embeddings_and_tuples(folder):
    model = load(folder)
    ids, is_real = batch(14, 9, 2)
    out = model(ids, attention_mask=is_real, output_attentions=True, output_hidden_states=True)
    assert len(out.attentions) == 2 and len(out.hidden_states) == 3
    for probabilities in out.attentions:
        torch.testing.assert_close(probabilities.sum(-1), torch.ones(3, 3, 14))
        assert not probabilities.transpose(1, 3)[~is_real].any()
    last = model.tupe(ids).last_hidden_state
    torch.testing.assert_close(out.hidden_states[-1][is_real], last[is_real], **TOLERANCE)
    plain = model(ids).logits  # padding is found by its id
    torch.testing.assert_close(plain[is_real], out.logits[is_real], **TOLERANCE)
    assert torch.equal(model(ids, return_dict=False)[0], plain)
    embeddings = model.get_input_embeddings()(ids)
    assert torch.equal(model(inputs_embeds=embeddings, attention_mask=is_real).logits, plain)


def test_the_last_hidden_state_is_normalized(tmp_path):
    write_folder(tmp_path / "a", encoder_normalize_before=True)
    model, (ids, _) = load(tmp_path / "a", "TupeModel"), batch(9, 9)
    out = model(ids, output_hidden_states=True)
    assert out.hidden_states[-1] is out.last_hidden_state


@pytest.mark.parametrize("name", ["tupe", "transformer-xl", "rope"])
def test_compiled_without_graph_breaks(name):
    case = next(case for case in LARGEST[::-1] if case.name == name)
    model = small(case)
    compiled = torch.compile(model, fullgraph=True, backend="eager", dynamic=True)
    for lengths in ((9, 5), (14, 14, 3)):
        ids, is_real = batch(*lengths)
        out = compiled(ids, attention_mask=is_real.long())[0]
        torch.testing.assert_close(out[is_real], model(ids)[0][is_real], **TOLERANCE)


@pytest.mark.parametrize("untied", [False, True])
def test_tied_and_untied_embeddings_are_resized(untied, tmp_path):
    expected = write_folder(tmp_path / "a", untie_weights_roberta=untied)
    model, info = load(tmp_path / "a", output_loading_info=True)
    assert not any(info.values())
    ids, _ = batch(9, 9)
    before = model(ids).logits
    torch.testing.assert_close(before, expected(ids)[0], **TOLERANCE)
    model.resize_token_embeddings(WORDS + 5 + 8)
    after = model(ids).logits
    assert torch.equal(after[..., :-8], before)
    assert (model.lm_head.decoder.weight is model.tupe.embed_tokens.weight) != untied
    model.save_pretrained(tmp_path / "b")
    assert torch.equal(type(model).from_pretrained(tmp_path / "b")(ids).logits, after)


@pytest.mark.parametrize("kind", [x.split(".")[1] for x in list(AUTO_MAP.values())[1:]])
def test_what_transformers_and_torch_expect_of_every_class(kind):
    """Trainer keeps the columns that forward names; torch.export takes the model."""
    torch.manual_seed(1)
    model = getattr(modeling_tupe, kind)(TupeConfig(**SMALL)).eval()
    names = inspect.signature(model.forward).parameters
    assert {"input_ids", "attention_mask", "inputs_embeds"} <= {*names}
    ids = torch.randint(4, 39, (2, 3, 7) if kind == "TupeForMultipleChoice" else (3, 7))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    expected = model(**inputs)[0]
    program = torch.export.export(model, (), inputs).module()
    torch.testing.assert_close(program(**inputs)[0], expected, **TOLERANCE)
    embeddings = {"inputs_embeds": model.get_input_embeddings()(ids)}
    torch.testing.assert_close(model(**embeddings)[0], expected, **TOLERANCE)
    out = model(**embeddings, output_attentions=True, output_hidden_states=True)
    assert (len(out.attentions), len(out.hidden_states)) == (2, 3)
    assert isinstance(model(**inputs, return_dict=False), tuple)
    with pytest.raises(TypeError, match="takes no head_mask: .* masks no heads"):
        model(**inputs, head_mask=torch.ones(2, 3))


def test_what_is_refused(folder):
    model = load(folder, "TupeModel")
    ids, is_real = batch(9, 5)
    with pytest.raises(ValueError, match=r"\(15\) is above max_positions \(14\); .*tupe-extend"):
        model(torch.full((1, 15), 5))
    with pytest.raises(ValueError, match="begins with padding.*pad on the right"):
        model(ids, attention_mask=is_real.flip(1))
    with pytest.raises(ValueError, match=r"attention_mask is \(2, 9, 9\), but must be \(B, L\)"):
        model(ids, attention_mask=is_real[:, None].expand(-1, 9, -1))
    with pytest.raises(TypeError, match="the model takes no position_ids: it has one type of"):
        model(ids, position_ids=ids, token_type_ids=None)
    with pytest.raises(ValueError, match="the sequences are empty; each needs at least 1 token"):
        model(torch.empty(2, 0, dtype=torch.long))
    # padding as by a tokenizer's pad_to_multiple_of
    padded = F.pad(ids, (0, 7), value=PAD)
    found = model(padded).last_hidden_state[:, :9][is_real]
    torch.testing.assert_close(found, model(ids).last_hidden_state[is_real], **TOLERANCE)
    # the output of a row of only padding is finite
    assert model(torch.full((2, 5), PAD)).last_hidden_state.isfinite().all()
    # without a table of positions there is no longest sequence
    rope = TupeModel(TupeConfig(**SMALL, position_encoding="rope"))
    assert rope(torch.full((1, 99), 5))[0].shape == (1, 99, 12)


@parametrized(LARGEST)
def test_loaded_in_16_bits(case, tmp_path):
    write_folder(tmp_path / "a", case.id)
    dtypes = torch.float32, torch.bfloat16
    exact, model = (load(tmp_path / "a", dtype=dtype, device_map="cpu") for dtype in dtypes)
    ids, is_real = batch(14, 9, 2)
    expected, found = (x(ids).logits[is_real].float() for x in (exact, model))
    assert found.isfinite().all() and (found - expected).norm() < 0.03 * expected.norm()


def test_another_encoding_in_the_config_of_a_tupe_r():
    """T5's bias would be added to rope's scores, and left out of alibi's."""
    for name, encoding in CATALOGUE.items():
        config = TupeConfig(**SMALL, position_encoding=name, rel_pos=True)
        if "rel_pos" in encoding.takes:
            TupeModel(config)
            continue
        with pytest.raises(ValueError, match=rf"'{name}' does not take rel_pos \(True\)"):
            TupeModel(config)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"position_encoding": "ropee"}, "position_encoding 'ropee' is not one of tupe, learned"),
        ({"hidden_act": "swish"}, "hidden_act 'swish' is not one of gelu, gelu_accurate, linear"),
        ({"pooler_activation": "swish"}, "pooler_activation 'swish' is not one of gelu, "),
        ({"classifier_pooling": "max"}, "classifier_pooling 'max' is not one of mean, cls"),
        ({"num_attention_heads": 5}, r"embed_dim \(12\) is not divisible by num_heads \(5\)"),
        ({"rel_pos": True, "rel_pos_buckets": 7}, r"rel_pos_buckets \(7\) must be even"),
        ({"rel_pos": True, "max_rel_pos": 8}, r"max_rel_pos \(8\) must be above the range of"),
    ],
)
def test_options_that_are_refused_when_the_model_is_made(options, error):
    with pytest.raises(ValueError, match=error):
        TupeForSequenceClassification(TupeConfig(**{**SMALL, **options}))


@pytest.mark.parametrize("activation", ["gelu_accurate", "linear"])
def test_pickled_and_on_the_meta_device(activation):
    model = TupeForMaskedLM(TupeConfig(**SMALL, hidden_act=activation)).eval()
    ids = torch.tensor([[0, 5, 2, PAD]])
    assert torch.equal(pickle.loads(pickle.dumps(model))(ids).logits, model(ids).logits)
    assert model.to("meta")(ids.to("meta"), attention_mask=ids.to("meta")).logits.is_meta


def test_onnx_of_functions_that_it_lacks(tmp_path):
    """It has no lgamma, which Enformer's gamma densities need, and no fused attention."""
    config = TupeConfig(**{**SMALL, "num_hidden_layers": 1}, position_encoding="enformer")
    module = onnx_files.Outputs(TupeModel(config), [onnx_files.HIDDEN]).eval()
    onnx_files.write_file(module, path := str(tmp_path / "model.onnx"))
    assert onnx_files.largest_difference(module, path) < 1e-5


@pytest.mark.parametrize("difference", [2e-4, float("nan")])
def test_an_onnx_file_that_differs_is_refused(difference, tmp_path, monkeypatch):
    write_folder(tmp_path / "a", encoder_layers=1)
    monkeypatch.setattr(onnx_files, "write_file", lambda *_: None)
    monkeypatch.setattr(onnx_files, "largest_difference", lambda *_: difference)
    with pytest.raises(ValueError, match="onnx/model.onnx differs from the model by"):
        onnx_files.export_onnx(str(tmp_path / "a"))
