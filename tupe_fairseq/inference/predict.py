"""Predictions of a fine-tuned checkpoint for every row of a split."""

from typing import NamedTuple, Optional

import numpy as np
import torch
from fairseq.utils import move_to_cuda

from tupe_fairseq.plugin.model.restore import restore


class Predictions(NamedTuple):
    """The rows of a split, in order.

    Args:
        values (np.ndarray): the class (int64) or the score (float32) of each row.
        targets (np.ndarray or None): the true ones, if the split has labels.
    """

    values: np.ndarray
    targets: Optional[np.ndarray]


@torch.no_grad()
def predict(
    checkpoint: str, data: str, split: str, batch_size: int = 32, cpu: bool = False
) -> Predictions:
    """Predict every row of a split.

    Args:
        checkpoint (str): the file of a model fine-tuned with the task glue_sentence_prediction or
            sentence_prediction.
        data (str): the task's data folder, as given to fairseq-train.
        split (str): train, valid, valid1, test, ...
        batch_size (int): rows per batch; changes only speed and rounding.
        cpu (bool): stay on the CPU even if there is a GPU.
    Raises:
        CheckpointError: if the file is refused or damaged; ``NotFinite`` if weights are NaN.
    """
    model, _, task = restore(str(checkpoint), {"data": str(data)})
    dataset = task.load_dataset(split)
    use_cuda = torch.cuda.is_available() and not cpu
    model = (model.cuda() if use_cuda else model).eval()

    values, targets = [None] * len(dataset), [None] * len(dataset)
    # by length: less padding
    order = sorted(range(len(dataset)), key=dataset.size)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        sample = dataset.collater([dataset[row] for row in rows])
        net_input = move_to_cuda(sample["net_input"]) if use_cuda else sample["net_input"]
        logits, _ = model(
            **net_input,
            features_only=True,
            classification_head_name=task.cfg.classification_head_name,
        )
        if task.cfg.regression_target:
            batch = logits.view(-1).float()
        else:
            batch = logits.argmax(dim=1)
        for place, row in enumerate(rows):
            values[row] = batch[place].item()
        if "target" in sample:
            for row, target in zip(rows, sample["target"].view(-1).tolist()):
                targets[row] = target
    dtype = np.float32 if task.cfg.regression_target else np.int64
    has_labels = bool(targets) and targets[0] is not None
    return Predictions(
        np.array(values, dtype=dtype), np.array(targets, dtype=dtype) if has_labels else None
    )
