"""Guesses by their names which columns have the text, a second text, and the label."""

from typing import NamedTuple

from tupe_fairseq.rows.row_file import RowFile
from tupe_fairseq.text.json_texts import names_of

# in order of preference, in lower case
_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "context"),
    ("question", "answer"),
    ("query", "document"),
    ("query", "passage"),
    ("text1", "text2"),
    ("text_a", "text_b"),
)
_TEXTS = (
    "text", "sentence", "tokens", "words", "sentence1", "premise", "question", "content", "review",
    "comment", "document", "query",
)  # fmt: skip
_LABELS = (
    "label", "labels", "gold_label", "target", "targets", "tags", "ner_tags", "pos_tags", "tag",
    "class", "category", "score", "rating",
)  # fmt: skip
_IDS = ("id", "idx", "index", "guid", "uid", "")


class GuessedColumns(NamedTuple):
    """What columns have, by their names.

    Attributes:
        text (str): the column with the text, or the tokens.
        second (str, optional): that with a second text.
        label (str, optional): that with the label, the number or the tags; None if there is none.
        said (str): the same in a sentence, to be printed.
    """

    text: str
    second: str | None
    label: str | None
    said: str


def guess_columns(
    file: RowFile,
    text_flag: str,
    label_flag: str,
    text: str | None = None,
    label: str | None = None,
) -> GuessedColumns:
    """Guess; names in capitals are names as well.

    Args:
        file (RowFile): the file.
        text_flag, label_flag (str): with which columns can be given instead.
        text, label (str, optional): columns that were given, which are taken as they are.
    Raises:
        ValueError: if no column is known to have text; the message lists the columns.
    """
    names: dict[str, str] = {}
    for name in file.columns:
        if name not in (text, label):
            names.setdefault(name.lower(), name)
    if not (file.has_names or file.tags):
        raise ValueError(
            f"{file.path} has no names of columns; give {text_flag} and {label_flag} by number, 1 "
            f"to {len(file.columns)}"
        )
    by_name = next((names[name] for name in _LABELS if name in names), None)
    found_label = label or file.tags or by_name
    if text is not None:
        texts: tuple[str, ...] | None = (text,)
    elif file.tags is not None:
        texts = (file.columns[0],)
    else:
        texts = _texts(names, found_label)
    if texts is None:
        raise ValueError(
            f"{file.path} has no column whose name says that it is the text; give {text_flag}: "
            f"{names_of(file.columns)}"
        )
    second = texts[1] if len(texts) > 1 else None
    roles = {"second text": second, "label": None if label else found_label}
    roles = {"text": None if text else texts[0], **roles}
    said = ", ".join(f"{role} is column {name!r}" for role, name in roles.items() if name)
    advice = f"by their names; {text_flag} and {label_flag} take others"
    if file.tags is not None:
        advice = advice.replace("names", "order")
    return GuessedColumns(texts[0], second, found_label, f"{file.path}: {said} ({advice})")


def _texts(names: dict[str, str], label: str | None) -> tuple[str, ...] | None:
    for pair in _PAIRS:
        if all(name in names for name in pair):
            return tuple(names[name] for name in pair)
    for name in _TEXTS:
        if name in names:
            return (names[name],)
    others = [names[name] for name in names if names[name] != label and name not in _IDS]
    return (others[0],) if len(others) == 1 else None
