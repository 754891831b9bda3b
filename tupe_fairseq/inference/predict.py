"""Predictions of a fine-tuned checkpoint for every row of a split."""

from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.utils import move_to_cuda, safe_getattr
from torch import Tensor

from tupe_fairseq.inference.hub import load_model
from tupe_fairseq.tasks.tagging import WindowedSentences

#: of each row the class, int64 (N,); the score, float32 (N,); whether it has each label,
#: bool (N, C); or the tags of its words, int64 (words,) of N rows
Answers = np.ndarray | list[np.ndarray]


class Predictions(NamedTuple):
    """The rows of a split, in order.

    Args:
        values (np.ndarray or list of np.ndarray): classes, scores on the scale of training, labels
            or tags; see :data:`Answers`.
        targets (the same, optional): the true ones, if the split has labels.
    """

    values: Answers
    targets: Answers | None


@torch.no_grad()
def predict(
    checkpoint: str, data: str, split: str, batch_size: int = 32, cpu: bool = False
) -> Predictions:
    """Predict every row of a split.

    Args:
        checkpoint (str): the file of a model fine-tuned with the task glue_sentence_prediction,
            token_tagging or sentence_prediction.
        data (str): the task's data folder, as given to fairseq-train.
        split (str): train, valid, valid1, test, ...
        batch_size (int): rows per batch, or parts of long sentences whose words get tags; changes
            only speed and rounding.
        cpu (bool): stay on the CPU even if there is a GPU.
    Raises:
        CheckpointError: if the file is refused or damaged, or weights are NaN.
    """
    model, task = load_model(str(checkpoint), str(data), no_shuffle=True)
    dataset = task.load_dataset(split)
    use_cuda = torch.cuda.is_available() and not cpu
    model = (model.cuda() if use_cuda else model).eval()

    values: list[Any] = [None] * len(dataset)
    targets: list[Any] = [None] * len(dataset)
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
        found = [(values, _answers(logits, task.cfg))]
        if "target" in sample:
            found.append((targets, sample["target"]))
        for side, batch in found:
            for row, answer in zip(rows, _by_row(batch.cpu(), net_input.get("word_starts"))):
                side[row] = answer
    has_labels = bool(targets) and targets[0] is not None
    return Predictions(
        _joined(values, dataset, task.cfg),
        _joined(targets, dataset, task.cfg) if has_labels else None,
    )


def _answers(logits: Tensor, cfg) -> Tensor:
    if _is(cfg, "regression_target"):
        return logits.float()
    # of labels those with a probability above one half
    return logits > 0 if _is(cfg, "multilabel") else logits.argmax(dim=1)


def _is(cfg, option: str) -> bool:
    return bool(safe_getattr(cfg, option, False))


def _by_row(batch: Tensor, word_starts: Tensor | None):
    """The part of each row, in a batch of rows or of their words."""
    return batch if word_starts is None else batch.split(word_starts.sum(1).tolist())


def _joined(rows: list[Tensor], dataset, cfg) -> Answers:
    if isinstance(dataset, WindowedSentences):
        return dataset.joined([row.numpy() for row in rows])
    if _is(cfg, "multilabel"):
        return np.array([row.numpy() for row in rows], dtype=bool)
    dtype = np.float32 if _is(cfg, "regression_target") else np.int64
    return np.array([row.item() for row in rows], dtype=dtype)
