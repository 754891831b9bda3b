"""Runs with equal scores: tables, submission and the kept checkpoint name the same best run."""

import json

import numpy as np
import pytest

from helpers.glue_data import write_checkpoint, write_data
from tupe_fairseq.files.steps import keep_settings
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun, RunSettings
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.protocol import run_protocol, settings_of
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS

TASK = GLUE_TASKS["RTE"]


@pytest.fixture
def experiment(tmp_path):
    """Nothing is finished yet."""
    data = read_task_data(str(write_data(tmp_path / "RTE", "RTE")))
    model = read_pretrained(str(write_checkpoint(tmp_path / "model.pt")))
    settings = RunSettings(epochs=2, batch_size=3, gpus=0)
    found = Experiment(str(tmp_path / "runs" / "RTE"), data, model, settings)
    keep_settings(found.folder, settings_of(found))
    return found


def write_run(folder, run, prediction):
    """A finished run: accuracy 0.5, its best checkpoint, and its predictions of the test set."""
    result = {
        "run": run.name, "lr": run.lr_text, "seed": run.seed, "pretrained": True, "updates": 8,
        "diverged": None, "metrics": {"valid": {"accuracy": 0.5}},
    }  # fmt: skip
    (folder / run.name).mkdir(parents=True)
    (folder / run.name / "result.json").write_text(json.dumps(result))
    (folder / run.name / "checkpoint_best.pt").write_text(run.name)
    np.save(folder / run.name / "predictions-test.npy", np.full(3, prediction))


@pytest.mark.parametrize(
    "numbers, best",
    [
        ([(1e-3, 1), (1e-3, 2), (1e-5, 1), (1e-5, 2)], "lr1e-5-seed1"),
        ([(2e-5, 10), (2e-5, 2)], "lr2e-5-seed2"),
    ],
    ids=["rates", "seeds"],
)
def test_all_name_the_first_by_rate_and_seed(numbers, best, experiment, tmp_path):
    """Whose names are not the first as text."""
    runs = [FineTuningRun(*pair) for pair in numbers]
    assert best != min(run.name for run in runs)
    folder = tmp_path / "runs" / "RTE"
    for run in runs:
        write_run(folder, run, int(run.name == best))
    table = run_protocol(experiment, runs, keep_checkpoints=False)
    assert f"| {best} (best) |" in table
    assert json.loads((folder / "results.json").read_text())["best_run"] == best
    assert [path.read_text() for path in folder.glob("*/*.pt")] == [best]
    header, *rows = (tmp_path / "runs" / "submission" / "RTE.tsv").read_text().splitlines()
    assert [row.split("\t")[1] for row in rows] == [TASK.labels[1]] * 3
