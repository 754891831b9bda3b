"""What one run checks of its checkpoints, without training."""

import pytest
import torch
from finetune_files import write_checkpoint, write_data

from tupe_fairseq.finetune import one_run
from tupe_fairseq.finetune.command import FineTuning
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.grid import Run
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.protocol import finished_runs
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.glue.tasks import GLUE_TASKS
from tupe_fairseq.training.checkpoints import BEST, LAST, discard_damaged

RUN = Run(2e-5, 1)


@pytest.fixture
def experiment(tmp_path):
    data = read_task_data(str(write_data(tmp_path / "CoLA", "CoLA")), GLUE_TASKS["CoLA"])
    model = read_pretrained(str(write_checkpoint(tmp_path / "model.pt")))
    (tmp_path / "runs" / RUN.name).mkdir(parents=True)
    return Experiment(str(tmp_path / "runs"), data, model, FineTuning(epochs=2, batch_size=3))


@pytest.mark.parametrize(
    "new, other",
    [
        ("none", None),
        ("classification_heads.head.dense.weight, encoder.vocabulary_version", None),
        ("classification_heads.head.dense.weight, encoder.lm_head.bias", "encoder.lm_head.bias"),
    ],
)
def test_only_the_head_may_be_new(new, other):
    line = f"loaded 3 of 4 tensors; newly initialized: {new}; in the file, but not here: none"
    if other is None:
        one_run._check_loaded(line, "train.log")
    else:
        with pytest.raises(ValueError, match=f"only part of --checkpoint was loaded, not {other}$"):
            one_run._check_loaded(line, "train.log")


def test_nothing_loaded():
    with pytest.raises(ValueError, match="no tensor was loaded from --checkpoint; see train.log"):
        one_run._check_loaded(None, "train.log")


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
def test_a_checkpoint_cut_short_is_made_again(whole, experiment, tmp_path):
    for name in (BEST, LAST):
        write_checkpoint(experiment.path(RUN, name))
    if not whole:
        with open(experiment.path(RUN, LAST), "r+b") as file:
            file.truncate(500)
    discard_damaged(experiment.path(RUN))
    left = sorted(path.name for path in (tmp_path / "runs" / RUN.name).iterdir())
    assert left == ([BEST, LAST] if whole else [])


@pytest.mark.parametrize("updates, fp16, fine", [(8, 0, 1), (7, 0, 0), (9, 1, 0), (7, 1, 1)])
def test_number_of_updates(updates, fp16, fine, experiment):
    """10 rows in batches of 3, 2 epochs: 8; in fp16 some may be left out."""
    experiment = Experiment(
        experiment.folder,
        experiment.data,
        experiment.model,
        FineTuning(epochs=2, batch_size=3, fp16=bool(fp16)),
    )
    history = [{"num_updates": updates}]
    torch.save({"optimizer_history": history}, experiment.path(RUN, LAST))
    if fine:
        assert one_run._updates(experiment, RUN) == updates
    else:
        with pytest.raises(ValueError, match=f"made {updates} updates, and its learning rate was"):
            one_run._updates(experiment, RUN)


def test_the_recorded_score_is_that_of_the_predictions(experiment):
    torch.save({"extra_state": {"best": 61.0}}, experiment.path(RUN, BEST))
    # 4 rows: one of them may be in doubt
    one_run._check_recorded(experiment, RUN, 0.8)
    with pytest.raises(ValueError, match="have mcc 0.1000, and fairseq recorded 0.6100"):
        one_run._check_recorded(experiment, RUN, 0.1)


def test_finished_runs_are_those_with_a_result(experiment, tmp_path):
    for name in ("lr1e-5-seed2", "lr0.001-seed1", "lr1e-05-seed3", "lrx-seed1", "notes"):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "result.json").write_text("{}")
    assert finished_runs(experiment) == [Run(1e-3, 1), Run(1e-5, 2)]
