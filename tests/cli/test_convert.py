"""A converted checkpoint with its vocabulary: what is refused, and the commands that follow."""

import os
import resource
import shutil
import sys
from pathlib import Path

import pytest
import torch

from helpers import raw_text
from helpers.authors import WORDS, their_checkpoint
from helpers.glue_files import prepare_glue, write_glue
from helpers.running import call_program
from helpers.vocabularies import (
    convert,
    printed_commands,
    write_authors,
    write_gpt2,
    write_roberta,
    write_stock,
)
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.files import read_json

LISTED = ["<file>", "<email>", "<url>", *(word.split()[0] for word in WORDS)]


def ids(words):
    """Those of fairseq's dictionary, for words or <unk>."""
    return [4 + LISTED.index(word) if word in LISTED else 3 for word in words.split()] + [2]


@pytest.fixture(scope="module")
def authors(tmp_path_factory):
    """The folder with the converted folder "the model", and what was printed."""
    folder = tmp_path_factory.mktemp("authors")
    code, text = convert(write_authors(folder), folder / "the model")
    assert code == 0, text
    return folder, text


def replaced(words, **values):
    """The words of a command with other values after some of the flags."""
    words = list(words)
    for name, value in values.items():
        words[words.index("--" + name.replace("_", "-")) + 1] = value
    return words


def test_a_converted_folder_is_a_vocabulary_for_data(authors, run, tmp_path):
    folder, text = authors
    out = folder / "the model"
    assert set(os.listdir(out)) == {"model.pt", "dict.txt", "bpecodes", "vocabulary.json"}
    commands = printed_commands(text)
    assert list(commands) == ["fairseq-train"]
    assert f"tupe-prepare-pretrain --vocabulary {out}" in text

    # GLUE, whose folder then is a --pretrain-dir, too
    write_glue(tmp_path / "glue_data", ["CoLA"], odd=False)
    for name in ("train", "dev"):
        path = tmp_path / "glue_data" / "CoLA" / f"{name}.tsv"
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        lines = ["\t".join([*row[:3], f"W{n % 20} a_file.txt, w3."]) for n, row in enumerate(rows)]
        path.write_text("\n".join(lines) + "\n")
    code, printed = prepare_glue(tmp_path / "glue_data", "CoLA", out, tmp_path / "bin")
    assert code == 0, printed
    data = tmp_path / "bin" / "CoLA"
    (data / "train.bin").write_bytes((data / "input0" / "train.bin").read_bytes())
    (data / "train.idx").write_bytes((data / "input0" / "train.idx").read_bytes())
    sentences, _ = raw_text.sentences(data)
    assert sentences[1] == ids("w1 <file> , w3 .")
    report = read_json(str(data / "report.json"))
    assert report["vocabulary_kind"] == "fastbpe" and report["max_positions"] == 16
    assert report["splits"]["train"]["unknown_rate"] == 2 / 5
    code, printed = prepare_glue(tmp_path / "glue_data", "CoLA", data, tmp_path / "again")
    assert code == 0, printed
    again = tmp_path / "again" / "CoLA" / "input0" / "train.bin"
    assert again.read_bytes() == (data / "input0" / "train.bin").read_bytes()

    # masked words, trained for one update with the printed command
    text = ["W1 w2, w3.", "w5 W6-w7", "(w8) w9"]
    raw_text.write(tmp_path / "train.txt", [[line] for line in text])
    words = ["--input", tmp_path / "train.txt", "--tokens-per-sample", 16, "--vocabulary", out]
    words += ["--valid-input", raw_text.write(tmp_path / "valid.txt", [["w4 w4 w4"]])]
    words += ["--test-fraction", 0, "--workers", 1, "--output-dir", tmp_path / "data-bin"]
    code, printed = call_program("prepare-pretrain", words)
    assert code == 0, printed
    sentences, _ = raw_text.sentences(tmp_path / "data-bin")
    expected = ["w1 w2 , w3 .", "w5 w6 - w7", "( w8 ) w9"]
    assert [one for one in sentences if one != [2]] == [ids(line) for line in expected]
    report = read_json(str(tmp_path / "data-bin" / "report.json"))
    assert report["vocabulary"]["type"] == "fastbpe"
    assert report["vocabulary"]["dictionary"] == 4 + len(LISTED) + 1
    record = read_json(str(tmp_path / "data-bin" / "vocabulary.json"))
    assert not (record["clean"] or record["lowercase"])
    words = replaced(
        commands["fairseq-train"], save_dir=tmp_path / "run", max_update=1, batch_size=2
    )
    words[0] = tmp_path / "data-bin"
    process = run("fairseq-train", *words, "--cpu", "--num-workers", 0, "--data-buffer-size", 0)
    assert "done training" in process.stdout


def test_the_hub_encodes_raw_text(authors, monkeypatch, tmp_path):
    (tmp_path / "vocabulary.json").write_text("of another model")
    monkeypatch.chdir(tmp_path)
    hub = TupeRobertaModel.from_pretrained(str(authors[0] / "the model"), "model.pt").eval()
    assert hub.encode("W1, W19").tolist() == [0, *ids("w1 , w19")]
    assert hub.decode(hub.encode("W1 w19")) == "w1 w19"
    filled = hub.fill_mask("W1 <mask> w3.", topk=28)
    assert ("W1 w7 w3.", " w7") in [(text, word) for text, _, word in filled]
    # of a checkpoint of one's own, the vocabulary is with the data
    (tmp_path / "run").mkdir()
    shutil.copy(authors[0] / "the model" / "model.pt", tmp_path / "run")
    data = str(authors[0] / "the model")
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "run"), "model.pt", data)
    assert hub.encode("W1, W19").tolist() == [0, *ids("w1 , w19")]


def test_a_hub_with_gpt2_and_without_its_files(tmp_path):
    code, text = convert(write_gpt2(tmp_path), tmp_path / "out")
    assert code == 0, text
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "out")).eval()
    pieces = ["257", "258", "259"]
    numbers = hub.task.source_dictionary
    assert hub.encode("the the a").tolist() == [0, *map(numbers.index, pieces), 2]
    assert hub.decode(hub.encode("the the a")) == "the the a"
    with_none = TupeRobertaModel.from_pretrained(str(tmp_path / "out"), bpe=None)
    assert with_none.bpe is None
    os.remove(tmp_path / "out" / "vocab.bpe")
    with pytest.raises(FileNotFoundError, match=r"vocab\.bpe"):
        TupeRobertaModel.from_pretrained(str(tmp_path / "out"))


def test_a_downloaded_roberta_needs_no_other_files(tmp_path):
    folder = tmp_path / "roberta-base"
    theirs = write_roberta(folder)
    code, text = convert(["--checkpoint", folder], tmp_path / "out")
    assert code == 0, text
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "out"))
    for line in ("the the a", "A \u00e9, over there"):
        assert hub.encode(line).tolist() == theirs(line)["input_ids"]


def test_the_hub_without_a_package(authors, monkeypatch, caplog):
    for name in ("subword_nmt", "subword_nmt.apply_bpe"):
        monkeypatch.setitem(sys.modules, name, None)
    hub = TupeRobertaModel.from_pretrained(str(authors[0] / "the model"), "model.pt")
    assert hub.bpe is None and "text cannot be encoded: import of subword_nmt" in caplog.text


def test_a_vocabulary_of_an_earlier_run_does_not_stay(tmp_path):
    flags = write_authors(tmp_path)
    assert convert(flags, tmp_path / "out")[0] == 0
    assert convert(flags[:-2], tmp_path / "out", "--overwrite")[0] == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.pt", "dict.txt"}


def test_without_a_vocabulary_it_says_how_to_get_one(tmp_path):
    flags = write_stock(tmp_path, ["w0 3", "w1 2"])
    code, text = convert(flags, tmp_path / "out")
    assert code == 0 and "no vocabulary: to prepare data for it" in text
    assert list(printed_commands(text)) == ["fairseq-train"]
    write_glue(tmp_path / "glue", ["CoLA"], odd=False)
    code, text = prepare_glue(tmp_path / "glue", "CoLA", tmp_path / "out", tmp_path / "bin")
    assert code == 2 and "tupe-convert with the files of a vocabulary" in text
    raw_text.write(tmp_path / "text", [["w0"]])
    code, text = call_program(
        "prepare-pretrain",
        ["--input", tmp_path / "text", "--vocabulary", tmp_path / "out", "--output-dir", "x"],
    )
    assert code == 2 and "there is no vocabulary.json or sentencepiece" in text


def refused(flags, tmp_path, *more):
    code, text = convert(flags, tmp_path / "out", *more)
    assert code == 2 and not (tmp_path / "out").exists()
    return text.splitlines()[-1]


def test_vocabularies_that_do_not_fit(tmp_path):
    authors, gpt2 = write_authors(tmp_path / "a"), write_gpt2(tmp_path / "g")
    for content, message in (
        ("w 1</w>\n", "line 1: 'w 1</w>' is not 'left right count'"),
        ("a b 5\n", "does not fit the dictionary: 20 of its 23 words are no subwords"),
        (b"\xff\n", "is not a text file in UTF-8"),
    ):
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "a" / "bpe-code").write_bytes(content)
        assert message in refused(authors, tmp_path)
    for name, content, message in (
        ("encoder.json", '{"a": 0}', "encoder.json is not GPT-2's encoder.json"),
        ("vocab.bpe", "#version\nx y\n", "line 2: 'x y' is not a merge of"),
        ("theirs.txt", None, "does not fit the dictionary: 1 of its 230 words are no subwords"),
    ):
        path = tmp_path / "g" / name
        before = path.read_text()
        path.write_text(content or before.replace("250 255", "w250 255"))
        assert message in refused(gpt2, tmp_path)
        path.write_text(before)


def test_files_of_one_kind_only(tmp_path):
    flags = write_gpt2(tmp_path)
    codes = ["--bpe-codes", tmp_path / "vocab.bpe"]
    assert "give the files of one vocabulary" in refused(flags[:-2], tmp_path)
    assert "give the files of one vocabulary" in refused([*flags, *codes], tmp_path)
    assert "is for checkpoints of the TUPE authors' code" in refused([*flags[:4], *codes], tmp_path)


def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path):
    flags = write_authors(tmp_path)
    assert convert(flags, tmp_path / "out")[0] == 0
    before = raw_text.contents(tmp_path / "out")
    torch.save(their_checkpoint()[0], tmp_path / "theirs.pt")
    theirs = Path(tmp_path / "theirs.txt")
    theirs.write_text(theirs.read_text().replace("w1 98", "w1 97"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        code, text = convert(flags, tmp_path / "out", "--overwrite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2 and "File too large" in text.splitlines()[-1]
    assert raw_text.contents(tmp_path / "out") == before
    assert not list(tmp_path.glob("out?*"))
    assert convert(flags, tmp_path / "out", "--overwrite")[0] == 0
    assert raw_text.contents(tmp_path / "out")["dict.txt"] != before["dict.txt"]
