"""tupe-convert on files of the TUPE authors' code, and of RoBERTas that fairseq-train trained."""

import argparse
import collections
import sys
import types

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.authors import VOCABULARY, WORDS, their_checkpoint
from helpers.running import call_program, run_here
from helpers.training import UP_TO_64, pretrain
from tupe_fairseq import TupeRobertaModel

TOKENS = torch.tensor([[0, 7, 9, 12, 26, 2]])


def convert(checkpoint, dictionary, out, *flags):
    words = [checkpoint, "--dictionary", dictionary, "--output-dir", out, *flags]
    return call_program("convert", words)


def converted(checkpoint, dictionary, out, *flags):
    """The model that fairseq loads from the folder."""
    code, text = convert(checkpoint, dictionary, out, *flags)
    assert code == 0, text
    return TupeRobertaModel.from_pretrained(str(out), "model.pt").eval()


# ---- Files of the authors' code ---------------------------------------------------------------


@pytest.fixture
def convert_theirs(tmp_path):
    """Write a state as their file and convert it."""
    (tmp_path / "theirs.txt").write_text("\n".join(WORDS) + "\n")

    def convert_theirs(state, *flags, **save_options):
        torch.save(state, tmp_path / "theirs.pt", **save_options)
        files = tmp_path / "theirs.pt", tmp_path / "theirs.txt", tmp_path / "out"
        return converted(*files, *flags)

    return convert_theirs


def features(encoder, model):
    """What the standalone encoder with these weights gives for the tokens."""
    embeddings = model["decoder.sentence_encoder.embed_tokens.weight"].float()[TOKENS]
    return encoder.eval()(embeddings)


@pytest.mark.parametrize("rel_pos, normalize_before", [(False, False), (True, True)])
def test_converted_model_computes_the_same(rel_pos, normalize_before, convert_theirs):
    state, encoder = their_checkpoint(rel_pos, normalize_before)
    hub = convert_theirs(state)
    expected = features(encoder, state["model"])
    torch.testing.assert_close(hub.extract_features(TOKENS), expected, rtol=0, atol=1e-6)
    dictionary = hub.task.source_dictionary
    assert len(dictionary) == VOCABULARY
    assert dictionary.index("w0") == 7 and dictionary.index("<mask>") == VOCABULARY - 1


def test_a_file_of_the_real_kind(convert_theirs, monkeypatch):
    """Half precision, the format before torch 1.6, an object of a class that no longer exists."""
    state, encoder = their_checkpoint()
    state["model"] = {name: tensor.half() for name, tensor in state["model"].items()}
    with monkeypatch.context() as patch:
        meters = types.ModuleType("fairseq.meters")
        meters.AverageMeter = type("AverageMeter", (), {"__module__": "fairseq.meters"})
        patch.setitem(sys.modules, "fairseq.meters", meters)
        meter = meters.AverageMeter()
        meter.__dict__.update(val=1.0, sum=3.0)
        state["extra_state"]["train_meters"] = collections.OrderedDict(loss=meter)
        hub = convert_theirs(state, _use_new_zipfile_serialization=False)
    expected = features(encoder.half().float(), state["model"])
    torch.testing.assert_close(hub.extract_features(TOKENS), expected, rtol=0, atol=1e-6)
    assert all(p.dtype == torch.float32 for p in hub.model.parameters())


def test_a_fine_tuned_head_with_its_labels_and_without(convert_theirs, tmp_path):
    state, encoder = their_checkpoint(num_classes=2, task="sentence_prediction")
    labels, out = tmp_path / "labels.txt", tmp_path / "out"
    labels.write_text("yes 10\nno 9\nmadeupword0000 0\n")
    hub = convert_theirs(state, "--label-dict", labels)
    assert type(hub.task).__name__ == "SentencePredictionTask"
    assert hub.task.label_dictionary.symbols[4:6] == ["yes", "no"]
    assert (out / "label" / "dict.txt").read_text() == labels.read_text()
    model, head = state["model"], "classification_heads.sentence_classification_head."
    x = features(encoder, model)[:, 0]
    x = torch.tanh(x @ model[head + "dense.weight"].t() + model[head + "dense.bias"])
    expected = x @ model[head + "out_proj.weight"].t() + model[head + "out_proj.bias"]
    actual = hub.predict("sentence_classification_head", TOKENS, return_logits=True)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)

    hub = convert_theirs(state, "--overwrite")
    assert type(hub.task).__name__ == "MaskedLMTask"
    out_proj = hub.model.classification_heads["sentence_classification_head"].out_proj
    assert out_proj.weight.equal(model[head + "out_proj.weight"])


# ---- RoBERTas of fairseq ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def stock(subwords, tmp_path_factory):
    """The folder of a RoBERTa trained for three updates."""
    folder = tmp_path_factory.mktemp("stock")
    flags = ["--arch", "roberta_base", "--task", "masked_lm", "--max-update", 3, *UP_TO_64]
    pretrain(subwords, folder, *flags)
    return folder


@pytest.fixture
def state(stock):
    return torch.load(stock / "checkpoint_last.pt", map_location="cpu", weights_only=False)


def load_stock(folder, dictionary_folder):
    files = str(folder), "checkpoint_last.pt", str(dictionary_folder)
    return RobertaModel.from_pretrained(*files, bpe=None).eval()


def assert_same_model(stock, ours):
    tokens = torch.randint(4, 50, (3, 24))
    tokens[:, 0] = 0
    tokens[1, 9:] = tokens[2, 17:] = stock.task.source_dictionary.pad()
    real = tokens.ne(stock.task.source_dictionary.pad())
    assert stock.task.source_dictionary.symbols == ours.task.source_dictionary.symbols
    with torch.no_grad():
        for features_only in (True, False):
            expected, _ = stock.model(tokens, features_only=features_only)
            found, _ = ours.model(tokens, features_only=features_only)
            torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)


def test_the_converted_model_is_the_stock_one(stock, subwords, tmp_path):
    theirs = load_stock(stock, subwords)
    ours = converted(stock / "checkpoint_last.pt", subwords / "dict.txt", tmp_path / "out")
    assert_same_model(theirs, ours)
    for name in ("dropout", "attention_dropout", "activation_dropout", "activation_fn",
                 "pooler_dropout", "pooler_activation_fn", "max_positions"):  # fmt: skip
        assert getattr(ours.model.args, name) == getattr(theirs.model.args, name), name
    assert ours.model.max_positions() == theirs.model.max_positions() == 64


def test_a_file_as_the_public_releases_are(state, subwords, tmp_path):
    """Half precision, the format before torch 1.6, options in args, names of 2019.

    The file also has the stale copies of weights that fairseq 0.12.2 keeps.
    """
    stale = [f"{name}_{kind}" for name in ("in_proj", "out_proj", "fc1", "fc2")
             for kind in ("weight", "bias")]  # fmt: skip
    layers = "encoder.sentence_encoder.layers."
    model = {f"{layers}{n}.{name}": torch.full((3,), float("nan")) for n in "01" for name in stale}
    for name, tensor in state["model"].items():
        if name.rpartition(".")[2] in stale or name.endswith(".version"):
            continue
        if "q_proj" in name:
            parts = [state["model"][name.replace("q_proj", f"{p}_proj")] for p in "qkv"]
            name, tensor = name.replace("q_proj.", "in_proj_"), torch.cat(parts)
        elif "k_proj" in name or "v_proj" in name:
            continue
        name = name.replace("encoder.", "decoder.", 1)
        model[name.replace("layernorm_embedding", "emb_layer_norm")] = tensor.half()
    kept = ("arch", "max_positions", "encoder_layers", "encoder_embed_dim",
            "encoder_ffn_embed_dim", "encoder_attention_heads")  # fmt: skip
    args = {name: getattr(state["cfg"]["model"], name) for name in kept}
    old = {"args": argparse.Namespace(**args), "model": model, "optimizer_history": [],
           "extra_state": {}, "last_optimizer_state": {}}  # fmt: skip
    torch.save(old, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    files = {"old": tmp_path / "old.pt", "new": tmp_path / "new.pt"}
    torch.save(state, files["new"])
    for name, path in files.items():
        converted(path, subwords / "dict.txt", tmp_path / name)
    found, expected = (
        torch.load(tmp_path / name / "model.pt", weights_only=False) for name in files
    )
    assert vars(found["args"]) == vars(expected["args"])
    assert sorted(found["model"]) == sorted(expected["model"])
    for name, tensor in expected["model"].items():
        rounded = tensor.half().float() if tensor.is_floating_point() else tensor
        assert found["model"][name].equal(rounded), name


def test_a_hydra_run_in_pre_ln(subwords, tmp_path):
    """Its options are a dict, and 0.12.2 leaves max_positions empty there."""
    (tmp_path / "tiny.yaml").write_text(
        "# @package _group_\n"
        "task: {_name: masked_lm, data: '???', tokens_per_sample: 48}\n"
        "criterion: masked_lm\n"
        "dataset: {batch_size: 4, num_workers: 0, disable_validation: true}\n"
        "optimizer: {_name: adam}\n"
        "lr_scheduler: {_name: fixed}\n"
        "optimization: {lr: [0.01], max_update: 2}\n"
        "model: {_name: roberta_prenorm, layernorm_embedding: true, encoder_layers: 2, "
        "encoder_embed_dim: 32, encoder_ffn_embed_dim: 64, encoder_attention_heads: 4}\n"
    )
    run_here("fairseq-hydra-train", "--config-dir", tmp_path, "--config-name", "tiny",
        f"task.data={subwords}", f"checkpoint.save_dir={tmp_path}", f"hydra.run.dir={tmp_path}",
        "common.cpu=true")  # fmt: skip
    checkpoint = tmp_path / "checkpoint_last.pt"
    ours = converted(checkpoint, subwords / "dict.txt", tmp_path / "out")
    theirs = load_stock(tmp_path, subwords)
    assert_same_model(theirs, ours)
    assert ours.model.encoder.sentence_encoder.layer_norm is not None
    table = theirs.model.encoder.sentence_encoder.embed_positions.weight
    assert ours.model.max_positions() == len(table) - 2


def untie(state):
    tensors = state["model"]
    tensors["encoder.lm_head.weight"] = tensors["encoder.lm_head.weight"] + 1


def test_untied_weights_stay_untied(state, subwords, tmp_path):
    untie(state)
    state["cfg"]["model"].untie_weights_roberta = True
    torch.save(state, tmp_path / "checkpoint_last.pt")
    ours = converted(tmp_path / "checkpoint_last.pt", subwords / "dict.txt", tmp_path / "out")
    assert_same_model(load_stock(tmp_path, subwords), ours)


# ---- What is refused --------------------------------------------------------------------------


L1, HEAD = "sentence_encoder.layers.1.", "decoder.lm_head.weight"
REFUSED = {  # the first word of a name: a file of the authors, or of fairseq
    "authors missing": (lambda s: s["model"].pop(f"decoder.{L1}fc1.bias"), "layers.1.fc1.bias"),
    "authors untied": (
        lambda s: s["model"].update({HEAD: torch.zeros(VOCABULARY, 12)}),
        "lm_head.weight are two matrices in the checkpoint and one",
    ),
    "authors option": (lambda s: setattr(s["args"], "encoder_mystery", 3), "encoder_mystery=3"),
    "stock extra": (
        lambda s: s["model"].update({f"encoder.{L1}fc3_weight": torch.zeros(3)}),
        "layers.1.fc3_weight",
    ),
    "stock untied": (untie, "lm_head.weight are two matrices in the checkpoint and one"),
    "stock option": (
        lambda s: setattr(s["cfg"]["model"], "layernorm_embedding", False),
        "layernorm_embedding=False",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_anything_unexpected_is_named_and_nothing_is_written(case, state, subwords, tmp_path):
    change, message = REFUSED[case]
    dictionary = subwords / "dict.txt"
    if case.startswith("authors"):
        state, dictionary = their_checkpoint()[0], tmp_path / "theirs.txt"
        dictionary.write_text("\n".join(WORDS) + "\n")
    change(state)
    torch.save(state, tmp_path / "bad.pt")
    code, text = convert(tmp_path / "bad.pt", dictionary, tmp_path / "out")
    assert code == 2 and message in text.splitlines()[-1] and not (tmp_path / "out").exists()
