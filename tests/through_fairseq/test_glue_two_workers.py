"""Fine-tuning on two workers, one of whom validates an empty batch in the end."""

import pytest
import torch

from helpers.glue_training import RATIO, make, records, train
from helpers.training import two_workers
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.inference.predict import predict
from tupe_fairseq.labelled.metrics import task_metrics


@pytest.mark.parametrize("name", ["MRPC", "STS-B"])
def test_the_score_counts_every_row_once(name, tmp_path):
    data, folder = make(name, tmp_path / name), tmp_path / "run"

    def worker(*distributed):
        return train(
            name, data, folder, *RATIO, 0.25, "--max-epoch", 2, "--find-unused-parameters",
            *distributed,
        )  # fmt: skip

    first, _ = two_workers(worker)
    # 7 batches for two workers
    assert "4 batches per epoch: same as --warmup-updates 2 --total-num-update 8" in first.stdout
    assert max(int(r["num_updates"]) for r in records(first, "lr")) == 8
    # 23 rows are 3 batches for two workers
    checkpoint = folder / "checkpoint_last.pt"
    found = predict(checkpoint, data, "valid")
    selection = GLUE_TASKS[name].selection
    score = torch.load(checkpoint, map_location="cpu")["extra_state"]["val_loss"]
    expected = 100 * task_metrics([selection], *found)[selection]
    assert score == pytest.approx(expected, abs=1e-3)
