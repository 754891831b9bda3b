"""The folder of a finished fine-tuning, written without training."""

import json

import numpy as np

from helpers.glue_data import ROWS, write_checkpoint, write_data
from tupe_fairseq.files.steps import keep_settings
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun, RunSettings
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.protocol import run_protocol, settings_of
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS

RUN = FineTuningRun(2e-5, 1)


def finished_experiment(folder, name):
    """FOLDER/TASK, model.pt, and FOLDER/runs/TASK with one finished run; its predictions are 1."""
    task = GLUE_TASKS[name]
    data = read_task_data(str(write_data(folder / name, name)))
    model = read_pretrained(str(write_checkpoint(folder / "model.pt")))
    settings = RunSettings(epochs=2, batch_size=3, gpus=0)
    experiment = Experiment(str(folder / "runs" / name), data, model, settings)
    keep_settings(experiment.folder, settings_of(experiment))
    of_run = folder / "runs" / name / RUN.name
    of_run.mkdir()
    scores = {split: dict.fromkeys(metric_names(task), 0.5) for split in data.splits("valid")}
    result = {
        "run": RUN.name, "lr": RUN.lr_text, "seed": RUN.seed, "pretrained": True, "updates": 8,
        "diverged": None, "metrics": scores,
    }  # fmt: skip
    (of_run / "result.json").write_text(json.dumps(result))
    for split in data.splits("test"):
        kind = np.float64 if task.is_regression else np.int64
        np.save(of_run / f"predictions-{split}.npy", np.ones(ROWS["test"], dtype=kind))
    return experiment


def run_again(experiment):
    """The same command once more; its data are read anew."""
    data = read_task_data(experiment.data.folder)
    now = Experiment(experiment.folder, data, experiment.model, experiment.settings)
    return run_protocol(now, [RUN], keep_checkpoints=False)
