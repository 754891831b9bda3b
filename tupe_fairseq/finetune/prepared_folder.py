"""Whether a folder is a prepared task, by its report.json."""

import os

from tupe_fairseq.files.names import REPORT


def check_is_prepared(folder: str) -> str:
    """Refuse a folder of data that is missing or unfinished; the path of its report.json.

    Args:
        folder (str): OUT/TASK.
    Raises:
        FileNotFoundError: it names --data.
    """
    path = os.path.join(folder, REPORT)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"--data {folder} has no report.json: it is not a finished folder of "
            "tupe-prepare-glue or tupe-prepare-task"
        )
    return path
