"""Which columns of a file have the text, a second text and the label."""

import logging
from typing import NamedTuple

from tupe_fairseq.data.rows import (
    DELIMITED,
    STANDARD_INPUT,
    Row,
    ending_of,
    first_rows,
    quoted,
    read_columns,
)

logger = logging.getLogger(__name__)

# in order of preference, in lower case
_PAIRS = [
    pair.split("+")
    for pair in (
        "sentence1+sentence2 premise+hypothesis question1+question2 question+sentence "
        "question+passage question+context question+answer query+document query+passage "
        "text1+text2 text_a+text_b"
    ).split()
]
_TEXTS = (
    "text sentence tokens words sentence1 premise question content review comment document query"
).split()
_LABELS = (
    "label labels gold_label target targets tags ner_tags pos_tags tag class category score rating"
).split()
_IDS = ("id", "idx", "index", "guid", "uid", "")


class Columns(NamedTuple):
    """Names of columns; ``text2`` is None for single texts, ``label`` if there is none."""

    text: str
    text2: str | None
    label: str | None

    @property
    def texts(self) -> list[str]:
        return [self.text] if self.text2 is None else [self.text, self.text2]


def find_column(path: str, names: list[str], name: str, flag: str) -> str:
    """The column that a user gave by its name, or by its number from 1."""
    if name in names:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return names[int(name) - 1]
    raise ValueError(
        f"{path} has no column {name!r} ({flag}); the columns are {quoted(names)}, or 1 to "
        f"{len(names)}"
    )


def choose_columns(
    path: str,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    *,
    header: bool = True,
    num_texts: int | None = None,
    labelled: bool = False,
) -> Columns:
    """The columns that a user gave by name or number; the others are guessed, and logged.

    Args:
        num_texts: how many texts a row should have, 1 or 2; by default the columns decide.
        labelled: whether a label is needed.
    """
    if path == STANDARD_INPUT:
        return Columns("text", "text2" if num_texts == 2 else None, None)
    names, flags = read_columns(path, header), {"text": text, "text2": text2, "label": label}
    chosen = {role: find_column(path, names, n, f"--{role}") for role, n in flags.items() if n}
    needed = ["text", "label"] if labelled else ["text"]
    if any(role not in chosen for role in needed):
        if ending_of(path) in DELIMITED and not header:
            raise ValueError(f"{path} has no names of columns; give --text by number, from 1")
        wanted = [*needed, "text2"] if num_texts != 1 and not text else needed
        is_conll = ending_of(path) == ".conll"
        guessed = _of_conll(first_rows(path)) if is_conll else _guess(names, chosen)
        guessed = {role: guessed[role] for role in wanted if guessed[role] and role not in chosen}
        chosen.update(guessed)
        for role in needed:
            if role not in chosen:
                raise ValueError(
                    f"{path} has no column whose name says that it is the {role}; give --{role}: "
                    + quoted(names)
                )
        listed = ", ".join(f"--{role} {name!r}" for role, name in guessed.items())
        logger.info("%s: guessed %s", path, listed)
    if len(set(chosen.values())) < len(chosen):
        raise ValueError(f"{path}: one column for two purposes: {quoted(chosen.values())}")
    columns = Columns(chosen["text"], chosen.get("text2"), chosen["label"] if labelled else None)
    if num_texts is not None and num_texts != len(columns.texts):
        raise ValueError(
            f"{path}: the task has {num_texts} texts, not {quoted(columns.texts)}; give --text"
            f"{' alone' if num_texts == 1 else ' and --text2'}"
        )
    return columns


def _of_conll(rows: list[Row]) -> dict[str, str | None]:
    """The first column that does not count the words or name the document, and the last one.

    In CoNLL-U, which has ten columns, the tags are in the fourth.
    """

    def counts(words: list[str]) -> bool:
        return words == [str(n) for n, _ in enumerate(words, words[0] == "1")]

    names = list(rows[0])
    others = (x for x in names if any(len({*r[x]}) > 1 and not counts(r[x]) for r in rows))
    text = next(others, names[0])
    label = names[3] if len(names) == 10 and all(counts(row["1"]) for row in rows) else names[-1]
    return {"text": text, "text2": None, "label": label if label != text else None}


def _guess(names: list[str], chosen: dict[str, str]) -> dict[str, str | None]:
    """The columns by their names."""
    lower = {name.strip().lower(): name for name in reversed(names) if name not in chosen.values()}
    label = chosen.get("label") or next((lower[name] for name in _LABELS if name in lower), None)
    for pair in (*_PAIRS, *((name,) for name in _TEXTS)):
        if all(name in lower for name in pair):
            texts = [lower[name] for name in pair]
            break
    else:
        others = [name for low, name in lower.items() if name != label and low not in _IDS]
        texts = others if len(others) == 1 else [None]
    return {"text": texts[0], "text2": texts[1] if texts[1:] else None, "label": label}
