"""tupe-prepare-pretrain: every line of the text is kept once, also after an interruption."""

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sentencepiece
from fairseq.data import Dictionary, data_utils
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from helpers.running import REPO, VERSIONS, call_program
from tupe_fairseq.data import corpus, pretraining
from tupe_fairseq.prepare import prepare_pretraining

LATIN = b"caf\xe9\n"
SYLLABLES = "ba bé ci dö du fa fe gi ho ju ka lo mi na ñu or pe qua ri sto tu vi".split()


def made_up(number, seed=3):
    """Documents, lists of lines of made-up words, most of them different."""
    random_ = random.Random(seed)

    def word():
        return "".join(random_.choices(SYLLABLES, k=random_.randint(1, 3)))

    words = [word() for _ in range(400)]

    def line():
        return " ".join(random_.choices(words, k=random_.randint(2, 12))).capitalize() + "."

    return [[line() for _ in range(random_.randint(1, 6))] for _ in range(number)]


def write(path, text):
    path.write_text("\n\n".join("\n".join(lines) for lines in text) + "\n", "utf-8")


def pieces(folder, split="train"):
    """Each sentence of a data folder, without </s>, by fairseq's own reader."""
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    data = data_utils.load_indexed_dataset(str(folder / split), dictionary, "mmap")
    rows = [data[i].tolist() for i in range(len(data))]
    assert all(row[-1] == dictionary.eos() for row in rows)
    return [[dictionary[i] for i in row[:-1]] for row in rows]


def lines_of(folder, *splits):
    """The text, decoded by SentencePiece, without the empty lines between documents."""
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    splits = splits or ("train", "valid")
    found = [model.decode(row) for split in splits for row in pieces(folder, split)]
    return [line for line in found if line]


def contents(folder):
    """Every file of a folder and its bytes, but not settings.json, which records input times."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name != "settings.json"
    }


def prepare(folder, *flags):
    return call_program("prepare-pretrain", ["--output-dir", folder, "--workers", 1, *flags])


def prepared(folder, *flags):
    code, printed = prepare(folder, *flags)
    assert code == 0, printed
    return json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Two files: documents, some of them twice, odd lines, and one of 2,000 characters."""
    folder = tmp_path_factory.mktemp("raw")
    one = [*made_up(60), ["ba " * 660 + "ci"], ["<mask> and <s>", "e\u0301\u200b  ba\u00a0ci"]]
    write(folder / "one.txt", one)
    write(folder / "two", [*made_up(60, 5), *one[:5]])
    two = (folder / "two").read_bytes() + LATIN + b"\xe2\x80\x8b\nthe end"
    (folder / "two.gz").write_bytes(gzip.compress(two))
    return folder


@pytest.fixture(scope="module")
def inputs(raw):
    files = [raw / "one.txt", raw / "two.gz"]
    return ["--input", *files, "--valid-share", 0.02, "--vocab-size", 120]


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "data"
    return folder, prepared(folder, *inputs, "--tokens-per-sample", 128)


def test_every_line_is_there_once(whole, raw):
    folder, report = whole
    found = lines_of(folder)
    two = gzip.decompress((raw / "two.gz").read_bytes()).decode(errors="ignore")
    text = (raw / "one.txt").read_text() + two
    expected = {*text.split("\n")} - {"", "caf", "\u200b"}
    expected -= {line for line in expected if line.startswith(("ba ba ba", "<mask>", "e\u0301"))}
    expected |= {"< mask> and <s>", "\u00e9 ba ci"}
    parts = [line for line in found if line not in expected]
    # the long line is cut into parts that fit; <s> in a text is text
    assert expected <= set(found) and len(found) - len(parts) == len(expected)
    assert "".join(parts).count("ba") >= 660 and report["lines"]["cut"] == len(parts) - 1
    assert report["dropped"]["invalid_utf8"] == 1 and report["dropped"]["duplicate"] > 5
    counts = {split: len(lines_of(folder, split)) for split in ("train", "valid")}
    assert {split: report["lines"][split] for split in counts} == counts
    assert report["lines"]["read"] + report["lines"]["cut"] - sum(report["dropped"].values()) == (
        sum(counts.values())
    )
    assert max(map(len, pieces(folder))) == 126  # with <s> and </s>, 128


def test_lower_case_and_a_valid_file(inputs, raw, tmp_path):
    valid = made_up(60)[10:14]
    write(tmp_path / "valid.txt", valid)
    flags = ["--lowercase", "--valid-input", tmp_path / "valid.txt"]
    prepared(tmp_path / "data", *inputs[:-4], *inputs[-2:], *flags)
    train = lines_of(tmp_path / "data", "train")
    held_out = [line.lower() for document in valid for line in document]
    assert lines_of(tmp_path / "data", "valid") == held_out and not {*held_out} & {*train}
    assert all(train.count(line.lower()) == 1 for line in made_up(60, 5)[0])


def test_the_held_out_share():
    lines = np.random.default_rng(1).integers(2**64, size=20_000, dtype="u8")
    is_held_out = corpus.choose_held_out(lines, np.arange(2, 20_002) // 2, 0.1)
    assert is_held_out.mean() == pytest.approx(0.1, abs=0.01)  # four standard errors


def test_sentences_of_the_paper(tmp_path):
    text = "Mr. Ba came. He saw ci! Then\nhe left.  \n\nOne. Two.\n"
    script = REPO / "examples" / "pretraining" / "paper_text.py"

    def made(shortest):
        words = [sys.executable, script, "--join-short", str(shortest)]
        return subprocess.run(words, input=text, capture_output=True, text=True).stdout

    assert made(0).split("\n") == [
        "Mr. Ba came.", "He saw ci!", "Then", "he left.", "", "One.", "Two.", "", "",
    ]  # fmt: skip
    assert made(13).split("\n") == [
        "Mr. Ba came. He saw ci!", "Then he left.", "", "One. Two.", "", "",
    ]  # fmt: skip


def test_a_sentencepiece_model_that_there_is(inputs, whole, tmp_path):
    """The data are those of the folder that it comes from."""
    shutil.copy(whole[0] / "sentencepiece.bpe.model", tmp_path / "my.model")
    flags = ["--tokens-per-sample", 128, "--sentencepiece-model", tmp_path / "my.model"]
    prepared(tmp_path / "data", *inputs[:-2], *flags)
    for name in ("train.bin", "train.idx", "dict.txt", "vocabulary.json"):
        assert (tmp_path / "data" / name).read_bytes() == (whole[0] / name).read_bytes()
    code, text = prepare(tmp_path / "other", *inputs, *flags)
    assert code == 2 and "--vocab-size has no effect with --sentencepiece-model" in text
    flags[-1] = tmp_path / "broken"
    flags[-1].write_bytes((tmp_path / "my.model").read_bytes()[:99])
    code, text = prepare(tmp_path / "other", *inputs[:-2], *flags)
    assert code == 2 and "broken is not a SentencePiece model" in text
    assert not (tmp_path / "other").exists()


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
    assert contents(folder) == contents(whole[0])


def test_a_finished_folder(inputs, tmp_path, monkeypatch):
    folder = tmp_path / "data"
    code, printed = prepare(folder, *inputs[:-1], 30_000)
    assert code == 2 and "--vocab-size 30000 does not fit the text: " in printed
    with monkeypatch.context() as patch:  # another size keeps the text
        patch.setattr(pretraining, "make_text", None)
        prepared(folder, *inputs)
    before = contents(folder)
    settings = json.loads((folder / "settings.json").read_text())
    settings["settings"]["min_chars"] = 1  # an option of earlier versions
    for shards in (2, 1):
        settings["settings"]["shards"] = shards
        (folder / "settings.json").write_text(json.dumps(settings))
        code, printed = prepare(folder, *inputs)
        assert ("shards was 2 and is now 1" in printed) == (code == 2) == (shards == 2)
    assert "was made by" not in printed
    report = json.loads((folder / "report.json").read_text())
    assert report["versions"] == VERSIONS
    report["versions"]["tupe_fairseq"] = "0.1.0"
    (folder / "report.json").write_text(json.dumps(report))
    code, printed = prepare(folder, *inputs)
    assert "was made by version 0.1.0, not " in printed
    assert "is already finished" in printed and "--save-dir checkpoints " in printed
    assert re.search(r"^OMP_NUM_THREADS=\d+ fairseq-train \S*data ", printed, re.MULTILINE)
    (folder / "train.bin").unlink()
    prepared(folder, *inputs)
    assert contents(folder) == before


def test_wrapped_text_and_a_large_valid_split_are_named(tmp_path):
    words = " ".join(line for document in made_up(60) for line in document)
    (tmp_path / "wrapped").write_text(textwrap.fill(words, 70))
    write(tmp_path / "valid", made_up(90, 9))
    flags = ["--input", tmp_path / "wrapped", "--valid-input", tmp_path / "valid"]
    code, printed = prepare(tmp_path / "data", *flags, "--vocab-size", 90)
    assert code == 0 and "/wrapped: most lines have 60 to 80 characters" in printed
    assert "/valid: most lines" not in printed
    assert re.search("warning: valid has [0-9,]+ tokens and train", printed)
    _, printed = prepare(tmp_path / "other", "--input", tmp_path / "valid", "--vocab-size", 90)
    assert "warning" not in printed


def test_documents_of_wikiextractor(tmp_path):
    text = made_up(30)
    pages = ["\n".join([f'<doc id="{n}" title="Ba">', *x, "</doc>"]) for n, x in enumerate(text)]
    (tmp_path / "wiki").write_text("\n".join(pages), "utf-8")
    write(tmp_path / "plain", text)
    for name in ("wiki", "plain"):
        prepared(tmp_path / f"of {name}", "--input", tmp_path / name, "--vocab-size", 90)
    assert contents(tmp_path / "of wiki") == contents(tmp_path / "of plain")


def test_changed_files_are_named_and_overwrite_makes_the_folder_again(tmp_path):
    write(tmp_path / "a", made_up(30))
    write(tmp_path / "valid.txt", made_up(3, 9))
    flags = ["--input", tmp_path / "a", "--valid-input", tmp_path / "valid.txt"]
    folder = tmp_path / "data"
    prepared(folder, *flags, "--vocab-size", 90)
    write(tmp_path / "valid.txt", made_up(3, 11))
    (folder / "notes.txt").write_text("mine")
    code, printed = prepare(folder, *flags, "--vocab-size", 90)
    assert code == 2 and ": valid.txt has changed since; give another folder, or --ov" in printed
    code, printed = prepare(folder, *flags[:2], "--vocab-size", 90)
    assert "valid_input was valid.txt and is now not given" in printed
    prepared(folder, *flags, "--vocab-size", 91, "--overwrite")
    prepared(tmp_path / "new", *flags, "--vocab-size", 91)
    (folder / "notes.txt").unlink()
    assert contents(folder) == contents(tmp_path / "new")


@pytest.mark.parametrize(
    "name, content, flags, message",
    [
        ("a.jsonl", b'{"text": true}\n', ["--text-field", "text"], "has true in --text-field text"),
        ("a.jsonl", b'{"text": null}\n', ["--text-field", "text"], "(row 0) has null in column"),
        ("a.jsonl", b'{"text": "a"}\n', ["--text-field", "b"], "has the columns 'text' instead"),
        ("a", b'{"text": "one"}\n', [], "a has rows, and all of its columns would be learned"),
        ("a", b"\n<!DOCTYPE html><p>one", [], "a is XML or HTML; extract the text first"),
        ("a.conll", b"one O\n", ["--text-field", "1"], 'has ["one"] in --text-field 1'),
    ],
)
def test_refused(name, content, flags, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.jsonl").write_text('{"text": "good", "b": "good", "1": "good"}\n')
    good = [tmp_path / "good.jsonl"] if flags else []
    code, printed = prepare(tmp_path / "data", "--input", *good, tmp_path / name, *flags)
    assert code == 2 and message in printed and "Traceback" not in printed


def test_rows_without_a_text_are_counted(tmp_path):
    """In .jsonl, and in a .csv with a wrong quote."""
    text = [" ".join(lines) for lines in made_up(30)]
    records = [json.dumps({"n": n, "text": row}) for n, row in enumerate(text)]
    texts = """"['a', 'b']"|null|NaN|3""".split("|")
    bad = [*(f'{{"text": {value}}}' for value in texts), '{"n": 1}', "[1]"]
    (tmp_path / "a.jsonl").write_text("\n".join([*records[:20], *bad, *records[20:]]))
    cells = [f'{n},"{row}"' for n, row in enumerate(text)]
    (tmp_path / "a.csv").write_text("\n".join(["n,text", *cells[:20], '7,"x" y', *cells[20:]]))
    for name, num_bad in (("a.jsonl", 6), ("a.csv", 1)):
        out = tmp_path / f"data of {name}"
        flags = ["--input", tmp_path / name, "--text-field", "text", "--vocab-size", 90]
        code, printed = prepare(out, *flags)
        report = json.loads((out / "report.json").read_text())
        assert code == 0 and f"warning: left out: {num_bad} rows (" in printed, printed
        assert f"{name}, line {21 + name.endswith('csv')} " in printed
        assert report["rows"] == {"read": 30 + num_bad, "no_text": num_bad}
        assert sorted(lines_of(out, "train", "valid")) == sorted(text)


def test_repeated_lines_are_dropped_or_kept(tmp_path):
    lines = [line for document in made_up(30) for line in document]
    write(tmp_path / "a", [[*lines, "Ba ci.", "Ba ci.", *lines]])
    write(tmp_path / "valid", [lines[:4]])
    flags = ["--input", tmp_path / "a", "--valid-input", tmp_path / "valid", "--vocab-size", 90]
    dropped = prepared(tmp_path / "dropped", *flags)
    assert dropped["dropped"]["duplicate"] == len(lines) + 1 + 4
    options = {"vocab_size": 90, "workers": 1, "keep_duplicates": True}
    text, valid, out = (tmp_path / name for name in ("a", "valid", "kept"))
    with ThreadPoolExecutor(1) as pool:  # where Python sets no handlers of signals
        kept = pool.submit(prepare_pretraining, text, out, valid_input=[valid], **options).result()
    assert kept["dropped"]["duplicate"] == 8  # only lines that valid has, too
    assert lines_of(out, "train") == [*lines[4:], "Ba ci.", "Ba ci.", *lines[4:]]
    both = prepared(tmp_path / "both", *flags, "--input", valid)  # like --input a valid
    assert both["lines"]["read"] == dropped["lines"]["read"] + 4
    code, printed = prepare(tmp_path / "none", "--input", valid, *flags[2:])
    assert code == 2 and "only 0 lines" in printed and "held out" not in printed


def test_which_characters_the_vocabulary_has(tmp_path):
    """By default a whole alphabet and ASCII; with the flag, the share that the flag says."""
    text = [document for seed in range(20) for document in made_up(200, seed)]
    text[7] = ["Yes! (So \u2019twas.)"]
    write(tmp_path / "a", text)
    flags = ["--input", tmp_path / "a", "--vocab-size"]
    report = prepared(tmp_path / "usual", *flags, 1400)
    assert report["lost_characters"] == {} and set(report["unknown_rate"].values()) == {0}
    model = sentencepiece.SentencePieceProcessor(
        str(tmp_path / "usual" / "sentencepiece.bpe.model")
    )
    assert model.unk_id() not in model.encode("".join(map(chr, range(33, 127))))
    code, printed = prepare(tmp_path / "old", *flags, 1400, "--character-coverage", 0.9995)
    lost = json.loads((tmp_path / "old" / "report.json").read_text())["lost_characters"]
    assert {"Y", "!", "(", ")", "S", "w", "\u2019"} >= set(lost) >= {"Y", "!", "\u2019"}
    assert "characters that it lacks: " in printed and f"{[*lost][0]} 1" in printed
    model = (tmp_path / "old" / "sentencepiece.bpe.model").read_bytes()  # as in earlier versions
    assert not ModelProto.FromString(model).trainer_spec.HasField("required_chars")


def test_a_bom_is_no_text_for_a_vocabulary_that_cleans_nothing(whole, tmp_path):
    given = shutil.copytree(whole[0], tmp_path / "given")
    record = json.loads((given / "vocabulary.json").read_text())
    (given / "vocabulary.json").write_text(json.dumps({**record, "clean": False}))
    (tmp_path / "a").write_text("\ufeffBa ci.\n\nFa fe gi.\n\nHo ju.\n", "utf-8")
    flags = ["--input", tmp_path / "a", "--vocabulary", given, "--valid-share", 0.3]
    prepared(tmp_path / "data", *flags)
    found = sorted(lines_of(tmp_path / "data", "train", "valid"))
    assert found == ["Ba ci.", "Fa fe gi.", "Ho ju."]
