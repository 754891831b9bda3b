"""Which columns of a file have the texts and the label."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tupe_fairseq.data.row_formats import STANDARD_INPUT, Row, ending_of, quoted
from tupe_fairseq.data.rows import first_rows
from tupe_fairseq.kinds.base import all_of

logger = logging.getLogger(__name__)

# lower-case column names, in order of preference
_TEXTS = (
    "sentence1+sentence2 premise+hypothesis question1+question2 question+sentence "
    "question+passage question+context question+answer query+document query+passage "
    "text1+text2 text_a+text_b text sentence tokens words sentence1 premise question content "
    "review comment document query"
).split()
_LABELS = (
    "label labels gold_label target targets tags ner_tags pos_tags tag class category score rating"
).split()
_IDS = ("id", "idx", "index", "guid", "uid", "")


class Columns(NamedTuple):
    """Column names; ``label`` is None if there is no label."""

    texts: tuple[str, ...]
    label: str | None = None

    @property
    def all(self) -> list[str]:
        return [*self.texts, *filter(None, [self.label])]


def find_column(path: str, names: list[str], name: str, flag: str) -> str:
    """The column that a flag names; refused if the file does not have it."""
    if name not in names:
        raise ValueError(f"{path} has no column {name!r} ({flag}); the columns are {quoted(names)}")
    return name


def choose_columns(
    path: str,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    *,
    num_texts: int | None = None,
    labelled: bool = False,
    trained: Mapping[str, Any] | None = None,
) -> Columns:
    """The columns that the flags name; the others are guessed, and the guess is logged.

    Args:
        num_texts: how many texts a row should have, 1 or 2; by default the columns decide.
        labelled: whether a label is needed.
        trained: the columns of the training data, to name them if the file has none like them.
    """
    if path == STANDARD_INPUT:
        return Columns(("text",))
    rows = first_rows(path)
    names = list(dict.fromkeys(name for row in rows for name in row))

    def named(flag: str, *columns: str | None) -> tuple[str, ...]:
        return tuple(find_column(path, names, x, f"--{flag}") for x in columns if x)

    chosen = {"text": named("text", text, text2), "label": named("label", label)}
    needed = ["text", *["label"] * labelled]
    if not all(chosen[role] for role in needed):
        taken = {x for columns in chosen.values() for x in columns}
        lower = {x.strip().lower(): x for x in reversed(names) if x not in taken}
        found = of_conll(rows) if ending_of(path) == ".conll" else _guess(lower)
        found["text"] = found["text"][:num_texts]
        guessed = {role: found[role] for role in needed if found[role] and not chosen[role]}
        chosen |= guessed
        for role in needed:
            if not chosen[role]:
                had = (trained or {}).get("label" if role == "label" else "texts")
                had = f"; training had {quoted(all_of(had))}" if had else ""
                raise ValueError(
                    f"{path}: no column name suggests which one has the {role}; give --{role}; "
                    f"the columns are {quoted(names)}{had}"
                )
        listed = dict(zip(("text", "text2"), guessed.get("text", ())))
        listed |= {role: guessed[role][0] for role in needed[1:] if role in guessed}
        flags = ", ".join(f"--{flag} {name!r}" for flag, name in listed.items())
        if ending_of(path) != ".txt":  # a .txt has only one column
            logger.info("%s: guessed %s", path, flags)
    columns = Columns(chosen["text"], chosen["label"][0] if labelled else None)
    if len({*columns.all}) < len(columns.all):
        raise ValueError(f"{path}: a column is used twice: {quoted(columns.all)}")
    if num_texts not in (None, len(columns.texts)):
        flag = "--text alone" if num_texts == 1 else "--text and --text2"
        raise ValueError(
            f"{path}: the task has {num_texts} texts, not {quoted(columns.texts)}; give {flag}"
        )
    return columns


def of_conll(rows: list[Row]) -> dict[str, tuple[str, ...]]:
    """The words are the first column that is not a word number or a document name, the tags are the
    last one. In CoNLL-U, which has ten columns, the tags are the fourth."""

    def counts(words: list[str]) -> bool:
        return words == [str(n) for n, _ in enumerate(words, words[0] == "1")]

    names = list(rows[0])
    others = (x for x in names if any(len({*r[x]}) > 1 and not counts(r[x]) for r in rows))
    text = next(others, names[0])
    label = names[3] if len(names) == 10 and all(counts(row["1"]) for row in rows) else names[-1]
    return {"text": (text,), "label": (label,) if label != text else ()}


def _guess(lower: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Guess the columns by their lower-case names; a single remaining column is the text."""
    label = tuple(lower[name] for name in _LABELS if name in lower)[:1]
    others = tuple(x for name, x in lower.items() if x not in label and name not in _IDS)
    text = _first(_TEXTS, lower) or (others if len(others) == 1 else ())
    return {"text": text, "label": label}


def _first(names: Iterable[str], lower: dict[str, str]) -> tuple[str, ...]:
    """The first of the names, or of the groups joined by +, whose columns all exist."""
    parts = (name.split("+") for name in names)
    found = next((part for part in parts if all(x in lower for x in part)), [])
    return tuple(lower[x] for x in found)
