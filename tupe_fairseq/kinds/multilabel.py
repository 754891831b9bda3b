"""Any number of labels for a text or a pair of texts, or none."""

import logging

from tupe_fairseq.data.row_formats import RowError
from tupe_fairseq.data.rows import refuse_list
from tupe_fairseq.kinds.base import Kind

logger = logging.getLogger(__name__)


class Multilabel(Kind):
    """A sigmoid and binary cross-entropy for each label: those above one half are predicted."""

    name = "multilabel"
    help = "any number of labels"
    flags = ("label_separator", "labels", "text2")
    many = may_be_empty = True
    metrics = ("micro_f1", "macro_f1")
    switches = ("multilabel",)
    keys = ("labels", "probabilities")
    problem_type = "multi_label_classification"

    def split(self, cell, separator):
        if not isinstance(cell, str):
            return cell
        refuse_list(cell, True)
        return cell.split(separator) if cell.strip() else []

    def read_label(self, cell, words, separator, known):
        label = super().read_label(cell, words, separator, known)
        for one in label:
            if label.count(one) > 1:
                problem = f"has the label {one!r} twice; give names, not 0 and 1"
                raise RowError(problem, "a label twice")
        return label

    def find_labels(self, options, rows, column):
        if max(map(len, rows)) == 1 and {*";|/、，；،؛"} & {*"".join(map("".join, rows))}:
            text = "no row of %s has two labels; is %r between them (--label-separator)?"
            logger.warning(text, options.files["train"], options.label_separator)
        return super().find_labels(options, rows, column)

    def from_numbers(self, rows, num_classes):
        import numpy as np

        targets = np.zeros((len(rows), num_classes), dtype=bool)
        for target, row in zip(targets, rows):
            target[row] = True
        return targets

    def numbers(self, labels):
        import numpy as np

        return (np.flatnonzero(row).tolist() for row in labels)

    def loss(self, logits, targets, weights):
        import torch.nn.functional as F

        loss = F.binary_cross_entropy_with_logits(
            logits, targets.float(), pos_weight=weights, reduction="sum"
        )
        return loss / logits.size(1)

    def decide(self, logits):
        return logits > 0

    def class_weights(self, train, task):
        """The number of rows without a label divided by the number with it."""
        import numpy as np

        counts = train.sum(axis=0)
        with np.errstate(divide="ignore"):
            return counts, (len(train) - counts) / counts

    def probabilities(self, logits):
        import numpy as np

        return np.exp(-np.logaddexp(0, -logits.astype(np.float64)))

    def decisions(self, logits, target):
        """Whether the row has a label, for each of them."""
        import numpy as np

        shares = self.probabilities(logits)
        return np.maximum(shares, 1 - shares), self.decide(logits) == target
