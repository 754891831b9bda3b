"""Files: under their names when they are complete, and never before."""

import os

import pytest

from tupe_fairseq.files import atomic_write, read_json, write_json


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


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "file.json"
    write_json(str(path), {"a": 1})
    with pytest.raises(TypeError):  # after the first lines have been written
        write_json(str(path), {"a": 2, "b": object()})
    with pytest.raises(OSError) as stop, atomic_write(str(path)):
        raise OSError(28, "No space left on device")
    assert stop.value.filename == str(path)
    assert read_json(str(path)) == {"a": 1} and os.listdir(tmp_path) == ["file.json"]
