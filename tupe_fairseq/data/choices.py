"""Multiple choice: a question, candidates, and which of them is right."""

import re
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from tupe_fairseq.data.columns import find_column
from tupe_fairseq.data.rows import Row, RowError, quoted, read_columns

# in order of preference, in lower case; of two texts both are asked
_TEXTS = (
    "article+question context+question sent1+sent2 premise+question ctx question premise goal "
    "sentence query context prompt stem text"
).split()
_LISTS = "endings choices options candidates answers".split()
_NUMBERED = re.compile(r"(ending|choice|option|sol|answer|candidate)_?(\d|[a-h])")
_LABELS = "label answer answerkey answer_key correct gold target".split()


class Choices(NamedTuple):
    """The columns of the texts of a question, of candidates (one with lists, or several)."""

    texts: tuple[str, ...]
    candidates: tuple[str, ...]
    label: str | None

    def read(self, row: Row) -> tuple[str, ...]:
        """The question, and all candidates."""
        question = " ".join(_text(row, name).strip() for name in self.texts).strip()
        if not question:
            raise RowError("has an empty question", "empty question")
        if len(self.candidates) > 1:
            found = [_text(row, name) for name in self.candidates]
        else:
            found = _listed(row.get(self.candidates[0]))
            if not isinstance(found, list) or not all(isinstance(x, str) for x in found):
                problem = f"has {found!r:.40} in column {self.candidates[0]!r}, no list of texts"
                raise RowError(problem, "no candidates")
        if len(found) < 2 or not all(map(str.strip, found)):
            problem = f"has {len(found)} candidates" if len(found) < 2 else "has an empty candidate"
            raise RowError(problem, "candidates")
        return question, *found

    def label_of(self, row: Row) -> str:
        """The name of the right candidate; its number from 0, if the row lists the names."""
        label = _text(row, str(self.label)).strip()
        lists = row.get(self.candidates[0])
        if isinstance(lists, dict) and label in (lists.get("label") or ()):
            return str(lists["label"].index(label))
        return label


def _listed(value: Any) -> Any:
    """Candidates of datasets such as ARC: {"text": [...], "label": ["A", ...]}."""
    return value.get("text") if isinstance(value, dict) else value


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise RowError(f"has {value!r:.40} in column {name!r}, no text", "no text")
    return str(value)


def choose_choices(
    path: str,
    header: bool,
    text: str | None,
    text2: str | None,
    candidates: Sequence[str],
    label: str | None,
    labelled: bool,
) -> Choices:
    """The columns that a user gave; the others are guessed by their names."""
    names = read_columns(path, header)
    lower = {name.lower(): name for name in reversed(names)}

    def given(flag: str, *columns: str | None) -> tuple[str, ...]:
        return tuple(find_column(path, names, x, f"--{flag}") for x in columns if x)

    texts, found = given("text", text, text2), given("candidates", *candidates)
    if not texts:
        pairs = (pair.split("+") for pair in _TEXTS)
        pair = next((pair for pair in pairs if all(x in lower for x in pair)), [])
        texts = tuple(lower[x] for x in pair)
    if not found:
        found = tuple(lower[x] for x in _LISTS if x in lower)[:1]
        found = found or tuple(name for name in names if _NUMBERED.fullmatch(name.lower()))
    labels = given("label", label) or tuple(lower[x] for x in _LABELS if x in lower)
    right = next((x for x in labels if x not in found), None) if labelled else None
    for flag, value in (("text", texts), ("candidates", found), ("label", right or not labelled)):
        if not value:
            raise ValueError(f"{path}: which column is --{flag}? It has {quoted(names)}")
    return Choices(texts, found, right)


def names_of(number: int, seen: set[str], path: str) -> tuple[str, ...]:
    """What candidates are called: 0, 1, ..., or 1, 2, ..., or A, B, ..., by the labels of train."""
    counted = [tuple(map(str, range(first, first + number))) for first in (0, 1)]
    letters = [
        tuple(letters[:number]) for letters in (string.ascii_uppercase, string.ascii_lowercase)
    ]
    for names in (*counted, *letters):
        if seen <= set(names):
            return names
    raise ValueError(
        f"{path} has the labels {quoted(sorted(seen))} for {number} candidates, not 0, 1, ..., or "
        "1, 2, ..., or A, B, ...; list their names in --labels"
    )
