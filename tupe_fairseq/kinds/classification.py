"""One label of several for a text or a pair of texts."""

from tupe_fairseq.kinds.base import Kind, Metrics

# more labels than this, and than half of the rows, are probably not classes
_MANY_LABELS = 20


class Classification(Kind):
    """Softmax and cross-entropy: the class with the highest probability is predicted."""

    name = "classification"
    help = "a class"
    metrics = ("accuracy", "f1", "macro_f1", "mcc", "acc_and_f1")
    logs_accuracy = True
    hub_task = "sentence_prediction"
    keys = ("label", "probability")
    figure = "confusion"
    problem_type = "single_label_classification"

    def is_spaced(self, cell):
        return cell.strip() != cell

    def check_labels(self, options, rows, seen, column):
        if len(seen) > max(_MANY_LABELS, len(rows) // 2) and not options.labels:
            raise ValueError(
                f"{options.files['train']} has {len(seen)} different labels in {len(rows)} rows; "
                f"is column {column!r} the label (--label)? --kind regression is for numbers"
            )

    def metrics_of(self, labels):
        return Metrics(("accuracy", "macro_f1"), "accuracy")

    def from_numbers(self, rows, task):
        import numpy as np

        return np.concatenate(rows)

    def spell(self, labels, task):
        return [task.labels[number] for number in labels.tolist()]

    def target(self, classes, num_classes):
        if len(classes) != 1:
            raise ValueError(
                f"has {len(classes)} labels; pass --multilabel if rows may have any number"
            )
        return classes[0]

    def values(self, decided, shares, task):
        return task.labels[decided], float(shares[decided])

    def constant(self, train, task):
        """The most frequent class."""
        import numpy as np

        constant = np.bincount(train).argmax()
        return task.labels[constant], constant
