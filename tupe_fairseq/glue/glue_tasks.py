"""The nine GLUE tasks as officially distributed: files, columns, labels, metrics."""

from dataclasses import dataclass, field

from tupe_fairseq.labelled.task_description import CLASSIFICATION, REGRESSION, Task

ACCURACY = ("accuracy",)


@dataclass(frozen=True)
class GlueTask:
    """One task.  Columns count from 1, as in the official descriptions.

    Args:
        name (str): the name of the task and of its folder.
        texts (tuple of int): the column of the sentence, or those of the two sentences.
        label (int): the label's column in train.tsv.
        labels (tuple of str): the labels in the order of the classes; empty for a regression.
        metrics (tuple of str): what is reported, out of accuracy, f1, mcc, pearson, spearman.
        selection (str): the metric by which checkpoints are picked; acc_and_f1 and
            pearson_and_spearman are means of the two.
        epochs (int): the paper's number of epochs.
        header (bool): whether train and dev begin with a line of column names; test always does.
        dev_label (int): the label's column in dev files, if different.
        test_texts (tuple of int): the sentences' columns in test files, if different.
        fields (int): the number of fields of a valid line of train and dev, if other lines
            must be dropped; otherwise further fields are ignored.
        no_label (str): the label that marks unlabelled rows, which are dropped.
        files (dict): split to file name; the order is fairseq's numbering.
        submissions (dict): test split to the official name of the predictions' file.
    """

    name: str
    texts: tuple[int, ...]
    label: int
    labels: tuple[str, ...] = ("0", "1")
    metrics: tuple[str, ...] = ACCURACY
    selection: str = "accuracy"
    epochs: int = 10
    header: bool = True
    dev_label: int | None = None
    test_texts: tuple[int, ...] | None = None
    fields: int | None = None
    no_label: str | None = None
    files: dict[str, str] = field(
        default_factory=lambda: {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
    )
    submissions: dict[str, str] = field(default_factory=dict)

    @property
    def is_pair(self) -> bool:
        return len(self.texts) == 2

    @property
    def is_regression(self) -> bool:
        return not self.labels

    @property
    def num_classes(self) -> int:
        """The outputs of the head: 1 for a regression."""
        return len(self.labels) or 1

    @property
    def task(self) -> Task:
        """What is learned, without where the official files have it."""
        return Task(
            name=self.name,
            kind=REGRESSION if self.is_regression else CLASSIFICATION,
            labels=self.labels,
            texts=len(self.texts),
            splits=tuple(self.files),
            metrics=self.metrics,
            selection=self.selection,
            epochs=self.epochs,
            scale=(0.0, STSB_MAX_SCORE) if self.is_regression else None,
            benchmark="GLUE",
        )

    def submission(self, split: str) -> str:
        """The file name of the predictions for a test split."""
        return self.submissions.get(split, f"{self.name}.tsv")


ENTAILMENT = ("entailment", "not_entailment")

# STS-B scores range from 0 to this; the model is trained on scores divided by it.
STSB_MAX_SCORE = 5.0

GLUE_TASKS = {
    task.name: task
    for task in (
        GlueTask(
            "CoLA",
            texts=(4,),
            label=2,
            metrics=("mcc",),
            selection="mcc",
            header=False,
            test_texts=(2,),
        ),
        GlueTask("SST-2", texts=(1,), label=2, test_texts=(2,)),
        GlueTask("MRPC", texts=(4, 5), label=1, metrics=("f1", "accuracy"), selection="acc_and_f1"),
        GlueTask(
            "STS-B",
            texts=(8, 9),
            label=10,
            labels=(),
            metrics=("pearson", "spearman"),
            selection="pearson_and_spearman",
        ),
        GlueTask(
            "QQP",
            texts=(4, 5),
            label=6,
            metrics=("f1", "accuracy"),
            selection="acc_and_f1",
            epochs=5,
            test_texts=(2, 3),
            fields=6,
        ),
        GlueTask(
            "MNLI",
            texts=(9, 10),
            label=12,
            labels=("contradiction", "entailment", "neutral"),
            epochs=5,
            dev_label=16,
            no_label="-",
            files={
                "train": "train.tsv",
                "valid": "dev_matched.tsv",
                "valid1": "dev_mismatched.tsv",
                "test": "test_matched.tsv",
                "test1": "test_mismatched.tsv",
            },
            submissions={"test": "MNLI-m.tsv", "test1": "MNLI-mm.tsv"},
        ),
        GlueTask("QNLI", texts=(2, 3), label=4, labels=ENTAILMENT, epochs=5),
        GlueTask("RTE", texts=(2, 3), label=4, labels=ENTAILMENT),
        GlueTask("WNLI", texts=(2, 3), label=4),
    )
}


def task_named(name: str) -> GlueTask:
    """The task of this name.

    Raises:
        ValueError: if there is none; the message lists the known names.
    """
    if name not in GLUE_TASKS:
        raise ValueError(f"there is no GLUE task {name!r}; the tasks are {', '.join(GLUE_TASKS)}")
    return GLUE_TASKS[name]
