"""Predictions of fine-tuned checkpoints, and that the best checkpoint is the best one."""

import numpy as np
import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.glue_training import RATIO, make, records, rows_of, train
from helpers.running import USER_DIR
from tupe_fairseq.data.glue import GLUE_TASKS
from tupe_fairseq.data.metrics import task_metrics
from tupe_fairseq.inference.predict import predict

HEAD = "sentence_classification_head"


@pytest.fixture(scope="module", params=["MRPC", "STS-B"])
def finetuned(request, tmp_path_factory):
    """Task, data, folder of the run, and its validations in their order."""
    task = GLUE_TASKS[request.param]
    data = make(task.name, tmp_path_factory.mktemp("glue") / task.name)
    folder = tmp_path_factory.mktemp("run")
    process = train(task.name, data, folder, *RATIO, 0.1, "--max-epoch", 5, "--lr", 2e-2)
    return task, data, folder, records(process, f"valid_{task.selection}")


@pytest.mark.parametrize("which", ["best", "last"])
def test_the_recorded_score_is_that_of_the_predictions(which, finetuned):
    task, data, folder, validations = finetuned
    checkpoint = folder / f"checkpoint_{which}.pt"
    targets = np.array([label for _, label in rows_of(task.name)["valid"]])
    predictions = predict(checkpoint, data, "valid")
    score = 100 * task_metrics([task.selection], predictions, targets)[task.selection]
    state = torch.load(checkpoint, map_location="cpu")["extra_state"]
    assert state["val_loss"] == pytest.approx(score, abs=1e-3)
    printed = [float(record[f"valid_{task.selection}"]) for record in validations]
    assert len(printed) == 5 and len(set(printed)) > 1
    assert score == pytest.approx(max(printed) if which == "best" else printed[-1], abs=1e-3)


def test_every_row_equals_the_hub_interface(finetuned):
    task, data, folder, _ = finetuned
    hub = RobertaModel.from_pretrained(
        str(folder), "checkpoint_best.pt", str(data), user_dir=USER_DIR, bpe=None
    ).eval()
    dataset = hub.task.load_dataset("test")
    values = predict(folder / "checkpoint_best.pt", data, "test")
    assert len(values) == len(dataset) == 9
    for row, value in enumerate(values):
        tokens = dataset[row]["net_input.src_tokens"]
        logits = hub.predict(HEAD, tokens, return_logits=True)[0]
        if task.is_regression:
            assert value == pytest.approx(logits.item(), abs=1e-5)
        else:
            assert value == logits.argmax().item()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_batch_size_changes_nothing(size, finetuned):
    _, data, folder, _ = finetuned
    checkpoint = folder / "checkpoint_best.pt"
    expected = predict(checkpoint, data, "train")
    values = predict(checkpoint, data, "train", batch_size=size, cpu=True)
    assert values.dtype == expected.dtype and len(values) == 53
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)
