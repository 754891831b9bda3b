"""tupe-convert on files as the authors' code wrote them."""

import collections
import sys
import types

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.authors import CODES, SIZES, VOCABULARY, WORDS, their_checkpoint, their_names
from helpers.running import USER_DIR, call_program
from helpers.training import PRETRAINING, TRAINING
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.from_authors import our_tensor_name


@pytest.fixture
def convert(run, tmp_path):
    """Write a state as a file and run the command on it: (process, output folder)."""

    def convert(state, *flags, words=WORDS, **save_options):
        torch.save(state, tmp_path / "theirs.pt", **save_options)
        (tmp_path / "theirs.txt").write_text("\n".join(words) + "\n")
        out = tmp_path / "out"
        command = [
            "--checkpoint", tmp_path / "theirs.pt", "--dict", tmp_path / "theirs.txt",
            "--output-dir", out, *flags,
        ]  # fmt: skip
        return run("tupe-convert", *command), out

    return convert


@pytest.fixture
def refusal(tmp_path):
    """The one line with which the command, called in this process, ends on a bad state."""

    def refusal(state, *flags, words=WORDS):
        if state is not None:
            torch.save(state, tmp_path / "theirs.pt")
        (tmp_path / "theirs.txt").write_text("\n".join(words) + "\n")
        command = [
            "--checkpoint", tmp_path / "theirs.pt", "--dict", tmp_path / "theirs.txt",
            "--output-dir", tmp_path / "out", *flags,
        ]  # fmt: skip
        code, text = call_program("convert", command)
        assert code == 2
        *_, line = text.splitlines()
        assert line.startswith("tupe-convert: error: ")
        return line

    return refusal


def load(out, **kwargs):
    return RobertaModel.from_pretrained(
        str(out), "model.pt", user_dir=USER_DIR, bpe=None, **kwargs
    ).eval()


def features(encoder, model, tokens):
    """What the standalone encoder with these weights gives for the tokens."""
    embeddings = model["decoder.sentence_encoder.embed_tokens.weight"].float()[tokens]
    return encoder.eval()(embeddings)


@pytest.mark.parametrize("rel_pos", [False, True], ids=["tupe_a", "tupe_r"])
@pytest.mark.parametrize("normalize_before", [False, True], ids=["post_ln", "pre_ln"])
def test_converted_model_computes_the_same(rel_pos, normalize_before, convert):
    state, encoder = their_checkpoint(rel_pos, normalize_before)
    _, out = convert(state)
    hub = load(out)
    tokens = torch.tensor([[0, 7, 9, 12, 26, 2]])
    expected = features(encoder, state["model"], tokens)
    torch.testing.assert_close(hub.extract_features(tokens), expected, rtol=0, atol=1e-6)
    assert (hub.model.encoder.sentence_encoder.layer_norm is not None) == normalize_before
    dictionary = hub.task.source_dictionary
    assert len(dictionary) == VOCABULARY
    assert dictionary.index("w0") == 7 and dictionary.index("<mask>") == VOCABULARY - 1


def test_a_file_of_the_real_kind(convert):
    """Half precision, the format before torch 1.6, objects of classes that exist nowhere."""
    state, encoder = their_checkpoint()
    state["model"] = {name: tensor.half() for name, tensor in state["model"].items()}
    meters = types.ModuleType("fairseq.meters")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter"):
        meter = type(name, (), {"__module__": "fairseq.meters", "__qualname__": name})
        setattr(meters, name, meter)
    made = [getattr(meters, name)() for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")]
    for meter in made:
        meter.__dict__.update(val=1.0, sum=3.0)
    state["extra_state"]["train_meters"] = collections.OrderedDict(zip("abc", made))
    sys.modules["fairseq.meters"] = meters
    try:
        process, out = convert(state, _use_new_zipfile_serialization=False)
    finally:
        del sys.modules["fairseq.meters"]
    assert "left out the training state" in process.stdout
    hub = load(out)
    tokens = torch.tensor([[0, 7, 9, 12, 26, 2]])
    encoder.half().float()
    expected = features(encoder, state["model"], tokens)
    torch.testing.assert_close(hub.extract_features(tokens), expected, rtol=0, atol=1e-6)
    assert all(p.dtype == torch.float32 for p in hub.model.parameters())


def test_training_continues_without_reset_flags(convert, run, tmp_path):
    state, _ = their_checkpoint(rel_pos_bins=16, max_rel_pos=64)
    state["model"]["decoder.sentence_encoder.relative_attention_bias.weight"] = torch.randn(17, 3)
    _, out = convert(state)
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


def test_fine_tuned_head_with_its_labels(convert, run, tmp_path):
    state, encoder = their_checkpoint(num_classes=2, task="sentence_prediction")
    labels = tmp_path / "labels.txt"
    labels.write_text("yes 10\nno 9\nmadeupword0000 0\n")
    codes = tmp_path / "codes"
    codes.write_text(CODES)
    _, out = convert(state, "--label-dict", labels, "--bpe-codes", codes)
    hub = load(out)
    assert type(hub.task).__name__ == "SentencePredictionTask"
    assert hub.task.label_dictionary.symbols[4:6] == ["yes", "no"]
    assert (out / "label" / "dict.txt").read_text() == labels.read_text()
    assert (out / "bpecodes").read_text() == codes.read_text()
    tokens = torch.tensor([[0, 7, 9, 12, 26, 2]])
    model = state["model"]
    head = "classification_heads.sentence_classification_head."
    x = features(encoder, model, tokens)[:, 0]
    x = torch.tanh(x @ model[head + "dense.weight"].t() + model[head + "dense.bias"])
    expected = x @ model[head + "out_proj.weight"].t() + model[head + "out_proj.bias"]
    actual = hub.predict("sentence_classification_head", tokens, return_logits=True)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)

    for key, lines in (("input0", "w1 w2 w3\nw3 w2 w1\n"), ("label", "yes\nno\n")):
        (tmp_path / key).write_text(lines * 8)
        run("fairseq-preprocess", "--only-source", "--srcdict", out / key / "dict.txt",
            "--trainpref", tmp_path / key, "--validpref", tmp_path / key, "--workers", 1,
            "--destdir", tmp_path / "bin" / key)  # fmt: skip
    sizes = [w for k, v in SIZES.items() for w in ("--" + k.replace("_", "-"), v)]
    process = run(
        "fairseq-train", tmp_path / "bin", *TRAINING, *sizes, "--rel-pos", "--task",
        "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", 2,
        "--init-token", 0, "--separator-token", 2, "--restore-file", out / "model.pt",
        "--batch-size", 4, "--max-update", 2, "--save-dir", tmp_path / "run",
    )  # fmt: skip
    assert "(epoch 1 @ 0 updates)" in process.stdout and "done training" in process.stdout


def test_a_head_without_label_dict_is_kept(convert):
    state, _ = their_checkpoint(num_classes=3, task="sentence_prediction")
    _, out = convert(state)
    hub = load(out)
    assert type(hub.task).__name__ == "MaskedLMTask"
    head = hub.model.classification_heads["sentence_classification_head"]
    name = "classification_heads.sentence_classification_head.out_proj.weight"
    assert head.out_proj.weight.equal(state["model"][name])


def drop(state):
    del state["model"]["decoder.sentence_encoder.layers.1.fc1.bias"]


def add(state):
    state["model"]["decoder.sentence_encoder.segment_embeddings.weight"] = torch.zeros(2, 12)


def reshape(state):
    state["model"]["decoder.sentence_encoder.pos.weight"] = torch.zeros(33, 12)


def untie(state):
    state["model"]["decoder.lm_head.weight"] = torch.zeros(VOCABULARY, 12)


def half_a_head(state):
    state["model"]["classification_heads.mnli.out_proj.bias"] = torch.zeros(3)


@pytest.mark.parametrize(
    "change, message",
    [
        (drop, 'Missing key(s) in state_dict: "encoder.sentence_encoder.layers.1.fc1.bias'),
        (add, 'Unexpected key(s) in state_dict: "encoder.sentence_encoder.segment_emb'),
        (reshape, "param with shape torch.Size([33, 12]) from checkpoint"),
        (untie, "lm_head.weight is not the word embedding"),
        (half_a_head, '"classification_heads.mnli.dense.bias"'),
        (lambda s: setattr(s["args"], "arch", "transformer"), "arch is transformer, neither"),
        (lambda s: setattr(s["args"], "embedding_normalize", False), "embedding_normalize=False"),
        (lambda s: setattr(s["args"], "encoder_mystery", 3), "encoder_mystery=3"),
        (lambda s: s.update(args=None), "holds no options"),
        (lambda s: s.pop("model"), "holds no model"),
    ],
    ids=["missing", "extra", "shape", "untied", "half_a_head", "arch", "no_embedding_norm",
         "unknown_option", "no_args", "no_model"],
)  # fmt: skip
def test_anything_unexpected_is_listed_and_nothing_is_written(change, message, refusal, tmp_path):
    state, _ = their_checkpoint()
    change(state)
    assert message in refusal(state)
    assert not (tmp_path / "out").exists()


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
def test_a_dictionary_that_is_not_its_own(words, message, refusal, tmp_path):
    assert message in refusal(their_checkpoint()[0], words=words)
    assert not (tmp_path / "out").exists()


def test_labels_without_head_or_too_few(refusal, tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("yes 10\n")
    line = refusal(their_checkpoint()[0], "--label-dict", labels)
    assert "no classification head 'sentence_classification_head'" in line
    state, _ = their_checkpoint(num_classes=2)
    line = refusal(state, "--label-dict", labels)
    assert "lists 1 labels, but head 'sentence_classification_head' has 2" in line


def test_files_that_are_not_checkpoints(refusal, tmp_path):
    theirs = tmp_path / "theirs.pt"
    assert f"--checkpoint: {theirs} does not exist" in refusal(None)
    torch.save(their_checkpoint()[0], theirs)
    content = theirs.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"no checkpoint"):
        theirs.write_bytes(damaged)
        assert "theirs.pt is truncated, damaged or not a checkpoint" in refusal(None)
    assert "holds a list, not a checkpoint" in refusal([1, 2])
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(theirs))
    assert "it asks for __torch__." in refusal(None)


def test_an_earlier_result_is_not_overwritten_unasked(convert, refusal):
    _, out = convert(their_checkpoint()[0])
    before = (out / "model.pt").read_bytes()
    line = refusal(their_checkpoint()[0])
    assert "already holds model.pt, dict.txt; give another --output-dir, or" in line
    assert (out / "model.pt").read_bytes() == before
    convert(their_checkpoint()[0], "--overwrite")
    assert (out / "model.pt").read_bytes() != before


def test_help_shows_an_example(run):
    assert "example: tupe-convert --checkpoint" in run("tupe-convert", "--help").stdout


def test_names_cover_every_tensor():
    """The table of names, forwards and backwards, meets the encoder's own names."""
    encoder = TupeEncoder(TupeConfig(rel_pos=True, normalize_before=True))
    ours = {our_tensor_name(name) for name in their_names(encoder)}
    expected = {"encoder.sentence_encoder." + name for name in encoder.state_dict()}
    assert ours == expected - {"encoder.sentence_encoder.position_version"}
