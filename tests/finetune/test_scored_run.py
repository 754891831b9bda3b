"""What one fine-tuning run checks of its checkpoints, without training."""

from argparse import Namespace

import pytest
import torch

from helpers.crafted import save, whole_state
from helpers.glue_data import write_checkpoint, write_data
from tupe_fairseq.fairseq_runs.save_dir import BEST, LAST
from tupe_fairseq.fairseq_runs.train import Diverged
from tupe_fairseq.finetune import scored_run
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun, RunSettings
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.task_data import read_task_data

RUN = FineTuningRun(2e-5, 1)


@pytest.fixture
def experiment(tmp_path):
    data = read_task_data(str(write_data(tmp_path / "CoLA", "CoLA")))
    model = read_pretrained(str(write_checkpoint(tmp_path / "model.pt")))
    (tmp_path / "runs" / RUN.name).mkdir(parents=True)
    return Experiment(str(tmp_path / "runs"), data, model, RunSettings(epochs=2, batch_size=3))


def test_a_checkpoint_of_nan_has_diverged(experiment):
    """Its classes are as finite as any: the first of them, always."""
    state = whole_state()
    state["model"]["encoder.lm_head.bias"][3] = float("nan")
    save(state, experiment.path(RUN, BEST))
    with pytest.raises(Diverged, match="the tensor encoder.lm_head.bias holds NaN"):
        scored_run._score(experiment, RUN)


@pytest.mark.parametrize("updates, fp16, fine", [(8, 0, 1), (7, 0, 0), (9, 1, 0), (7, 1, 1)])
def test_number_of_updates(updates, fp16, fine, experiment):
    """10 rows in batches of 3, 2 epochs: 8; in fp16 some may be left out."""
    experiment = Experiment(
        experiment.folder,
        experiment.data,
        experiment.model,
        RunSettings(epochs=2, batch_size=3, fp16=bool(fp16)),
    )
    history = [{"num_updates": updates}]
    state = {"args": Namespace(), "model": {}, "optimizer_history": history}
    torch.save(state, experiment.path(RUN, LAST))
    if fine:
        assert scored_run._updates(experiment, RUN) == updates
    else:
        with pytest.raises(ValueError, match=f"made {updates} updates, but its learning rate was"):
            scored_run._updates(experiment, RUN)


def test_the_recorded_score_is_that_of_the_predictions(experiment):
    state = {"args": Namespace(), "model": {}, "extra_state": {"best": 61.0}}
    torch.save(state, experiment.path(RUN, BEST))
    # 4 rows: one of them may be in doubt
    scored_run._check_recorded(experiment, RUN, 0.8)
    with pytest.raises(ValueError, match="have mcc 0.1000, but fairseq recorded 0.6100"):
        scored_run._check_recorded(experiment, RUN, 0.1)
