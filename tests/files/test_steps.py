"""Finished steps are remembered, and a folder of other settings is refused."""

import pytest

from tupe_fairseq.files.steps import Steps, keep_settings


def test_finished_steps_are_found_again(tmp_path):
    folder = str(tmp_path / "new")
    first = Steps(folder, {"a": 1})
    assert first.result("one") is None
    first.finish("one", {"lines": 3})
    assert Steps(folder, {"a": 1}).result("one") == {"lines": 3}


@pytest.mark.parametrize(
    "now, message",
    [
        ({"a": 1, "b": 3}, "b was 2 and is now 3"),
        ({"a": 1}, "b was 2 and is now None"),
        ({"a": 1, "b": 2, "c": 4}, "c was None and is now 4"),
        ({"b": 2}, "a was 1 and is now None"),
    ],
    ids=["other", "gone", "new", "the_first_gone"],
)
def test_other_settings(now, message, tmp_path):
    keep_settings(str(tmp_path), {"a": 1, "b": 2})
    keep_settings(str(tmp_path), {"b": 2, "a": 1})  # in any order
    with pytest.raises(ValueError, match=f"was made with other settings: {message}; give"):
        keep_settings(str(tmp_path), now)


@pytest.mark.parametrize("content", ["[]", '{"settings": {}}'])
def test_a_file_of_something_else(content, tmp_path):
    (tmp_path / "steps.json").write_text(content)
    with pytest.raises(ValueError, match="was not written by this command"):
        Steps(str(tmp_path), {})


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(ValueError, match="contains other files"):
        Steps(str(tmp_path), {})


def test_an_interrupted_first_write_is_no_other_file(tmp_path):
    (tmp_path / "steps.json.partial").touch()
    keep_settings(str(tmp_path), {"a": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["steps.json"]
