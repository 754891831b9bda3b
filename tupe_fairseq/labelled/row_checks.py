"""What a row may not have: each check says what is wrong, for this row and for all like it."""

from tupe_fairseq.labelled.bio_tags import first_break
from tupe_fairseq.labelled.label_values import shown
from tupe_fairseq.labelled.own_rows import Check, OwnRow
from tupe_fairseq.labelled.own_task import PLAIN
from tupe_fairseq.labelled.task_rows import as_tuple


def check_bio(row: OwnRow) -> tuple[str, str] | None:
    """Refuses tags that are not BIO."""
    tags = as_tuple(row.label or ())
    place = first_break(tags)
    if place is None:
        return None
    before = f"after {shown(tags[place - 1])}" if place else "at the beginning"
    return (
        f"word {place + 1}, {shown(row.texts[place])}, has the tag {shown(tags[place])} {before}, "
        f"which is not BIO (--tags {PLAIN} takes tags as they are)",
        "not BIO",
    )


def check_scale(scale: tuple[float, float]) -> Check:
    """Refuses scores outside a scale."""
    low, high = scale

    def check(row: OwnRow) -> tuple[str, str] | None:
        (label,) = as_tuple(row.label or ())
        if low <= float(label) <= high:
            return None
        message = f"the score {shown(label)} is not within --scale {low:g},{high:g}"
        return message, "score outside the scale"

    return check


def check_labels(labels: tuple[str, ...], problem: str) -> Check:
    """Refuses other labels than these; what is wrong with others is said by ``problem``."""
    known = set(labels)

    def check(row: OwnRow) -> tuple[str, str] | None:
        unknown = next((one for one in as_tuple(row.label or ()) if one not in known), None)
        if unknown is None:
            return None
        return f"the label {shown(unknown)} {problem}", "unknown label"

    return check
