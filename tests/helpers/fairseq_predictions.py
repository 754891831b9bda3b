"""Predictions for a split by fairseq's own model and task, as it validates."""

import numpy as np
import torch

from tupe_fairseq.inference.hub import load_model


@torch.no_grad()
def predict(checkpoint, data, split, batch_size=32):
    """Of each row the class, the score as in training, bool (C) labels, or its words' tags."""
    model, task = load_model(str(checkpoint), str(data), no_shuffle=True)
    dataset, rows, model = task.load_dataset(split), [], model.eval()
    is_tagging = task.cfg._name == "token_tagging"
    for start in range(0, len(dataset), batch_size):
        numbers = range(start, min(start + batch_size, len(dataset)))
        net_input = dataset.collater([dataset[number] for number in numbers])["net_input"]
        head = task.cfg.classification_head_name
        logits, _ = model(**net_input, features_only=True, classification_head_name=head)
        values = logits[:, 0] if logits.size(1) == 1 else logits.argmax(dim=1)
        values = logits > 0 if getattr(task.cfg, "multilabel", False) else values
        counts = net_input["word_starts"].sum(1).tolist() if is_tagging else [1] * len(numbers)
        rows += [part.numpy() for part in values.split(counts)]
    if not is_tagging:
        return np.concatenate(rows)
    sentences = dataset.windows[:, 0]
    return [
        np.concatenate([[], *(rows[n] for n in np.flatnonzero(sentences == sentence))]).astype(int)
        for sentence in range(len(dataset.tokens))
    ]
