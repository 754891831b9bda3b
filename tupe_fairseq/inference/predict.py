"""Predictions of a fine-tuned checkpoint for every row of a split."""

from typing import Any

import numpy as np
import torch
from fairseq.utils import move_to_cuda, safe_getattr

from tupe_fairseq.inference.hub import load_model
from tupe_fairseq.tasks.tagging import WindowedSentences


def predict(*args: Any, **options: Any) -> np.ndarray | list[np.ndarray]:
    """The predictions of :func:`predict_with_probabilities`."""
    return predict_with_probabilities(*args, **options)[0]


@torch.no_grad()
def predict_with_probabilities(
    checkpoint: str, data: str, split: str, batch_size: int = 32, cpu: bool = False
) -> tuple[np.ndarray | list[np.ndarray], np.ndarray | None]:
    """Of each row the class, int64 (N); the score as in training, float32 (N); whether it has
    each label, bool (N, C); or the tags of its words, N of int64 (words).

    And the probability of the class, float32 (N), or of each label (N, C).

    Args:
        data: the task's data folder, as given to fairseq-train.
        batch_size: rows of a batch, or windows of long sentences; changes only rounding.
        cpu: stay on the CPU even if there is a GPU.
    """
    model, task = load_model(str(checkpoint), str(data), no_shuffle=True)
    dataset = task.load_dataset(split)
    is_regression = safe_getattr(task.cfg, "regression_target", False)
    is_multilabel = safe_getattr(task.cfg, "multilabel", False)
    dtype = np.float32 if is_regression else bool if is_multilabel else np.int64
    use_cuda = torch.cuda.is_available() and not cpu
    model = (model.cuda() if use_cuda else model).eval()

    rows: list[Any] = [None] * len(dataset)
    probabilities: list[Any] = [None] * len(dataset)
    # by length: less padding
    order = sorted(range(len(dataset)), key=dataset.size)
    for start in range(0, len(order), batch_size):
        numbers = order[start : start + batch_size]
        net_input = dataset.collater([dataset[number] for number in numbers])["net_input"]
        logits, _ = model(
            **(move_to_cuda(net_input) if use_cuda else net_input),
            features_only=True,
            classification_head_name=task.cfg.classification_head_name,
        )
        if is_regression:
            values = logits[:, 0].float()
        else:  # of several labels those with a probability above one half
            values = logits > 0 if is_multilabel else logits.argmax(dim=1)
            shares = (
                logits.float().sigmoid() if is_multilabel else logits.float().softmax(1).amax(1)
            )
            for number, share in zip(numbers, shares.cpu().numpy()):
                probabilities[number] = share
        values = values.cpu()
        if "word_starts" in net_input:
            values = values.split(net_input["word_starts"].sum(1).tolist())
        for number, row in zip(numbers, values):
            rows[number] = row.numpy()
    if isinstance(dataset, WindowedSentences):
        return dataset.by_sentence(rows), None
    return np.array(rows, dtype), None if is_regression else np.array(probabilities)
