"""Options and tensors of an untrusted checkpoint, through every reader of the package."""

import argparse

import pytest
import torch

from helpers.crafted import LINES, OPTIONS, E, folder_with, save, whole_state
from helpers.running import call_program
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.model import Model


def built(folder):
    return Model.read(str(folder / "model.pt"), str(folder / "dict.txt")).encoder


def flags(folder):
    model = Model.read(str(folder / "model.pt"))
    assert model.vocabulary[0] == len(LINES) + 5
    return model.flags()


READERS = {
    "from_pretrained": lambda folder: TupeRobertaModel.from_pretrained(str(folder)),
    "tupe-plot": built,
    "tupe-finetune": flags,
}
EVERY_READER = pytest.mark.parametrize("reader", READERS)


def refused(reader, folder):
    with pytest.raises(CheckpointError) as error:
        READERS[reader](folder)
    message = str(error.value)
    assert str(folder / "model.pt") in message and "\n" not in message and len(message) < 1000
    return message


@pytest.mark.parametrize("form", ["namespace", "args", "hydra"])
def test_what_is_right_is_read(form, tmp_path):
    folder = folder_with(tmp_path, form=form)
    hub = TupeRobertaModel.from_pretrained(str(folder)).eval()
    tokens = torch.tensor([[0, 5, 6, 2]])
    assert hub.extract_features(tokens).isfinite().all()
    model = built(folder)
    expected = hub.model.encoder.sentence_encoder.state_dict()
    assert model.state_dict().keys() == expected.keys()
    assert all(tensor.equal(expected[name]) for name, tensor in model.state_dict().items())
    assert {"--arch=tupe_roberta_tiny", "--encoder-layers=2"} < {*flags(folder)}
    folder = folder_with(tmp_path, form=form, tokens_per_sample=None, dropout=None)
    hub = TupeRobertaModel.from_pretrained(str(folder))
    assert (hub.task.cfg.tokens_per_sample, hub.model.args.dropout) == (16, 0.1)


NEVER = [
    "--user-dir=/evil", "-h", ["--user-dir=x"], {"a": 1}, ("x",), float("nan"), "${env:HOME}",
]  # fmt: skip
BAD = [
    *((name, value) for name in ("arch", "encoder_layers") for value in NEVER),
    *((name, value) for name in OPTIONS if name != "criterion" for value in NEVER[2:4]),
    *(
        (name, value)
        for name in ("encoder_layers", "encoder_attention_heads", "max_positions")
        for value in (10**6, 0, -1, 2**80, "8", 2.0, 2.5, True, b"8")
    ),
    ("encoder_layers", 3), ("encoder_embed_dim", 16), ("encoder_ffn_embed_dim", 13),
    ("encoder_attention_heads", 3), ("encoder_attention_heads", 16),
    ("activation_fn", "sin"), ("activation_fn", "gelu "), ("pooler_activation_fn", "__import__"),
    ("position_encoding", "unknown"), ("rel_pos", 1), ("rel_pos_buckets", "8"),
    ("rel_pos_buckets", 10**9), ("max_rel_pos", 10**9), ("dropout", 2), ("dropout", "0.1"),
    ("arch", "roberta_base"), ("arch", "fconv"), ("arch", "tupe_robertas"), ("arch", None),
    ("arch", "tupe_roberta_tiny\n"),
]  # fmt: skip


@EVERY_READER
def test_options_of_a_wrong_kind_or_size(reader, tmp_path):
    """All in one test: there are hundreds of cases, of about a millisecond each."""
    folder, state = folder_with(tmp_path), whole_state()
    for name, value in BAD:
        save(state, folder / "model.pt", **{name: value})
        refused(reader, folder)
    for name in ("encoder_layers", "encoder_embed_dim", "encoder_attention_heads"):
        assert name in refused(reader, folder_with(tmp_path, **{name: None}))


@EVERY_READER
def test_other_models_and_tasks_are_not_built(reader, tmp_path):
    code = "__import__('os').abort()"
    for form, options in [
        ("namespace", {"task": "translation"}), ("hydra", {"task": "audio_finetuning"}),
        # code in the options of fairseq's own models
        ("namespace", {"arch": "fconv_wmt_en_de", "encoder_layers": code}),
        ("hydra", {"arch": "wav2vec2", "conv_feature_layers": code}),
        ("args", {"arch": "lightconv", "encoder_kernel_size_list": code}),
        # an unregistered architecture with a name like ours
        ("namespace", {"arch": "tupe_roberta_fconv"}),
    ]:  # fmt: skip
        folder = folder_with(tmp_path, form=form, **options)
        if reader == "tupe-plot" and options.get("arch", "").startswith("tupe_roberta"):
            built(folder)  # it does not build by this name
        else:
            refused(reader, folder)


def test_options_that_are_not_used(tmp_path):
    """They are neither imported nor evaluated, although fairseq does so elsewhere."""
    package = tmp_path / "evil"
    package.mkdir()
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    (package / "__init__.py").write_text(code)
    options = dict.fromkeys(("lr", "adam_betas", "update_freq", "tokenizer", "bpe"), code)
    folder = folder_with(tmp_path / "model", form="args", **options, user_dir=str(package))
    hub = TupeRobertaModel.from_pretrained(str(folder))
    assert not (tmp_path / "ran").exists() and hub.bpe is None
    assert not any("evil" in flag for flag in flags(folder))
    # the user may set options that are ignored in the file
    folder = folder_with(tmp_path, attn_impl="no such", task="translation")
    for given, attn_impl in (({}, "auto"), ({"attn_impl": "eager"}, "eager")):
        hub = TupeRobertaModel.from_pretrained(str(folder), task="masked_lm", **given)
        assert hub.model.encoder.sentence_encoder.config.attn_impl == attn_impl


FC1 = E + "layers.0.fc1.weight"
VERSION, WORDS = "encoder.vocabulary_version", E + "embed_tokens.weight"
TENSORS = {  # changes to the state dict
    "nan": lambda m: m[FC1].view(-1)[3:4].fill_(float("nan")),
    "infinity": lambda m: m["encoder.lm_head.bias"][:1].fill_(float("-inf")),
    "integers": lambda m: m.update({FC1: m[FC1].long()}),
    "complex": lambda m: m.update({FC1: torch.complex(m[FC1], m[FC1])}),
    "empty": lambda m: m.update({FC1: torch.ones(2**28, 0)}),
    "a_scalar": lambda m: m.update({FC1: torch.tensor(1.0)}),
    "no_tensor": lambda m: m.update({FC1: [1.0]}),
    "a_numbered_tensor": lambda m: m.update({7: torch.ones(3)}),
    "two_vocabularies": lambda m: m.update({VERSION: torch.tensor([1, 2])}),
    "no_embedding": lambda m: m.pop(WORDS),
    "a_flat_embedding": lambda m: m.update({WORDS: torch.ones(9)}),
    "a_third_layer": lambda m: m.update({FC1.replace(".0.", ".2."): torch.ones(12, 8)}),
    "no_layers": lambda m: [m.pop(name) for name in list(m) if ".layers." in name],
}


@EVERY_READER
def test_tensors_that_are_no_weights(reader, tmp_path):
    folder = folder_with(tmp_path)
    for name, change in TENSORS.items():
        state = whole_state()
        change(state["model"])
        save(state, folder / "model.pt")
        message = refused(reader, folder)
        assert FC1 in message or name not in ("nan", "integers", "no_tensor")
    for model in ([1], None):
        save({**whole_state(), "model": model}, folder / "model.pt")
        refused(reader, folder)


@pytest.mark.parametrize("reader", ["from_pretrained", "tupe-plot"])
def test_records_and_names_that_are_none_of_ours(reader, tmp_path):
    """For unknown names, torch's message has many lines, and not the name of the file."""
    folder, state = folder_with(tmp_path), whole_state()
    for content in (b"[]", b"3", b"null", b"{", b"[" * 500, b"\xff\xfe", b'{"scheme": []}'):
        state["model"][E + "position_version"] = torch.tensor(list(content))
        save(state, folder / "model.pt")
        with pytest.raises(ValueError):  # a CheckpointError is a ValueError
            READERS[reader](folder)
    state = whole_state()
    state["model"][E + "more"] = torch.ones(3)
    save(state, folder / "model.pt")
    assert "Unexpected key(s) in state_dict" in refused(reader, folder)
    state = whole_state()
    del state["model"][E + "layers.1.fc2.bias"]
    save(state, folder / "model.pt")
    assert "layers.1.fc2.bias" in refused(reader, folder)


def their_state(arch):
    """A foreign checkpoint with few tensors; its options are looked at first."""
    options = {**OPTIONS, "arch": arch, "embedding_normalize": True, "tokens_per_sample": 16}
    options = {name: value for name, value in options.items() if "pos" not in name}
    model = {"decoder.sentence_encoder.embed_tokens.weight": torch.ones(len(LINES) + 5, 8)}
    return {"args": argparse.Namespace(**options), "model": model}


@pytest.mark.parametrize("arch", ["bert_base", "roberta_base"])
def test_conversion(arch, tmp_path):
    (tmp_path / "dict.txt").write_text("\n".join(LINES[: 4 if arch == "bert_base" else 7]) + "\n")
    head = "classification_heads.out_proj.bias"
    changes = [
        lambda state: vars(state["args"]).update({3: 4}),
        lambda state: state.update(model={"a": [1]}),
        lambda state: state.update(model={3: torch.ones(3)}),
        lambda state: state["model"].update(a=torch.ones(3, dtype=torch.int32)),
        lambda state: state["model"].update({head: torch.ones(2)}),
        lambda state: next(iter(state["model"].values())).fill_(float("nan")),
    ]
    for name, value in BAD:  # position options are not taken from a foreign file
        taken = "pos" not in name and name not in ("arch", "task", "tokens_per_sample", "tie_cls")
        if taken and name != "attn_impl" and not isinstance(value, (dict, tuple)):
            changes.append(lambda state, n=name, v=value: setattr(state["args"], n, v))
    for change in changes:
        state = their_state(arch)
        change(state)
        torch.save(state, tmp_path / "a.pt")
        words = [tmp_path / "a.pt", "--dictionary", tmp_path / "dict.txt"]
        code, output = call_program("convert", [*words, "--output-dir", tmp_path / "out"])
        assert code == 2 and output.count("\n") == 1 and "a.pt" in output, output
    assert not (tmp_path / "out").exists()
