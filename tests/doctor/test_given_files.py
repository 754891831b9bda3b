"""What tupe-doctor finds in a checkpoint, data and a vocabulary that are to be used together."""

import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch

from helpers import crafted
from helpers.authors import WORDS, their_checkpoint
from helpers.glue_data import write_bin
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING
from tupe_fairseq.doctor.given_files import GivenFiles, check_files

WRITTEN = Path(__file__).parents[1] / "compatibility" / "v0_1"


def check(checkpoint=None, data=None, model=None):
    """The findings by name."""
    paths = [None if path is None else str(path) for path in (checkpoint, data, model)]
    found = list(check_files(GivenFiles(*paths)))
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


@pytest.fixture
def data(tmp_path):
    """A copy that may be changed."""
    return Path(shutil.copytree(WRITTEN / "data-bin", tmp_path / "data-bin"))


def levels(findings):
    return {name: one.level for name, one in findings.items() if one.level != OK}


def test_what_belongs_together(data):
    findings = check(WRITTEN / "official.pt", data)
    assert levels(findings) == {}
    assert findings["position options"].found == (
        "--position-encoding tupe --rel-pos --rel-pos-buckets 32 --max-rel-pos 128 "
        "--max-positions 48"
    )
    assert findings["unknown pieces"].found == "train 0.00%, valid 0.00%"
    assert findings["lengths"].found == "train up to 48, valid up to 48 tokens, for a model of 48"
    assert findings["dictionary and checkpoint"].found.endswith("those of the checkpoint")
    assert "75 pieces" in findings["vocabulary and dictionary"].found
    given = check(WRITTEN / "official.pt", data, WRITTEN / "pieces.model")
    assert levels(given) == {} and set(given) == set(findings)


def test_a_run_of_fine_tuning_and_its_data():
    run = WRITTEN / "runs" / "CoLA"
    (best,) = run.glob("*/checkpoint_best.pt")
    findings = check(best, WRITTEN / "glue-bin" / "CoLA")
    assert levels(findings) == {}
    assert findings["classes"].found.startswith("2 in the data")
    # <s> and </s> included: what no sentence of the texts is shorter than, and none longer
    assert findings["lengths"].found.endswith("for a model of 48")


def test_each_alone(data):
    assert levels(check(data=data)) == {}
    assert levels(check(model=WRITTEN / "pieces.model")) == {}
    assert levels(check(WRITTEN / "official.pt")) == {"dictionary": WARNING}


def test_another_dictionary(data):
    lines = (data / "dict.txt").read_text().splitlines()
    (data / "dict.txt").write_text("\n".join([*lines[1:], lines[0]]) + "\n")
    finding = check(WRITTEN / "official.pt", data)["dictionary and checkpoint"]
    assert finding.level == ERROR and "different vocabulary of the same size" in finding.wrong
    (data / "dict.txt").write_text("\n".join(lines[:-9]) + "\n")
    findings = check(WRITTEN / "official.pt", data)
    finding = findings["dictionary and checkpoint"]
    assert finding.level == ERROR and "80 rows, but dict.txt and the built-in symbols are 71" in (
        finding.wrong
    )
    # the ids of the text were made with it as it was
    (data / "dict.txt").write_text("\n".join(lines[:20]) + "\n")
    assert check(data=data)["data and dictionary"].level == ERROR
    (data / "dict.txt").write_text("a 1\na 1\n")
    assert "lists 'a' twice" in check(data=data)["dictionary"].wrong


def test_another_vocabulary(data, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["quite another text", "with words of its own"] * 9),
        model_prefix=str(tmp_path / "other"), vocab_size=40, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    finding = check(WRITTEN / "official.pt", data, tmp_path / "other.model")
    assert finding["vocabulary and dictionary"].level == ERROR
    assert "does not fit the dictionary" in finding["vocabulary and dictionary"].wrong
    (tmp_path / "other.model").write_bytes(b"")
    assert check(model=tmp_path / "other.model")["vocabulary"].level == ERROR
    (data / "sentencepiece.bpe.model").unlink()
    assert check(WRITTEN / "official.pt", data)["vocabulary"].level == WARNING


def test_pieces_that_the_dictionary_does_not_list(data):
    lines = (data / "dict.txt").read_text().splitlines()
    (data / "dict.txt").write_text("\n".join(lines[:-9]) + "\n")
    finding = check(model=WRITTEN / "pieces.model", data=data)["vocabulary and dictionary"]
    assert finding.level == WARNING and finding.wrong.startswith("9 of them are not listed")


def test_unknown_pieces_and_ids_beyond_the_dictionary(data):
    write_bin(data / "train", [[3, 9, 3, 2], [9] * 20 + [2]])
    finding = check(data=data)["unknown pieces"]
    assert finding.level == WARNING and finding.found == "train 8.00%, valid 0.00%"
    write_bin(data / "train", [[80, 2]])
    finding = check(data=data)["data and dictionary"]
    assert finding.level == ERROR and "has the id 80, but" in finding.wrong
    write_bin(data / "train", [[79, 2]])
    assert levels(check(data=data)) == {}


def test_rows_that_are_too_long(data):
    write_bin(data / "train", [[9] * 46 + [2], [9] * 47 + [2], [9] * 70 + [2]])
    finding = check(WRITTEN / "official.pt", data)["lengths"]
    assert finding.level == WARNING
    assert finding.wrong == "2 of 7 rows are longer than the model takes, and are skipped"
    assert finding.command.startswith("tupe-prepare-pretrain --tokens-per-sample 48")


def test_damaged_data(data):
    with open(data / "train.bin", "ab") as file:
        file.write(b"x")
    finding = check(data=data)["data"]
    assert finding.level == ERROR and "cut short" in finding.wrong
    shutil.rmtree(data)
    data.mkdir()
    assert check(data=data)["data"].wrong.endswith("dict.txt is missing")


def test_refused_checkpoints(tmp_path):
    path = tmp_path / "model.pt"
    crafted.save(crafted.whole_state(), path)
    assert levels(check(path)) == {"dictionary": WARNING}
    crafted.save(crafted.whole_state(), path, tie_cls=True)
    finding = check(path)["position options"]
    assert finding.level == ERROR and "--tie-cls is False in the checkpoint" in finding.wrong
    crafted.save(crafted.whole_state(), path, encoder_layers=3)
    assert "encoder_layers is 3, but its tensors have 2" in check(path)["checkpoint"].wrong
    path.write_bytes(path.read_bytes()[:-100])
    finding = check(path)["checkpoint"]
    assert finding.level == ERROR and "truncated, damaged" in finding.wrong
    torch.save({"model": crafted.Touch(tmp_path / "ran")}, path)
    assert "is refused" in check(path)["checkpoint"].wrong and not (tmp_path / "ran").exists()


def test_a_checkpoint_of_the_authors(tmp_path):
    (tmp_path / "dict.txt").write_text("\n".join(WORDS) + "\n")
    state, _ = their_checkpoint()
    torch.save(state, tmp_path / "theirs.pt")
    findings = check(tmp_path / "theirs.pt", tmp_path)
    assert levels(findings) == {"checkpoint": WARNING, "vocabulary": WARNING}
    assert findings["checkpoint"].command == (
        f"tupe-convert --checkpoint {tmp_path}/theirs.pt --dict {tmp_path}/dict.txt "
        "--output-dir converted"
    )


def test_classes_of_another_task(tmp_path):
    folder = Path(shutil.copytree(WRITTEN / "glue-bin" / "CoLA", tmp_path / "CoLA"))
    (best,) = (WRITTEN / "runs" / "CoLA").glob("*/checkpoint_best.pt")
    (folder / "label" / "dict.txt").write_text("a 1\nb 1\nc 1\n")
    finding = check(best, folder)["classes"]
    assert finding.level == WARNING and finding.wrong.endswith("of the data lists 3")
