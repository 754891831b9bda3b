"""Which interrupted runs are gone on with, without training."""

import os
from argparse import Namespace
from dataclasses import replace

import pytest
import torch

from helpers.glue_data import write_checkpoint, write_data
from tupe_fairseq.fairseq_runs.save_dir import BEST, LAST
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun, RunSettings
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.finetune.unfinished_run import keep_what_counts

RUN = FineTuningRun(2e-5, 1)
VALID = 'x | valid | {{"epoch": {0}, "valid_mcc": "50.0"}}\n'
TRAIN = 'x | train | {{"epoch": {0}, "train_loss": "0.5"}}\n'


@pytest.fixture
def experiment(tmp_path):
    """Of 4 updates per epoch."""
    data = read_task_data(str(write_data(tmp_path / "CoLA", "CoLA")))
    model = read_pretrained(str(write_checkpoint(tmp_path / "model.pt")))
    (tmp_path / "runs" / RUN.name).mkdir(parents=True)
    found = Experiment(str(tmp_path / "runs"), data, model, RunSettings(epochs=3, batch_size=3))
    assert found.updates_per_epoch == 4
    return found


def leave(experiment, updates, log):
    for name in (BEST, LAST):
        history = [{"num_updates": updates}]
        state = {"args": Namespace(), "model": {}, "optimizer_history": history}
        torch.save(state, experiment.path(RUN, name))
    with open(experiment.path(RUN, "train.log"), "w") as file:
        file.write(log)


def kept(experiment):
    return sorted(name for name in os.listdir(experiment.path(RUN)) if name.endswith(".pt"))


EPOCHS = [VALID.format(number) + TRAIN.format(number) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "updates, log, whole",
    [
        (4, EPOCHS[0], True),
        (4, EPOCHS[0] + VALID.format(2), True),  # killed before the second checkpoint
        (8, EPOCHS[0] + EPOCHS[1], True),
        (12, "".join(EPOCHS), True),
        (4, "", False),
        (4, VALID.format(1), False),
        (8, EPOCHS[0], False),
        (8, EPOCHS[1], False),
        (12, EPOCHS[0] + EPOCHS[1] + VALID.format(3), False),
    ],
)
def test_a_log_that_lags_behind_the_checkpoint(updates, log, whole, experiment, caplog):
    leave(experiment, updates, log)
    keep_what_counts(experiment, RUN)
    assert kept(experiment) == ([BEST, LAST] if whole else [])
    said = "lr2e-5-seed1 begins afresh: train.log lacks the end of an epoch"
    assert (said in caplog.text) != whole


def test_patience_is_not_saved(experiment, caplog):
    leave(experiment, 4, EPOCHS[0])
    settings = replace(experiment.settings, patience=2)
    keep_what_counts(replace(experiment, settings=settings), RUN)
    assert kept(experiment) == []
    assert "begins afresh: fairseq does not save for how many validations" in caplog.text


def test_nothing_was_saved(experiment, caplog):
    keep_what_counts(experiment, RUN)
    assert not caplog.records
