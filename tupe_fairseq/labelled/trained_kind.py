"""What kind of task a checkpoint was trained for, and whether a task is of this kind."""

from collections.abc import Mapping
from typing import Any

from tupe_fairseq.labelled.task_description import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    Task,
)


def trained_kind(options: Mapping[str, Any]) -> str:
    """The kind, by the options of fairseq's task.

    Args:
        options (mapping): those of a checkpoint; what was not given may be missing or None.
    """
    if options.get("task") == "token_tagging":
        return TAGGING
    if options.get("multilabel"):
        return MULTILABEL
    return REGRESSION if options.get("regression_target") else CLASSIFICATION


def check_kind(path: str, kind: str, outputs: int, task: Task) -> None:
    """Refuse a task that is not the one of a checkpoint.

    Args:
        path (str): the checkpoint's name, for messages.
        kind (str): what it was trained for.
        outputs (int): of its head.
        task (Task): the task whose labels are to be predicted.
    Raises:
        ValueError: if it is of another kind, or has another number of labels.
    """
    advice = "give --data, the folder that it was fine-tuned with"
    if kind != task.kind:
        raise ValueError(
            f"{path} was fine-tuned for {kind}, but the task {task.name} beside it is a "
            f"{task.kind}; {advice}"
        )
    if outputs != task.num_classes:
        raise ValueError(
            f"the head of {path} has {outputs} outputs, but the task {task.name} beside it "
            f"{task.num_classes} labels; {advice}"
        )
