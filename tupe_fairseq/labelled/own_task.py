"""What a user says of a task of one's own, before its files are read."""

from dataclasses import dataclass
from typing import Any

from tupe_fairseq.files.fingerprint import content_record

BIO, PLAIN = TAG_SCHEMES = ("bio", "plain")


@dataclass(frozen=True)
class OwnTask:
    """The options of tupe-prepare-task that say what the rows are.

    Args:
        name (str): of the task.
        kind (str): one of :data:`tupe_fairseq.labelled.task_description.KINDS`.
        files (dict): split (train, valid, test) to its file; without valid, a share of train is put
            aside for it.
        text, second_text, label (str, optional): columns by name or number; guessed if None.
        header (bool): whether the first row of .tsv and .csv has the names of the columns.
        labels (tuple of str): classes, labels or tags in the order of the head's outputs; sorted if
            empty.
        separator (str): between the labels of a row of multilabel that are one text.
        tags (str, optional): one of :data:`TAG_SCHEMES`; guessed if None.
        scale (tuple of float, optional): the lowest and the highest score; those of train if None.
        valid_share (float): the share of train that is put aside, above 0 and below 1.
        seed (int): of the draw.
        skip_bad_rows (bool): whether rows that cannot be used are left out and counted.
    """

    name: str
    kind: str
    files: dict[str, str]
    text: str | None = None
    second_text: str | None = None
    label: str | None = None
    header: bool = True
    labels: tuple[str, ...] = ()
    separator: str = ","
    tags: str | None = None
    scale: tuple[float, float] | None = None
    valid_share: float = 0.1
    seed: int = 1
    skip_bad_rows: bool = False

    def record(self) -> dict[str, Any]:
        """All that the data folder depends on, for its steps.json; the files by their bytes.

        Raises:
            OSError: if a file cannot be read.
        """
        options = {
            "kind": self.kind,
            "text": self.text,
            "second text": self.second_text,
            "label": self.label,
            "header": self.header,
            "labels": list(self.labels),
            "label separator": self.separator,
            "tags": self.tags,
            "scale": self.scale and list(self.scale),
            "skip bad rows": self.skip_bad_rows,
        }
        if "valid" not in self.files:
            options.update({"valid share": self.valid_share, "seed": self.seed})
        return {**options, **{name: content_record(path) for name, path in self.files.items()}}
