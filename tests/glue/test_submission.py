"""The official format of test predictions."""

import pytest

from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.glue.submission import write_submission


@pytest.mark.parametrize(
    "name, split, predictions, file, lines",
    [
        ("RTE", "test", [0, 1], "RTE.tsv", ["7\tentailment", "8\tnot_entailment"]),
        ("MNLI", "test1", [2, 0], "MNLI-mm.tsv", ["7\tneutral", "8\tcontradiction"]),
        ("MNLI", "test", [1, 1], "MNLI-m.tsv", ["7\tentailment", "8\tentailment"]),
        ("CoLA", "test", [1, 0], "CoLA.tsv", ["7\t1", "8\t0"]),
        ("STS-B", "test", [5.2, 3.14159], "STS-B.tsv", ["7\t5.000", "8\t3.142"]),
        ("STS-B", "test", [-0.3, 0.0], "STS-B.tsv", ["7\t0.000", "8\t0.000"]),
    ],
)
def test_format(name, split, predictions, file, lines, tmp_path):
    path = write_submission(str(tmp_path), GLUE_TASKS[name], split, ["7", "8"], predictions)
    assert path == str(tmp_path / file)
    with open(path, encoding="utf-8") as written:
        assert written.read().splitlines() == ["index\tprediction", *lines]


@pytest.mark.parametrize("index", [["7"], ["7", "7"]], ids=["too_few", "twice"])
def test_rows_that_do_not_fit(index, tmp_path):
    with pytest.raises(ValueError, match=r"2 predictions for \d rows of RTE test"):
        write_submission(str(tmp_path), GLUE_TASKS["RTE"], "test", index, [0, 1])
    assert not any(tmp_path.iterdir())
