"""JSON files of our own that something happened to: refused in one line that names the file."""

import os
import re

import pytest

from tupe_fairseq.files.atomic import atomic_write, read_json
from tupe_fairseq.files.record import read_record

SHAPE = {
    "rows": {str: {"read": int, "rate": float}},
    "warnings": [str],
    "version": (str, None),
    "done": bool,
}
SOUND = '{"rows": {"train": {"read": 3, "rate": 0.5}}, "warnings": ["a"], "done": true, "new": 1}'


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "is not a JSON file"),
        (b"{", "is not a JSON file"),
        (b'{"a": "\xff"}', "is not a JSON file"),
        ('{"a": 1}'.encode("utf-16"), "is not a JSON file"),
        (b"\xef\xbb\xbf{}", "is not a JSON file"),
        (b"[" * 200_000, "is nested too deep"),
        (b'{"a":' * 200_000, "is nested too deep"),
    ],
    ids=["empty", "cut", "no-utf8", "utf-16", "byte-order-mark", "deep-lists", "deep-objects"],
)
def test_not_json(content, reason, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as error:
        read_json(str(path))
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(ValueError, match="a.json is not a file"):
        read_json(str(tmp_path / "a.json"))


def test_a_sound_record(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(SOUND)
    assert read_record(str(path), SHAPE) == read_json(str(path))


@pytest.mark.parametrize(
    "content, reason",
    [
        ("null", "its content is missing; it should be an object"),
        ("[1]", "its content is [1], not an object"),
        ("7", "its content is 7, not an object"),
        (SOUND.replace('"rows"', '"row"'), "rows is missing; it should be an object"),
        (
            SOUND.replace('"rate"', '"rat"'),
            "rows.train.rate is missing; it should be a finite number",
        ),
        (SOUND.replace("0.5", "NaN"), "rows.train.rate is nan, not a finite number"),
        (SOUND.replace("0.5", "Infinity"), "rows.train.rate is inf, not a finite number"),
        (SOUND.replace("0.5", "1" * 400), "rows.train.rate is 1111"),
        (SOUND.replace("3", "-3"), "rows.train.read is -3, not a whole number of 0 or more"),
        (SOUND.replace("3", "3.5"), "rows.train.read is 3.5, not a whole number"),
        (SOUND.replace("3", "true"), "rows.train.read is True, not a whole number"),
        (SOUND.replace("3", "[3]"), "rows.train.read is [3], not a whole number"),
        (SOUND.replace('["a"]', '["a", 1]'), "warnings[1] is 1, not a text"),
        (SOUND.replace('["a"]', '"a"'), "warnings is 'a', not a list"),
        (SOUND.replace("true", "1"), "done is 1, not true or false"),
        (SOUND.replace("}}", '}, "dev": 0}'), "rows.dev is 0, not an object"),
        (SOUND.replace('"new"', '"version"'), "version is 1, not a text"),
    ],
)
def test_another_shape(content, reason, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(f"{path} is damaged, or of another program: ")):
        read_record(str(path), SHAPE)
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_record(str(path), SHAPE)


@pytest.mark.parametrize(
    "error", [ChildProcessError("a process was killed"), OSError("a.gz cannot be read: CRC")]
)
def test_an_error_within_keeps_its_words(error, tmp_path):
    with pytest.raises(OSError) as raised, atomic_write(str(tmp_path / "a")):
        raise error
    assert str(raised.value) == error.args[0]
    assert os.listdir(tmp_path) == []
