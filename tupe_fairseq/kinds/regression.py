"""A score for a text or a pair of texts."""

import logging
import math
import os
from pathlib import Path

from tupe_fairseq.data.row_formats import RowError
from tupe_fairseq.kinds.base import Kind, is_number

logger = logging.getLogger(__name__)


class Regression(Kind):
    """Squared error: the model learns (score - low) / (high - low) of the training set's scores."""

    name = "regression"
    help = "a score"
    flags = ("text2",)
    has_labels = False
    metrics = ("pearson", "spearman", "pearson_and_spearman")
    selection = "pearson_and_spearman"
    switches = ("regression_target",)
    loss_name = "mean squared error, scale 0 to 1"
    converted_task = "sentence_prediction"
    keys = ("score",)
    figure = "scatter"
    problem_type = "regression"

    def read_label(self, cell, words, separator, known):
        label = super().read_label(cell, words, separator, known)
        if not is_number(label):
            raise RowError(f"has the score {label!r}, not a number", "not a number")
        return label

    def find_labels(self, options, rows, column):
        return ()

    def find_scale(self, rows):
        scores = list(map(float, rows))
        low, high = min(scores), max(scores)
        if low == high:
            raise ValueError(f"all scores of train are {low:g}; there is nothing to learn")
        logger.info("the scale is %g to %g, as in train", low, high)
        return low, high

    def strata(self, rows):
        """The decile of each score."""
        strata, number = [0] * len(rows), len(rows)
        for rank, row in enumerate(sorted(range(number), key=lambda row: float(rows[row]))):
            strata[row] = 10 * rank // number
        return strata

    def write_labels(self, task, labels, path, word_lengths):
        low, high = task.scale
        lines = [f"{(float(x) - low) / (high - low)!r}\n" for x in labels]
        Path(f"{path}.label").write_text("".join(lines))

    def read_targets(self, path, num_classes):
        from tupe_fairseq.data.text_files import read_lines

        if not os.path.exists(f"{path}.label"):
            return None
        lines = list(map(str.strip, read_lines(f"{path}.label")))
        if not all(map(is_number, lines)):
            raise ValueError(f"{path}.label has a line without a number")
        return self.unspell(lines, None)

    def spell(self, labels, task):
        return labels.tolist()

    def unspell(self, rows, task):
        import numpy as np

        return np.array(rows, dtype=np.float64)

    def loss(self, logits, targets, weights):
        import torch.nn.functional as F

        return F.mse_loss(logits.view(-1), targets.float(), reduction="sum")

    def decide(self, logits):
        return logits[..., 0]

    def predict(self, logits, task, all_probabilities=False):
        low, high = task.scale or (0.0, 1.0)
        digits = 7 - math.floor(math.log10(high - low))  # float32 has no more
        return {"score": round(low + (high - low) * float(self.decide(logits)), digits)}

    def baseline(self, data):
        """The mean score."""
        mean = data.targets("train").mean()
        return f"{mean:.3f}", lambda split: mean.repeat(data.rows[split])
