"""A file that grows by parts is whole under its name, or not there."""

import os

import pytest

from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.resumed_file import resumed_file


def grow(path, parts, fail_after=None, **settings):
    """Add the parts that are missing; how many were there, and what the last had told."""
    with resumed_file(str(path), settings) as file:
        there, told = file.parts, file.told
        for number, part in enumerate(parts[there:], there):
            if number == fail_after:
                raise OSError("no space")
            file.add(part, {"number": number})
    return there, told


def test_goes_on_after_the_last_whole_part(tmp_path):
    path, parts = tmp_path / "out", [b"one ", b"two ", b"three"]
    with pytest.raises(OSError, match="no space"):
        grow(path, parts, fail_after=2)
    assert os.listdir(tmp_path) == ["out.parts"]
    with open(tmp_path / "out.parts" / "content", "ab") as file:
        file.write(b"cut sho")
    assert grow(path, parts) == (2, {"number": 1})
    assert path.read_bytes() == b"".join(parts) and os.listdir(tmp_path) == ["out"]


def test_begins_again_if_the_parts_are_gone(tmp_path):
    path, parts = tmp_path / "out", [b"one ", b"two"]
    with pytest.raises(OSError):
        grow(path, parts, fail_after=1)
    (tmp_path / "out.parts" / "content").write_bytes(b"on")
    assert grow(path, parts) == (0, {})
    assert path.read_bytes() == b"one two"


def test_leaves_nothing_before_the_first_part(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"earlier")
    with pytest.raises(OSError):
        grow(path, [b"one"], fail_after=0)
    assert os.listdir(tmp_path) == ["out"] and path.read_bytes() == b"earlier"


def test_refuses_other_settings_and_a_second_process(tmp_path):
    path, parts = tmp_path / "out", [b"one ", b"two"]
    with pytest.raises(OSError):
        grow(path, parts, fail_after=1, size=3)
    with pytest.raises(ValueError, match="size was 3 and is now 4"):
        grow(path, parts, size=4)
    with locked(str(tmp_path / "out.parts")):
        with pytest.raises(ValueError, match="another process is using"):
            grow(path, parts, size=3)
    assert grow(path, parts, size=3)[0] == 1
