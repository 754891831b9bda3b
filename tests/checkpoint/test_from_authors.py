"""tupe-convert on files as the authors' code wrote them."""

import collections
import sys
import types

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.authors import CODES, SIZES, VOCABULARY, WORDS, their_checkpoint, their_names
from helpers.running import USER_DIR, call_program
from helpers.training import PRETRAINING
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.from_authors import our_tensor_name

TOKENS = torch.tensor([[0, 7, 9, 12, 26, 2]])


@pytest.fixture
def convert(tmp_path):
    """Write a state as a file and run the command on it: exit code, what it said, and OUT."""

    def convert(state, *flags, words=WORDS, **save_options):
        if state is not None:
            torch.save(state, tmp_path / "theirs.pt", **save_options)
        (tmp_path / "theirs.txt").write_text("\n".join(words) + "\n")
        words = ["--checkpoint", tmp_path / "theirs.pt", "--dict", tmp_path / "theirs.txt"]
        out = tmp_path / "out"
        return *call_program("convert", [*words, "--output-dir", out, *flags]), out

    return convert


def load(out):
    return RobertaModel.from_pretrained(str(out), "model.pt", user_dir=USER_DIR, bpe=None).eval()


def features(encoder, model):
    """What the standalone encoder with these weights gives for the tokens."""
    embeddings = model["decoder.sentence_encoder.embed_tokens.weight"].float()[TOKENS]
    return encoder.eval()(embeddings)


@pytest.mark.parametrize(
    "rel_pos, normalize_before", [(False, False), (True, True)], ids=["post_ln-tupe_a", "pre_ln"]
)
def test_converted_model_computes_the_same(rel_pos, normalize_before, convert):
    state, encoder = their_checkpoint(rel_pos, normalize_before)
    code, text, out = convert(state)
    assert code == 0, text
    hub = load(out)
    expected = features(encoder, state["model"])
    torch.testing.assert_close(hub.extract_features(TOKENS), expected, rtol=0, atol=1e-6)
    dictionary = hub.task.source_dictionary
    assert len(dictionary) == VOCABULARY
    assert dictionary.index("w0") == 7 and dictionary.index("<mask>") == VOCABULARY - 1


def test_a_file_of_the_real_kind(convert):
    """Half precision, the format before torch 1.6, objects of classes that exist nowhere."""
    state, encoder = their_checkpoint()
    state["model"] = {name: tensor.half() for name, tensor in state["model"].items()}
    meters = types.ModuleType("fairseq.meters")
    names = ("AverageMeter", "TimeMeter", "StopwatchMeter")
    for name in names:
        setattr(meters, name, type(name, (), {"__module__": "fairseq.meters"}))
    made = [getattr(meters, name)() for name in names]
    for meter in made:
        meter.__dict__.update(val=1.0, sum=3.0)
    state["extra_state"]["train_meters"] = collections.OrderedDict(zip("abc", made))
    sys.modules["fairseq.meters"] = meters
    try:
        code, text, out = convert(state, _use_new_zipfile_serialization=False)
    finally:
        del sys.modules["fairseq.meters"]
    assert code == 0 and "left out the training state" in text
    hub = load(out)
    encoder.half().float()
    expected = features(encoder, state["model"])
    torch.testing.assert_close(hub.extract_features(TOKENS), expected, rtol=0, atol=1e-6)
    assert all(p.dtype == torch.float32 for p in hub.model.parameters())


def test_training_continues_without_reset_flags(convert, run, tmp_path):
    state, _ = their_checkpoint(rel_pos_bins=16, max_rel_pos=64)
    state["model"]["decoder.sentence_encoder.relative_attention_bias.weight"] = torch.randn(17, 3)
    out = convert(state)[-1]
    (tmp_path / "text").write_text("w1 w2 w3 w4 w5\nw3 w2 w1\n" * 8)
    run("fairseq-preprocess", "--only-source", "--srcdict", out / "dict.txt", "--workers", 1,
        "--trainpref", tmp_path / "text", "--validpref", tmp_path / "text",
        "--destdir", tmp_path / "bin")  # fmt: skip
    sizes = [w for k, v in SIZES.items() for w in ("--" + k.replace("_", "-"), v)]
    process = run(
        "fairseq-train", tmp_path / "bin", *PRETRAINING, *sizes, "--tokens-per-sample", 16,
        "--rel-pos", "--rel-pos-buckets", 16, "--max-rel-pos", 64, "--max-update", 2,
        "--restore-file", out / "model.pt", "--save-dir", tmp_path / "run",
    )  # fmt: skip
    assert "(epoch 1 @ 0 updates)" in process.stdout and "done training" in process.stdout


def test_a_fine_tuned_head_with_its_labels_and_without(convert, tmp_path):
    state, encoder = their_checkpoint(num_classes=2, task="sentence_prediction")
    labels, codes = tmp_path / "labels.txt", tmp_path / "codes"
    labels.write_text("yes 10\nno 9\nmadeupword0000 0\n")
    codes.write_text(CODES)
    code, text, out = convert(state, "--label-dict", labels, "--bpe-codes", codes)
    assert code == 0, text
    hub = load(out)
    assert type(hub.task).__name__ == "SentencePredictionTask"
    assert hub.task.label_dictionary.symbols[4:6] == ["yes", "no"]
    assert (out / "label" / "dict.txt").read_text() == labels.read_text()
    assert (out / "bpecodes").read_text() == codes.read_text()
    model, head = state["model"], "classification_heads.sentence_classification_head."
    x = features(encoder, model)[:, 0]
    x = torch.tanh(x @ model[head + "dense.weight"].t() + model[head + "dense.bias"])
    expected = x @ model[head + "out_proj.weight"].t() + model[head + "out_proj.bias"]
    actual = hub.predict("sentence_classification_head", TOKENS, return_logits=True)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)

    out = convert(state, "--overwrite")[-1]
    hub = load(out)
    assert type(hub.task).__name__ == "MaskedLMTask"
    head = hub.model.classification_heads["sentence_classification_head"]
    assert head.out_proj.weight.equal(
        model["classification_heads.sentence_classification_head.out_proj.weight"]
    )


THEIRS = "decoder.sentence_encoder."


def tensor(name, value):
    """A change of a tensor; None drops it."""
    return lambda state: state["model"].update({name: value}) if value is not None else (
        state["model"].pop(name)
    )  # fmt: skip


def option(name, value):
    return lambda state: setattr(state["args"], name, value)


REFUSED = {
    "missing": (
        tensor(THEIRS + "layers.1.fc1.bias", None),
        'Missing key(s) in state_dict: "encoder.sentence_encoder.layers.1.fc1.bias',
    ),
    "extra": (
        tensor(THEIRS + "segment_embeddings.weight", torch.zeros(2, 12)),
        'Unexpected key(s) in state_dict: "encoder.sentence_encoder.segment_embeddings',
    ),
    "shape": (tensor(THEIRS + "pos.weight", torch.zeros(33, 12)), "torch.Size([33, 12]) from che"),
    "untied": (
        tensor("decoder.lm_head.weight", torch.zeros(VOCABULARY, 12)),
        "lm_head.weight is not the word embedding",
    ),
    "half_a_head": (
        tensor("classification_heads.mnli.out_proj.bias", torch.zeros(3)),
        '"classification_heads.mnli.dense.bias"',
    ),
    "arch": (option("arch", "transformer"), "arch is transformer, neither"),
    "no_embedding_norm": (option("embedding_normalize", False), "embedding_normalize=False"),
    "unknown_option": (option("encoder_mystery", 3), "encoder_mystery=3"),
    "no_args": (lambda state: state.update(args=None), "holds no options"),
    "no_model": (lambda state: state.pop("model"), "holds no model"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_anything_unexpected_is_named_and_nothing_is_written(case, convert):
    change, message = REFUSED[case]
    state, _ = their_checkpoint()
    change(state)
    code, text, out = convert(state)
    assert code == 2 and message in text.splitlines()[-1] and not out.exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (WORDS[:-1], f"word embedding has {VOCABULARY} rows, but"),
        (["<file> 3", *WORDS[1:]], "lists <file>, which the authors' code has of itself"),
        ([WORDS[1], *WORDS[1:]], "lists 'w1' twice"),
        (["w0", *WORDS[1:]], "line 1: 'w0' is not a word and its count"),
    ],
    ids=["size", "hidden_symbol", "twice", "format"],
)
def test_a_dictionary_that_is_not_its_own(words, message, convert):
    code, text, out = convert(their_checkpoint()[0], words=words)
    assert code == 2 and message in text and not out.exists()


def test_labels_without_head_or_too_few(convert, tmp_path):
    (tmp_path / "labels.txt").write_text("yes 10\n")
    flags = ["--label-dict", tmp_path / "labels.txt"]
    text = convert(their_checkpoint()[0], *flags)[1]
    assert "no classification head 'sentence_classification_head'" in text
    text = convert(their_checkpoint(num_classes=2)[0], *flags)[1]
    assert "lists 1 labels, but head 'sentence_classification_head' has 2" in text


def test_names_cover_every_tensor():
    """The table of names, forwards and backwards, meets the encoder's own names."""
    encoder = TupeEncoder(TupeConfig(rel_pos=True, normalize_before=True))
    ours = {our_tensor_name(name) for name in their_names(encoder)}
    expected = {"encoder.sentence_encoder." + name for name in encoder.state_dict()}
    assert ours == expected - {"encoder.sentence_encoder.position_version"}
