"""Reading a task's labels and indices."""

import pytest

from helpers.glue_data import write_bin, write_data
from tupe_fairseq.finetune.task_data import read_task_data


def test_labels_that_the_dictionary_does_not_list(tmp_path):
    folder = write_data(tmp_path / "CoLA", "CoLA")
    data = read_task_data(str(folder))
    assert data.targets("train").tolist() == [0, 1] * 5
    write_bin(folder / "label" / "train", [[4, 2], [6, 2], *[[4, 2]] * 8])
    with pytest.raises(ValueError, match="has labels that label/dict.txt does not list"):
        data.targets("train")
    write_bin(folder / "label" / "train", [[4, 2]])
    with pytest.raises(ValueError, match="has 1 labels for 10 rows"):
        data.targets("train")


def test_an_index_is_a_line(tmp_path):
    """Whatever is in it: earlier versions took it from the official file as it was."""
    folder = write_data(tmp_path / "CoLA", "CoLA")
    index = ["", "a b", "c\u2028d\r"]
    (folder / "test.index").write_bytes("".join(f"{one}\n" for one in index).encode())
    assert read_task_data(str(folder)).test_index("test") == index


@pytest.mark.parametrize(
    "content, message",
    [
        (b"0\n1\n", "has 2 lines, 2 of them different, for 3 rows"),
        (b"0\n1\n2\n3\n", "has 4 lines"),
        (b"0\n1\n1\n", "has 3 lines, 2 of them different"),
        (b"", "has 0 lines"),
        (b"0\n1\n\xff\n", "is not a text in UTF-8"),
    ],
)
def test_an_index_that_does_not_fit_is_refused_at_once(content, message, tmp_path):
    folder = write_data(tmp_path / "CoLA", "CoLA")
    (folder / "test.index").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_task_data(str(folder))
