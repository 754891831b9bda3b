"""The task of a fine-tuned checkpoint, from the report.json of its data that is beside it."""

import os
from collections.abc import Sequence

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.names import REPORT
from tupe_fairseq.labelled.task_description import Task
from tupe_fairseq.labelled.task_report import task_of


def described_task(places: Sequence[str]) -> Task:
    """The task that the first report.json with a description describes.

    Args:
        places (sequence of str): folders.
    Raises:
        FileNotFoundError: if there is no report.json.
        ValueError: if none describes a task, or the first that does is damaged.
    """
    seen = []
    for place in places:
        path = os.path.join(place, REPORT)
        if not os.path.isfile(path):
            continue
        seen.append(path)
        report = read_json(path)
        if isinstance(report, dict) and report.get("description") is not None:
            return task_of(report, path)
    if seen:
        raise ValueError(
            f"{' and '.join(seen)}: no description of a task, as of pre-training data or data "
            "prepared by version 0.1.0; prepare the task's data again and give --data, its folder"
        )
    raise FileNotFoundError(
        f"there is no {REPORT} in {' or '.join(places)}, which says what labels are predicted; "
        "give --data, the task's data folder"
    )
