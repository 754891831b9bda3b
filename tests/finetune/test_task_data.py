"""Reading a task's labels."""

import pytest

from helpers.glue_data import write_bin, write_data
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.glue.tasks import GLUE_TASKS


def test_labels_that_the_dictionary_does_not_list(tmp_path):
    folder = write_data(tmp_path / "CoLA", "CoLA")
    data = read_task_data(str(folder), GLUE_TASKS["CoLA"])
    assert data.targets("train").tolist() == [0, 1] * 5
    write_bin(folder / "label" / "train", [[4, 2], [6, 2], *[[4, 2]] * 8])
    with pytest.raises(ValueError, match="has labels that label/dict.txt does not list"):
        data.targets("train")
    write_bin(folder / "label" / "train", [[4, 2]])
    with pytest.raises(ValueError, match="has 1 labels for 10 rows"):
        data.targets("train")
