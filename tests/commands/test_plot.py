"""tupe-plot on trained checkpoints, and what it refuses."""

import argparse
import json
import os
import shutil

import pytest
import sentencepiece
import torch
from matplotlib.image import imread

from helpers.running import call_program
from helpers.training import pretrain
from tupe_fairseq.commands.plot import FIGURES, get_parser, main
from tupe_fairseq.inference.plot_subjects import labels, load_subjects

SENTENCE = "The value of the expression is an object."


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A folder for each of two schemes, with its checkpoint.pt."""
    folder = tmp_path_factory.mktemp("trained")
    for name, flags in {
        "tupe-r": ["--rel-pos"],
        "bert": ["--position-encoding", "learned"],
    }.items():
        pretrain(data, folder / name, *flags, "--max-update", 3, "--no-save-optimizer-state")
        (folder / name / "checkpoint_last.pt").rename(folder / name / "checkpoint.pt")
    return folder


def plot(*words):
    return call_program(main, words)


def assert_is_a_picture(path):
    image = imread(path)[..., :3]
    assert 200 < min(image.shape[:2]) and max(image.shape[:2]) < 5000
    # on white paper, a good deal of ink
    assert image.std() > 0.05


def test_two_models_together(trained, data, tmp_path):
    tmp_path.joinpath("cls.png").write_text("of an earlier run")
    tmp_path.joinpath("notes.txt").write_text("mine")
    code, log = plot(
        trained / "tupe-r" / "checkpoint.pt", trained / "bert" / "checkpoint.pt",
        "--data", data, "--output-dir", tmp_path, "--sentence", SENTENCE + " It costs $5 or $6.",
        "--dpi", 60,
    )  # fmt: skip
    assert code == 0, log
    names = {f"{figure}.png" for figure in FIGURES}
    assert {path.name for path in tmp_path.iterdir()} == names | {"notes.txt"}
    for name in names:
        assert_is_a_picture(tmp_path / name)
    assert "position_bias.png: skipped for bert: position encoding 'learned' adds positions" in log
    assert "correlations.png: skipped for tupe-r: position encoding 'tupe' adds nothing" in log
    assert "cls.png: one part is skipped for bert: [CLS] is an ordinary position" in log
    assert "sequences of 64 tokens" in log


@pytest.fixture
def alone(trained, data, tmp_path):
    """A checkpoint as a user passes it on, with dict.txt and the SentencePiece model."""
    shutil.copy(trained / "tupe-r" / "checkpoint.pt", tmp_path)
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(data / name, tmp_path)
    return tmp_path


def test_a_folder_without_text(alone):
    code, log = plot(alone / "checkpoint.pt", "--output-dir", alone / "out", "--heads", "3,1")
    assert code == 0, log
    written = {path.name for path in (alone / "out").iterdir()}
    assert written == {"position_bias.png", "profile_by_distance.png", "cls.png"}
    assert "variance.png: skipped for" in log and "give --sentences" in log
    assert "attention.png: skipped for" in log and "give --sentence or --sentences" in log


def test_own_sentences(alone, text):
    code, log = plot(
        alone / "checkpoint.pt", "--output-dir", alone / "out", "--length", 20, "--sentences",
        text / "valid.txt", "--heads", 0, "--dpi", 50,
    )  # fmt: skip
    assert code == 0, log
    assert "sequences of 20 tokens of text" in log
    assert {"variance.png", "attention.png"} <= {path.name for path in (alone / "out").iterdir()}
    (alone / "one.txt").write_text(SENTENCE + "\n")
    code, log = plot(
        alone / "checkpoint.pt", "--output-dir", alone / "one", "--length", 20, "--sentences",
        alone / "one.txt", "--heads", 0, "--dpi", 50,
    )  # fmt: skip
    assert code == 0 and "the text is too short for means over many sequences" in log
    assert "attention.png" in {path.name for path in (alone / "one").iterdir()}


def test_the_same_twice_is_the_same_file(alone):
    contents = []
    for _ in range(2):
        words = ["--output-dir", alone / "out", "--length", 9, "--heads", 0, "--dpi", 40]
        assert plot(alone / "checkpoint.pt", *words)[0] == 0
        contents.append((alone / "out" / "position_bias.png").read_bytes())
    assert contents[0] == contents[1]
    # nothing half written
    assert all(name.endswith(".png") for name in os.listdir(alone / "out"))


@pytest.mark.parametrize(
    "words, message",
    [
        (["--length", 65], r"--length (65) is not in 2 .. 64, max_positions of"),
        (["--length", 1], "--length (1) must be at least 2"),
        (["--heads", "0,4"], "--heads contains 4, but"),
        (["--heads", "a"], "--heads (a) must be comma-separated numbers, such as 0,1,3"),
        (["--dpi", 2], "--dpi (2) must be at least 10 and at most 1200"),
        (["--sentences", "absent.txt"], "absent.txt"),
        (
            ["--sentences", "{folder}/empty.txt"],
            "empty.txt is empty; it needs one sentence per line",
        ),
        (["--sentences", "{folder}/checkpoint.pt"], "is not a text file in UTF-8"),
        (["--sentence", "a " * 70], "tokens, but max_positions of"),
        (["--sentencepiece-model", "m"], "give one of them"),
        (
            ["--sentence", "a", "--sentencepiece-model", "m"],
            "--sentencepiece-model m does not exist",
        ),
        (["--sentence", "a", "--sentencepiece-model", "{folder}/dict.txt"], "is not a Sentence"),
        (["--data", "{folder}/nowhere"], "/nowhere is not a folder"),
        (["{folder}/checkpoint.pt"], "a checkpoint is listed twice"),
        (["{folder}/absent.pt"], "absent.pt does not exist; give a checkpoint"),
        (["{folder}/dict.txt"], "dict.txt is truncated, damaged or not a checkpoint"),
        (["{folder}/stock.pt"], "is a checkpoint of roberta_base, not of tupe_roberta; conv"),
        (["{folder}/evil.pt"], "evil.pt is refused: it asks for posix.system"),
    ],
    ids=lambda x: None if isinstance(x, str) else " ".join(map(str, x))[:40],
)
def test_refused(words, message, alone):
    (alone / "empty.txt").write_text("\n\n")
    stock = {"args": argparse.Namespace(arch="roberta_base"), "model": {}}
    torch.save(stock, alone / "stock.pt")
    torch.save({**stock, "extra_state": Evil(alone / "marker")}, alone / "evil.pt")
    words = [str(word).replace("{folder}", str(alone)) for word in words]
    code, log = plot(alone / "checkpoint.pt", *words, "--output-dir", alone / "out")
    assert code == 2 and message in log.splitlines()[-1]
    assert not (alone / "out").exists() and not (alone / "marker").exists()


class Evil:
    """Touches a file when unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_another_vocabulary_is_refused(alone):
    lines = (alone / "dict.txt").read_text().splitlines()
    (alone / "dict.txt").write_text("\n".join(reversed(lines)) + "\n")
    code, log = plot(alone / "checkpoint.pt", "--output-dir", alone / "out")
    assert code == 2 and "trained with a different vocabulary" in log.splitlines()[-1]


def test_text_needs_a_sentencepiece_model(alone):
    (alone / "sentencepiece.bpe.model").unlink()
    code, log = plot(alone / "checkpoint.pt", "--output-dir", alone / "out", "--sentence", "a")
    assert code == 2 and "sentencepiece.bpe.model are missing" in log.splitlines()[-1]


def test_where_nothing_can_be_written_no_model_is_loaded(tmp_path):
    (tmp_path / "file").touch()
    code, log = plot(tmp_path / "absent.pt", "--output-dir", tmp_path / "file" / "out")
    assert code == 2 and log.splitlines()[-1].endswith(f"{tmp_path / 'file'} is not a folder")


def test_labels_are_short_and_differ():
    assert labels(["runs/a/last.pt", "runs/b/last.pt"]) == ["a", "b"]
    assert labels(["runs/a/one.pt", "runs/a/two.pt"]) == ["one", "two"]
    assert labels(["a/x.pt", "a/y.pt", "b/x.pt"]) == ["a/x", "a/y", "b/x"]


# what is given, and what of the figures' subject is then so, and otherwise
FLAGS = {
    "--length": (["--length", 20], lambda s: (s.length, s.blocks.size(1)), (20, 20), (64, 64)),
    "--heads": (["--heads", "3,1"], lambda s: s.heads, (1, 3), (0, 1, 2, 3)),
    "--sentence": (
        ["--sentence", "of the"],
        lambda s: "".join(s.pieces).replace("\u2581", " "), "<s> of the</s>", None,
    ),
    "--sentences": (
        ["--sentences", "{folder}/mine.txt"],
        lambda s: "".join(s.pieces), "<s>\u2581is\u2581is</s>", None,
    ),
    "--data": (["--data", "{folder}/lower"], lambda s: s.pieces[1], "\u2581the", "\u2581The"),
    "--sentencepiece-model": (
        ["--sentencepiece-model", "{folder}/characters.model"],
        lambda s: s.pieces[1], "\u2581", None,
    ),
}  # fmt: skip
# a folder, and pixels: see the tests above and below
OTHER_FLAGS = {"--output-dir", "--dpi"}


def subjects_of(checkpoints, *words):
    command = [*checkpoints, "--output-dir", "none", *words]
    return load_subjects(get_parser().parse_args([str(word) for word in command]))


@pytest.fixture
def sources(alone, data, text):
    """Besides a checkpoint's own: the same data in lower case, and a model of characters."""
    (alone / "mine.txt").write_text("is is\n")
    shutil.copytree(data, alone / "lower")
    record = {"text_treatment": {"unicode": "NFC", "lowercase": True}}
    (alone / "lower" / "report.json").write_text(json.dumps(record))
    for name in ("valid.bin", "valid.idx"):
        shutil.copy(data / name, alone)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text / "train.txt"), model_prefix=str(alone / "characters"), model_type="char",
        vocab_size=60, minloglevel=2, user_defined_symbols=["<mask>"],
    )  # fmt: skip
    return alone


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_reaches_what_it_changes(flag, sources):
    words, show, with_it, without = FLAGS[flag]
    words = [str(word).replace("{folder}", str(sources)) for word in words]
    base = []
    if flag in ("--data", "--sentencepiece-model"):
        base = ["--sentence", "The value of it"]

    def shown(*further):
        (subject,) = subjects_of([sources / "checkpoint.pt"], *base, *further).values()
        return show(subject)

    found, otherwise = shown(*words), shown()
    assert found == with_it and otherwise != with_it
    assert without is None or otherwise == without


def test_pixels(alone):
    sizes = []
    for dpi in (40, 80):
        out = alone / str(dpi)
        words = ["--output-dir", out, "--heads", 0, "--length", 9, "--dpi", dpi]
        assert plot(alone / "checkpoint.pt", *words)[0] == 0
        sizes.append(imread(out / "position_bias.png").shape[0])
    assert abs(sizes[1] - 2 * sizes[0]) <= 2


def test_there_are_no_other_flags():
    flags = {flag for action in get_parser()._actions for flag in action.option_strings}
    assert flags - {"-h", "--help"} == {*FLAGS, *OTHER_FLAGS}


def test_models_of_different_lengths_show_what_both_have(alone):
    # without fairseq, which may not be imported here, torch would refuse its Namespace
    state = torch.load(alone / "checkpoint.pt", map_location="cpu", weights_only=False)
    options = state["cfg"]["model"] if state["cfg"] is not None else state["args"]
    options.max_positions = 16
    name = "encoder.sentence_encoder.position_bias.untied_absolute.pos.weight"
    state["model"][name] = state["model"][name][:17]  # theta_1, and a row for each position
    torch.save(state, alone / "short.pt")
    both = [alone / "checkpoint.pt", alone / "short.pt"]
    for order in (both, both[::-1]):
        assert [subject.length for subject in subjects_of(order).values()] == [16, 16]
    with pytest.raises(ValueError, match=r"--length \(17\) is not in 2 .. 16, .*short.pt"):
        subjects_of(both, "--length", 17)


def test_help_shows_an_example():
    code, text = plot("--help")
    assert code == 0 and "example: tupe-plot" in text
