"""A folder that is complete or absent."""

import os

import pytest

from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.staged_folder import staged_folder

KNOWN = ("a", "b", "inner/c", "onnx/")


def write(folder, **contents):
    for name, content in contents.items():
        path = os.path.join(folder, name.replace("__", "/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)


def found(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_it_appears_when_it_is_complete(tmp_path):
    out = tmp_path / "new" / "out"
    with staged_folder(str(out), KNOWN) as stage:
        write(stage, a="1", inner__c="2")
        assert not out.exists()
    assert found(out) == {"a": "1", "inner/c": "2"} and os.listdir(out.parent) == ["out"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_nothing_is_left_of_what_failed(error, tmp_path):
    with pytest.raises(error):
        with staged_folder(str(tmp_path / "out"), KNOWN) as stage:
            write(stage, a="1")
            raise error
    assert os.listdir(tmp_path) == []


def test_what_is_there_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="is there already; give another --output-dir"):
        with staged_folder(str(tmp_path / "out"), KNOWN):
            raise AssertionError
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        with staged_folder(str(tmp_path / "file"), KNOWN, overwrite=True):
            raise AssertionError


def test_overwriting_keeps_what_others_wrote(tmp_path):
    out = tmp_path / "out"
    write(out, a="old", b="old", onnx__m="old", inner__c="old", theirs="theirs", deep__a="theirs")
    os.symlink(out, tmp_path / "link")
    with pytest.raises(OSError):
        with staged_folder(str(tmp_path / "link"), KNOWN, overwrite=True) as stage:
            write(stage, a="new")
            raise OSError
    assert found(out)["a"] == "old"
    with staged_folder(str(tmp_path / "link"), KNOWN, overwrite=True) as stage:
        write(stage, a="new", inner__c="new")
    assert found(out) == {"a": "new", "inner/c": "new", "theirs": "theirs", "deep/a": "theirs"}
    assert sorted(os.listdir(tmp_path)) == ["link", "out"]


def test_a_run_after_an_interrupted_one(tmp_path):
    write(tmp_path / "out.partial", a="half", b__partial="half", inner__c="half")
    os.rename(tmp_path / "out.partial" / "b" / "partial", tmp_path / "out.partial" / "b.partial")
    with staged_folder(str(tmp_path / "out"), KNOWN) as stage:
        write(stage, a="1")
    assert found(tmp_path / "out") == {"a": "1"}


def test_a_folder_of_that_name_which_is_not_ours(tmp_path):
    write(tmp_path / "out.partial", precious="1")
    with pytest.raises(ValueError, match="precious was not written by this command"):
        with staged_folder(str(tmp_path / "out"), KNOWN):
            raise AssertionError
    assert found(tmp_path / "out.partial") == {"precious": "1"}


def test_two_at_once(tmp_path):
    (tmp_path / "out.partial").mkdir()
    with locked(str(tmp_path / "out.partial")):
        with pytest.raises(ValueError, match="another process is using"):
            with staged_folder(str(tmp_path / "out"), KNOWN):
                raise AssertionError
    assert (tmp_path / "out.partial").is_dir()
