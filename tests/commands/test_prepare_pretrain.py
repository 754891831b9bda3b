"""Wrong inputs and options end with exit code 2 and one line that says why."""

import os

import pytest

from helpers import raw_text
from tupe_fairseq.commands.prepare_pretrain import main


@pytest.fixture
def refused(tmp_path, capfd):
    """Runs the command, in tmp_path as DIR's parent, and returns its last line."""

    def check(*flags, folder="data"):
        with pytest.raises(SystemExit) as end:
            main([str(f) for f in ("--workers", 1, "--output-dir", tmp_path / folder, *flags)])
        assert end.value.code == 2
        error = capfd.readouterr().err.strip()
        assert "Traceback" not in error
        assert not list(tmp_path.glob("**/report.json")) and not list(tmp_path.glob("**/*.bin"))
        return error.splitlines()[-1]

    return check


@pytest.fixture
def text(tmp_path):
    return raw_text.write(tmp_path / "text", raw_text.documents(20))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "there are no documents in --input"),
        (b"\n \n\t\n\n", "there are no documents in --input"),
        (b"\xff\xfe\xfd\n\xf0\n", "in UTF-16 or UTF-32"),
        (b"\xfd\xf1\n\xf0\n", "there are no documents in --input"),
        (b"x" * 10_000_000, "there are no documents in --input"),
        (b"one\ntwo\n", "2 lines of the text are left, too few for valid, test, train"),
        (b"one\n" * 9, "1 lines of the text are left, too few for valid, test, train"),
        (b"\x1f\x8b\x08\x00", "is damaged or cut short"),
    ],
    ids=[
        "empty", "blank", "utf-16", "not-utf-8", "line-of-10-mb", "two-lines", "one-line-repeated",
        "damaged",
    ],
)  # fmt: skip
def test_contents(content, message, refused, tmp_path):
    (tmp_path / "text").write_bytes(content)
    assert message in refused("--input", tmp_path / "text")


def test_absent(refused, tmp_path):
    assert refused("--input", tmp_path / "text").endswith("text does not exist")
    assert refused("--input", tmp_path).endswith("is not a file")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("kind", ["valid", "test"])
def test_an_empty_held_out_file(kind, refused, text, tmp_path):
    (tmp_path / "empty").touch()
    message = refused("--input", text, f"--{kind}-input", tmp_path / "empty")
    assert f"there are no documents in --{kind}-input" in message


def test_the_same_file_twice(refused, text):
    message = refused("--input", text, "--valid-input", text, "--test-fraction", 0)
    assert "0 lines of the text are left" in message


def test_input_in_the_output_folder(refused, tmp_path):
    (tmp_path / "data").mkdir()
    text = raw_text.write(tmp_path / "data" / "text", raw_text.documents(20))
    before = text.read_bytes()
    os.symlink(text, tmp_path / "link")
    assert "is inside --output-dir" in refused("--input", text)
    assert "is inside --output-dir" in refused("--input", tmp_path / "link")
    assert "is inside --output-dir" in refused("--input", text, folder="data/text")
    assert text.read_bytes() == before


def test_output_folder_of_something_else(refused, text, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").touch()
    assert "contains other files" in refused("--input", text)
    assert os.listdir(tmp_path / "data") == ["precious"]
    assert "precious is not a folder" in refused("--input", text, folder="data/precious")


@pytest.mark.parametrize("folder", ["da:ta", "da,ta"])
def test_output_folder_that_fairseq_cannot_take(folder, refused, text):
    assert "at which fairseq splits lists" in refused("--input", text, folder=folder)


def test_a_folder_in_use(refused, text, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "data").mkdir()
    handle = os.open(tmp_path / "data", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert "another process is using" in refused("--input", text)
    os.close(handle)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--sentencepiece-model", "TEXT", "--vocab-size", 9], "--vocab-size has no effect with"),
        (["--sentencepiece-model", "TEXT", "--model-type", "bpe"], "--model-type has no effect"),
        (["--sentencepiece-model", "TEXT", "--sample-mb", 9], "--sample-mb has no effect with"),
        (["--valid-input", "TEXT", "--valid-fraction", 0.1], "--valid-input or --valid-fraction"),
        (["--valid-fraction", 0], "--valid-fraction (0.0) must be above 0 and below 1"),
        (["--test-fraction", 1], "--test-fraction (1.0) must be at least 0 and below 1"),
        (["--valid-fraction", 0.5, "--test-fraction", 0.5], "leave nothing for train"),
        (["--workers", 0], "--workers (0) must be at least 1"),
        (["--shards", 0], "--shards (0) must be at least 1"),
        (["--max-chars", 2_000_000], "--max-chars (2000000) must be at least 1 and at most"),
        (["--min-chars", 50, "--max-chars", 40], "(50) must be at least 1 and at most 40"),
        (["--join-short", 50, "--max-chars", 40], "(50) must be at least 0 and at most 40"),
        (["--tokens-per-sample", 2], "--tokens-per-sample (2) must be at least 3"),
        (["--vocab-size", 5], "--vocab-size (5) must be at least 6"),
        (["--character-coverage", 1.5], "--character-coverage (1.5) must be at least 0.98 and"),
        (["--character-coverage", 0.9], "--character-coverage (0.9) must be at least 0.98 and"),
        (["--split-sentences", "xx"], "no rules to split sentences of language 'xx'"),
        (["--sentencepiece-model", "ABSENT"], "ABSENT does not exist"),
        (["--sentencepiece-model", "TEXT"], "is not a SentencePiece model"),
        (["--vocab-size", 30], "has no room for every character of the text; give at least"),
        (["--shards", 100, "--vocab-size", 90], "--shards 100 is more than the"),
    ],
    ids=lambda value: "-".join(str(v).strip("-") for v in value) if isinstance(value, list) else "",
)  # fmt: skip
def test_options(flags, message, refused, text, tmp_path):
    places = {"TEXT": text, "ABSENT": tmp_path / "ABSENT"}
    flags = [places.get(flag, flag) for flag in flags]
    assert message in refused("--input", text, *flags)


def test_the_largest_vocabulary_is_told_and_works(refused, text, tmp_path):
    message = refused("--input", text, "--vocab-size", 32768)
    assert "the text is too short for a --vocab-size of 32768; the largest possible is" in message
    largest = message.split()[-1]
    words = ["--input", text, "--output-dir", tmp_path / "other", "--workers", 1]
    main([str(word) for word in [*words, "--vocab-size", largest]])
    assert len((tmp_path / "other" / "dict.txt").read_text().splitlines()) == int(largest) - 5
