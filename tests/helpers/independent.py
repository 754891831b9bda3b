"""References for the package: metrics of other libraries, predictions of fairseq's own model."""

import numpy as np
import torch
from scipy import stats
from seqeval.metrics import f1_score as entity_f1
from sklearn import metrics

from tupe_fairseq.inference.hub import load_model

#: the metrics that are the mean of others
MEANS = {"acc_and_f1": ("accuracy", "f1"), "pearson_and_spearman": ("pearson", "spearman")}


def metric(name, predictions, targets):
    """A library's metric of arrays, of bool (rows, labels) for multilabel, or of lists of tags."""
    if name in MEANS:
        return np.mean([metric(part, predictions, targets) for part in MEANS[name]])
    if name in ("pearson", "spearman"):
        return getattr(stats, f"{name}r")(predictions, targets)[0]
    if name == "entity_f1":
        return entity_f1(targets, predictions)
    if isinstance(targets[0], list):
        predictions, targets = map(np.concatenate, (predictions, targets))
    if name == "accuracy":
        return metrics.accuracy_score(targets, predictions)
    if name == "mcc":
        return metrics.matthews_corrcoef(targets, predictions)
    if name == "f1":
        return metrics.f1_score(targets, predictions, pos_label=1, zero_division=0)
    average = {"macro_f1": "macro", "micro_f1": "micro"}[name]
    return metrics.f1_score(targets, predictions, average=average, zero_division=0)


@torch.no_grad()
def predictions(checkpoint, data, split):
    """For each row the class, the score as in training, bool (C) labels, or its words' tags."""
    model, task = load_model(str(checkpoint), str(data), no_shuffle=True)
    dataset, rows, model = task.load_dataset(split), [], model.eval()
    is_tagging = task.cfg._name == "token_tagging"
    for start in range(0, len(dataset), 32):
        numbers = range(start, min(start + 32, len(dataset)))
        net_input = dataset.collater([dataset[number] for number in numbers])["net_input"]
        head = task.cfg.classification_head_name
        logits, _ = model(**net_input, features_only=True, classification_head_name=head)
        values = logits[:, 0] if logits.size(1) == 1 else logits.argmax(dim=1)
        values = logits > 0 if getattr(task.cfg, "multilabel", False) else values
        counts = net_input["word_starts"].sum(1).tolist() if is_tagging else [1] * len(numbers)
        rows += [part.numpy() for part in values.split(counts)]
    if not is_tagging:
        return np.concatenate(rows)
    sentences = np.array([row for row, _ in dataset.samples])
    return [
        np.concatenate([[], *(rows[n] for n in np.flatnonzero(sentences == sentence))]).astype(int)
        for sentence in range(dataset.num_rows)
    ]
