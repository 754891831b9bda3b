"""After a refusal the same folder takes what the message advises, and does no more than needed."""

import gzip
import json
import os
import re

import pytest

from helpers import raw_text
from helpers.running import call_program
from tupe_fairseq.commands.prepare_pretrain import main

LINES = [f"{line} n\xe9" for lines in raw_text.documents(300, 5) for line in lines]
LATIN = "".join(line + "\n" for line in LINES)


@pytest.fixture
def text(tmp_path):
    return raw_text.write(tmp_path / "text", raw_text.documents(40))


@pytest.fixture
def prepare(tmp_path):
    """Runs the command; returns the exit code, what it printed, and the steps that it has done."""

    def call(*flags):
        words = ["--workers", 1, "--output-dir", tmp_path / "data", *flags]
        code, printed = call_program(main, words)
        assert "Traceback" not in printed
        return code, printed

    return call


def steps_of(folder):
    return json.loads((folder / "steps.json").read_text())["finished"]


def without_the_text(monkeypatch):
    """Whoever cleans again fails."""
    monkeypatch.setattr("tupe_fairseq.text.pipeline.clean_file", None)


def test_the_vocabulary_size_that_the_message_names(text, prepare, tmp_path, monkeypatch):
    code, printed = prepare("--input", text)
    assert code == 2
    largest = re.search(r"largest possible is (\d+)\n", printed).group(1)
    without_the_text(monkeypatch)
    code, printed = prepare("--input", text, "--vocab-size", 20)
    least = re.search(r"give at least (\d+)", printed).group(1)
    assert code == 2 and int(least) < int(largest)
    assert prepare("--input", text, "--vocab-size", largest, "--model-type", "unigram")[0] == 0
    assert json.loads((tmp_path / "data" / "steps.json").read_text())["settings"][
        "vocab_size"
    ] == int(largest)
    # and now it is settled
    code, printed = prepare("--input", text, "--vocab-size", least)
    assert code == 2 and f"vocab_size was {largest} and is now {least}" in printed


def test_a_model_in_place_of_one_that_cannot_be_learned(text, prepare, tmp_path, monkeypatch):
    made = tmp_path / "other"
    main(["--input", str(text), "--output-dir", str(made), "--vocab-size", "90", "--workers", "1"])
    assert prepare("--input", text)[0] == 2
    without_the_text(monkeypatch)
    model = made / "sentencepiece.bpe.model"
    assert prepare("--input", text, "--sentencepiece-model", model)[0] == 0
    assert (tmp_path / "data" / "dict.txt").read_bytes() == (made / "dict.txt").read_bytes()


def test_shards_and_fractions_after_a_refusal(text, prepare, monkeypatch):
    flags = ["--input", text, "--vocab-size", 90]
    code, printed = prepare(*flags, "--shards", 41)
    assert code == 2 and "--shards 41 is more than" in printed
    without_the_text(monkeypatch)
    assert prepare(*flags, "--shards", 2, "--valid-fraction", 0.1)[0] == 0


def test_what_the_cleaning_depends_on_stays(text, prepare):
    prepare("--input", text)
    for flags, difference in [
        (["--lowercase"], "lowercase was False"),
        (["--max-chars", 99], "max_chars was 100000 and is now 99"),
        (["--valid-input", text], "valid_fraction was 0.005"),
    ]:
        code, printed = prepare("--input", text, *flags)
        assert code == 2 and difference in printed


def test_a_text_converted_in_place(prepare, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(LATIN.encode("latin1"))
    code, printed = prepare("--input", path, "--vocab-size", 90)
    count = f"{len(LINES):,}"
    reason = f"no documents in --input {path}: of {count} lines, {count} not UTF-8 (convert the"
    assert code == 2 and reason in printed
    path.write_text(LATIN, encoding="utf-8")
    code, printed = prepare("--input", path, "--vocab-size", 90)
    assert code == 0, printed


def test_options_that_left_nothing(text, prepare):
    code, printed = prepare("--input", text, "--vocab-size", 90, "--max-chars", 4)
    assert code == 2 and re.search(r"of (\d+) lines, \1 longer than --max-chars, 4\n", printed)
    code, printed = prepare("--input", text, "--vocab-size", 90, "--min-chars", 5000)
    assert code == 2 and re.search(r"of (\d+) lines, \1 shorter than --min-chars\n", printed)
    assert prepare("--input", text, "--vocab-size", 90)[0] == 0


def test_a_damaged_file_of_several_is_replaced(text, prepare, tmp_path):
    other = raw_text.write(tmp_path / "other", raw_text.documents(40, 5))
    sound = other.read_bytes()
    broken = tmp_path / "other.gz"
    lines = b"".join(b"line %d\n" % i for i in range(200_000))  # more than is looked at first
    broken.write_bytes(gzip.compress(lines, 1)[:-9])
    flags = ["--vocab-size", 90, "--input", text]
    code, printed = prepare(*flags, broken)
    assert code == 2 and "other.gz is damaged" in printed
    assert "clean train 1" not in steps_of(tmp_path / "data")
    assert prepare(*flags, other)[0] == 0
    # now both are settled
    other.write_bytes(sound[:-2] + b"x\n")
    code, printed = prepare(*flags, other)
    assert code == 2 and "other has changed since" in printed
    code, printed = prepare(*flags)
    assert code == 2 and "input 2 was" in printed
    code, printed = prepare(*flags, other, text)
    assert code == 2 and "with other settings" in printed


@pytest.mark.parametrize(
    "content", [LATIN.encode("latin1"), b"{}\n" * 9, b"\x28\xb5\x2f\xfd" + bytes(99)]
)
@pytest.mark.parametrize(
    "flags", [["--split-sentences", "zh"], ["--sentencepiece-model", "MODEL"]], ids=["zh", "model"]
)
def test_a_wrong_option_makes_no_folder(flags, content, text, prepare, tmp_path):
    model = tmp_path / "MODEL"
    model.write_bytes(content)
    code, printed = prepare("--input", text, *(model if f == "MODEL" else f for f in flags))
    assert code == 2 and printed.count("\n") == 1
    if model in flags or "MODEL" in flags:
        assert f"{model} is not a SentencePiece model" in printed
    else:
        assert "of language 'zh'; --split-sentences knows ca, cs, da, de, el, en," in printed
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("bad", [5, 40])
def test_much_lost_is_warned_of(bad, text, prepare, tmp_path):
    """From one line in a hundred on."""
    mixed = tmp_path / "mixed"
    lines = [b"caf\xe9 %d\n" % i for i in range(bad)]
    lines += [b"a line of words %d\n" % i for i in range(1000)]
    mixed.write_bytes(b"".join(lines))
    code, printed = prepare("--input", text, mixed, "--vocab-size", 90)
    warning = f"warning: {mixed}: of {1000 + bad:,} lines, {bad} not UTF-8"
    assert code == 0 and (warning in printed) == (bad == 40)


def test_long_lines_are_warned_of(text, prepare):
    code, printed = prepare("--input", text, "--vocab-size", 90, "--max-chars", 60)
    assert code == 0 and re.search(r"warning: .*text: of \d+ lines, \d+ longer than", printed)


def test_an_unknown_script_is_warned_of(text, prepare, tmp_path):
    made = tmp_path / "other"
    main(["--input", str(text), "--output-dir", str(made), "--vocab-size", "90", "--workers", "1"])
    greek = tmp_path / "greek"
    greek.write_text("".join(f"λόγος {i} και λέξεις ba\n" for i in range(100)), encoding="utf-8")
    flags = ["--sentencepiece-model", made / "sentencepiece.bpe.model"]
    code, printed = prepare("--input", greek, *flags)
    assert code == 0
    assert re.search(
        r"warning: \d\d\.\d% of the pieces of train are unknown: .*for this language", printed
    )


def test_uncovered_characters_are_warned_of(prepare, tmp_path):
    path = tmp_path / "text"
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 200)))
    path.write_text(
        "".join(f"line {i} " * 3 + f"{rare[i]}\n" for i in range(200)), encoding="utf-8"
    )
    code, printed = prepare("--input", path, "--vocab-size", 120, "--character-coverage", 0.98)
    assert code == 0
    assert re.search(
        r"of the pieces of train are unknown: .* a higher --character-coverage", printed
    )


def test_a_pipe_is_not_waited_for(prepare, text, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for flags in (["--input", tmp_path / "pipe"], ["--input", text, "/dev/zero"]):
        code, printed = prepare(*flags)
        assert code == 2 and "is a pipe or a device; write what comes out of it" in printed
    code, printed = prepare("--input", text, "--sentencepiece-model", tmp_path / "pipe")
    assert code == 2 and "is a pipe or a device" in printed


def mutations():
    """Contents of steps.json that this command did not write."""
    yield from ("null", "[]", "7", "{}", "[" * 100_000, '{"settings": {}, "finished": null}')
    yield '{"settings": [], "finished": {}}'
    yield from [
        ("clean train 0", 7), ("clean train 0", {}), ("clean train 0", {"documents": "x"}),
        ("deduplicate", True), ("deduplicate", {"duplicate": -1}),
        ("split", {"valid": {}}), ("split", [1]), ("vocabulary", {"pieces": 9}),
        ("vocabulary", {"pieces": 9.5, "dictionary": 9}), ("encode train 0", {"lines": 3}),
        ("encode train 0", "x"), ("report", 1),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """A text, and a folder in which all is done but the last step."""
    folder = tmp_path_factory.mktemp("unfinished")
    text = raw_text.write(folder / "text", raw_text.documents(40))
    data = folder / "data"
    main(["--input", str(text), "--output-dir", str(data), "--vocab-size", "90", "--workers", "1"])
    content = json.loads((data / "steps.json").read_text())
    del content["finished"]["report"]
    return text, content


@pytest.mark.parametrize("mutation", mutations(), ids=lambda value: str(value)[:60])
def test_a_broken_record_of_the_steps(mutation, unfinished, prepare, tmp_path):
    text, content = unfinished
    if not isinstance(mutation, str):
        step, value = mutation
        content = {**content, "finished": {**content["finished"], step: value}}
        mutation = json.dumps(content)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "steps.json").write_text(mutation)
    code, printed = prepare("--input", text, "--vocab-size", 90)
    assert code == 2
    assert f"error: {tmp_path / 'data' / 'steps.json'} " in printed.splitlines()[-1]
