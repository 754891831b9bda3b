"""tupe-prepare-pretrain: every line of the text is there once, also after an interruption."""

import gzip
import json
import lzma

import pyarrow
import pyarrow.parquet
import pytest
import sentencepiece

from helpers import raw_text
from helpers.running import call_program
from helpers.vocabularies import convert, write_gpt2
from tupe_fairseq.data import pretraining
from tupe_fairseq.data.text_files import documents

LATIN = b"caf\xe9\n"


def prepare(folder, *flags, workers=1):
    words = ["--output-dir", folder, "--workers", workers, *flags]
    return call_program("prepare-pretrain", words)


def prepared(folder, *flags, workers=1):
    code, printed = prepare(folder, *flags, workers=workers)
    assert code == 0, printed
    return json.loads((folder / "report.json").read_text()), printed


def lines_of(folder, *splits):
    found = [raw_text.decoded(folder, split) for split in splits or ("train", "valid", "test")]
    return [line for lines in found for line in lines if line]


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Two files: documents, some of them twice, odd lines, and one of 2,000 characters."""
    folder = tmp_path_factory.mktemp("raw")
    one = [
        *raw_text.documents(60),
        ["ba " * 660 + "ci"],
        ["<mask> and <s>", "e\u0301\u200b  ba\u00a0ci"],
    ]
    raw_text.write(folder / "one.txt", one)
    raw_text.write(folder / "two.txt", [*raw_text.documents(60, 5), *one[:5]])
    with open(folder / "two.txt", "ab") as file:
        file.write(LATIN + b"\xe2\x80\x8b\nthe end")
    return folder


@pytest.fixture(scope="module")
def inputs(raw):
    files = [raw / "one.txt", raw / "two.txt"]
    return ["--input", *files, "--test-fraction", 0.01, "--vocab-size", 120]


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "data"
    report, printed = prepared(folder, *inputs, "--tokens-per-sample", 128)
    return folder, report, printed


def test_every_line_is_there_once(whole, raw):
    folder, report, _ = whole
    found = lines_of(folder)
    text = (raw / "one.txt").read_text() + (raw / "two.txt").read_text(errors="ignore")
    expected = {*text.split("\n")} - {"", "caf", "\u200b"}
    expected -= {line for line in expected if line.startswith(("ba ba ba", "<mask>", "e\u0301"))}
    expected |= {"< mask> and <s>", "\u00e9 ba ci"}
    parts = [line for line in found if line not in expected]
    # the long line is cut into parts that fit; <s> in a text is unknown
    assert sorted(expected - set(found)) == ["< mask> and <s>"]
    assert len(found) - len(parts) == len(expected) - 1
    assert "".join(parts).count("ba") >= 660 and report["lines"]["cut"] == len(parts) - 2
    assert report["dropped"]["invalid_utf8"] == 1 and report["dropped"]["duplicate"] > 5
    counts = {split: len(lines_of(folder, split)) for split in ("train", "valid", "test")}
    assert {split: report["lines"][split] for split in counts} == counts
    assert report["lines"]["read"] + report["lines"]["cut"] - sum(report["dropped"].values()) == (
        sum(counts.values())
    )
    assert max(len(x) for x in raw_text.sentences(folder)[0]) == 127  # with <s>, 128


def test_vocabulary_and_next_command(whole):
    folder, report, printed = whole
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    assert [model.id_to_piece(i) for i in range(5)] == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    _, dictionary = raw_text.sentences(folder)
    assert len(model) == len(dictionary) + 1 == report["vocabulary"]["dictionary"] == 120
    assert "fairseq-train" in printed and "--max-positions 128" in printed


def test_shards_lower_case_joined_lines_and_a_valid_file(inputs, raw, tmp_path):
    valid = raw_text.documents(60)[10:14]
    raw_text.write(tmp_path / "valid.txt", valid)
    flags = ["--shards", 2, "--model-type", "bpe", "--lowercase", "--join-short", 30]
    flags += ["--valid-input", tmp_path / "valid.txt", "--test-fraction", 0]
    report, _ = prepared(tmp_path / "data", *inputs, *flags)
    shards = [tmp_path / "data" / name for name in ("shard0", "shard1")]
    text = [" ".join(lines_of(shard, "train")) for shard in shards]
    assert min(map(len, text)) > 0.3 * max(map(len, text)) and report["lines"]["joined"] > 20
    held_out = " ".join(line for document in valid for line in document).lower()
    for shard in shards:
        assert " ".join(lines_of(shard, "valid")) == held_out
        assert (shard / "vocabulary.json").exists()
    for line in raw_text.documents(60, 5)[0]:
        assert sum(one.count(line.lower()) for one in text) == 1
    assert not any(line.lower() in one for one in text for line in valid[0])


def test_the_last_lines_of_one_document_are_held_out(tmp_path):
    lines = [f"ba {n}" for n in range(100)]
    raw_text.write(tmp_path / "text", [lines])
    flags = ["--vocab-size", 20, "--valid-fraction", 0.2, "--test-fraction", 0.1]
    prepared(tmp_path / "data", "--input", tmp_path / "text", *flags)
    assert lines_of(tmp_path / "data", "train", "test", "valid") == lines


def test_sentences_and_limits_of_length(tmp_path):
    text = "Mr. X came. He left at once! Yes.\n" + "".join(f"word {n}\n" for n in range(50))
    (tmp_path / "text").write_text(text)
    flags = ["--split-sentences", "--min-chars", 7, "--max-chars", 14, "--vocab-size", 30]
    flags += ["--test-fraction", 0.01]
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        report, printed = prepared(folder, "--input", tmp_path / "text", *flags, workers=workers)
        assert report["lines"]["split_off"] == 2 and report["dropped"]["too_short"] == 11
        assert report["dropped"]["too_long"] == 1 and "too_long 1" in printed
        assert "Mr. X came." in lines_of(folder) and len(lines_of(folder)) == 41


def test_compressed_text_and_rows(whole, raw, tmp_path):
    """The same documents in every kind of file."""
    text = raw_text.documents(30)
    raw_text.write(tmp_path / "a.txt", text)
    content = (tmp_path / "a.txt").read_bytes()
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.xz").write_bytes(lzma.compress(content))
    rows = ["\n\n".join(document) for document in text]
    lines = [json.dumps({"n": n, "text": row}) for n, row in enumerate(rows)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(x.encode() for x in lines) + b"\n" + LATIN)
    pyarrow.parquet.write_table(pyarrow.table({"text": rows}), tmp_path / "a.parquet")
    plain = [line for line in documents(str(tmp_path / "a.txt")) if line]
    for name in ("a.gz", "a.xz"):
        assert [x for x in documents(str(tmp_path / name)) if x] == plain
    for name, more in (("a.jsonl", [None]), ("a.parquet", [])):
        found = list(documents(str(tmp_path / name), "text"))
        assert [line for line in found if line] == plain
        assert found.count("") == len(text) and found[len(found) - len(more) :] == more
    flags = ["--text-field", "text", "--vocab-size", 90]
    report, _ = prepared(tmp_path / "data", "--input", tmp_path / "a.jsonl", *flags)
    assert report["rows"] == {"read": 31, "no_text": 1}


def test_the_vocabulary_of_a_converted_model(raw, tmp_path):
    code, text = convert(write_gpt2(tmp_path / "gpt2"), tmp_path / "model")
    assert code == 0, text
    flags = ["--input", raw / "one.txt", "--vocabulary", tmp_path / "model"]
    found = [prepared(tmp_path / str(n), *flags, workers=n) for n in (1, 2)]
    assert raw_text.contents(tmp_path / "1") == raw_text.contents(tmp_path / "2")
    assert found[0][0]["vocabulary"]["type"] == "gpt2"
    dictionaries = [(tmp_path / name / "dict.txt").read_bytes() for name in ("1", "model")]
    assert dictionaries[0] == dictionaries[1]
    assert json.loads((tmp_path / "1" / "vocabulary.json").read_text())["max_positions"] == 512


def test_a_given_model_of_another_text(whole, tmp_path):
    model = whole[0] / "sentencepiece.bpe.model"
    (tmp_path / "text").write_text("ba bé 日本\nci dö 中\ndu fa\nfe gi\n", "utf-8")
    flags = ["--input", tmp_path / "text", "--sentencepiece-model", model, "--valid-fraction", 0.1]
    report, printed = prepared(tmp_path / "data", *flags)
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        assert (tmp_path / "data" / name).read_bytes() == (whole[0] / name).read_bytes()
    assert report["unknown_rate"]["train"] == 2 / report["tokens"]["train"]
    assert "of the tokens of train are unknown" in printed


def test_interrupted_in_every_stage(inputs, whole, tmp_path, monkeypatch):
    folder, flags = tmp_path / "data", [*inputs, "--tokens-per-sample", 128]
    for name in ("make_text", "make_vocabulary", "make_data"):
        make = getattr(pretraining, name)

        def interrupt(*args, make=make):
            make(*args)
            raise OSError("interrupted")

        with monkeypatch.context() as patch:
            patch.setattr(pretraining, name, interrupt)
            assert prepare(folder, *flags)[0] == 2
        assert not (folder / "settings.json").exists()
        if name == "make_vocabulary":  # the text is not made again
            monkeypatch.setattr(pretraining, "make_text", None)
    prepared(folder, *flags)
    assert raw_text.contents(folder) == raw_text.contents(whole[0])


def test_a_finished_folder(inputs, tmp_path, monkeypatch):
    folder = tmp_path / "data"
    code, printed = prepare(folder, *inputs[:-1], 30_000)
    assert code == 2 and "--vocab-size 30000 does not fit the text: " in printed
    with monkeypatch.context() as patch:  # another size keeps the text
        patch.setattr(pretraining, "make_text", None)
        prepared(folder, *inputs)
    before = raw_text.contents(folder)
    assert "is already finished" in prepare(folder, *inputs)[1]
    code, printed = prepare(folder, *inputs, "--lowercase")
    assert code == 2 and "lowercase was False and is now True; give another" in printed
    (folder / "train.bin").unlink()
    prepared(folder, *inputs)
    assert raw_text.contents(folder) == before
    (tmp_path / "mine.txt").write_text("")
    code, printed = prepare(tmp_path, *inputs)
    assert code == 2 and "contains other files" in printed


@pytest.mark.parametrize(
    "name, content, flags, message",
    [
        ("a", b"\n \n\t\n\n", [], "there are no documents in "),
        ("a", "words\n".encode("utf-16"), [], "a is not text in UTF-8; convert it first"),
        ("a", b"one\n", [], "only 1 lines that are not in other splits are left, too few"),
        ("a", b'{"text": "a"}\n' * 3, [], "a holds JSON objects, whose keys"),
        ("a.jsonl", b"words\n", ["--text-field", "text"], "a.jsonl, line 1 is not JSON"),
        ("a.jsonl", b'{"text": 3}\n', ["--text-field", "text"], "is not a text, but 3"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
def test_refused(name, content, flags, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    code, printed = prepare(tmp_path / "data", "--input", tmp_path / name, *flags)
    assert code == 2 and message in printed and "Traceback" not in printed
