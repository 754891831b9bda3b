"""One label of several for a text or a pair of texts."""

from tupe_fairseq.kinds.base import Kind

# more labels than this, and than half of the rows, are probably not classes
_MANY_LABELS = 20


class Classification(Kind):
    """Softmax and cross-entropy: the class with the highest probability is predicted."""

    name = "classification"
    help = "a class"
    metrics = ("accuracy", "macro_f1", "f1", "mcc", "acc_and_f1")
    converted_task = "sentence_prediction"
    keys = ("label", "probability")
    figure = "confusion"
    problem_type = "single_label_classification"

    def find_labels(self, options, rows, column):
        number = len({*rows})
        if number > max(_MANY_LABELS, len(rows) // 2) and not options.labels:
            raise ValueError(
                f"{options.files['train']} has {number} different labels in {len(rows)} rows; "
                f"is column {column!r} the label (--label)? --kind regression is for numbers"
            )
        return super().find_labels(options, rows, column)
