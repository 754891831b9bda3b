"""A file is under its name when it is complete, and never before."""

import os

import pytest

from tupe_fairseq.files.atomic import atomic_write, read_json, write_json


@pytest.mark.parametrize("mode, content", [("w", "n\u00e9w\n"), ("wb", b"new\x00")])
def test_the_old_content_stays_until_the_new_is_whole(mode, content, tmp_path):
    path = tmp_path / "folder" / "file"
    for old in (None, b"old"):
        if old is not None:
            path.write_bytes(old)
        with atomic_write(str(path), mode) as file:
            file.write(content)
            file.flush()
            assert (path.read_bytes() if path.exists() else None) == old
        assert path.read_bytes() == (content if mode == "wb" else content.encode())
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interruption_leaves_the_old_content_and_nothing_else(error, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(error), atomic_write(str(path)) as file:
        file.write("half of the n")
        file.flush()
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_json_is_replaced_as_a_whole(tmp_path):
    path = str(tmp_path / "file.json")
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):  # after the first lines have been written
        write_json(path, {"a": 2, "b": object()})
    assert read_json(path) == {"a": 1}


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError) as stop, atomic_write(str(tmp_path / "file")):
        raise OSError(28, "No space left on device")
    assert stop.value.filename == str(tmp_path / "file")
