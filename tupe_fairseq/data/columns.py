"""Which columns of a file have the text, a second text, candidates and the label."""

import logging
import re
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from tupe_fairseq.data.rows import (
    DELIMITED,
    STANDARD_INPUT,
    Row,
    RowError,
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
    def text_columns(self) -> list[str]:
        return [self.text] if self.text2 is None else [self.text, self.text2]

    @property
    def needed(self) -> list[str]:
        """Those whose values are read as texts."""
        return [*self.text_columns, *([] if self.label is None else [self.label])]

    def cells(self, row: Row, texts: Row) -> tuple[list[Any], Any]:
        """The cells of the texts, and that of the label (None: there is none)."""
        return [texts[name] for name in self.text_columns], texts.get(self.label)


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
    if num_texts not in (None, len(columns.text_columns)):
        flags = "--text alone" if num_texts == 1 else "--text and --text2"
        given = quoted(columns.text_columns)
        raise ValueError(f"{path}: the task has {num_texts} texts, not {given}; give {flags}")
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


# ---- Multiple choice ----------------------------------------------------------------------------

# in order of preference, in lower case; of two texts both are asked
_QUESTIONS = (
    "article+question context+question sent1+sent2 premise+question ctx question premise goal "
    "sentence query context prompt stem text"
).split()
_LISTS = "endings choices options candidates answers".split()
_NUMBERED = re.compile(r"(ending|choice|option|sol|answer|candidate)_?(\d|[a-h])")
_ANSWERS = "label answer answerkey answer_key correct gold target".split()


class Choices(NamedTuple):
    """Multiple choice: the columns of a question, and of candidates (one of lists, or several)."""

    texts: tuple[str, ...]
    candidates: tuple[str, ...]
    label: str | None
    number: int = 0  # of candidates, if it is known

    @property
    def text_columns(self) -> list[str]:
        return [*self.texts, *self.candidates]

    @property
    def needed(self) -> list[str]:
        return []

    def cells(self, row: Row, texts: Row) -> tuple[list[str], str | None]:
        """The question and all candidates, and the name of the right one.

        That is its number from 0, if the row lists names of candidates.
        """
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
        if self.number and len(found) != self.number:
            problem = f"has {len(found)} candidates, and others {self.number}"
            raise RowError(problem, "another number of candidates")
        if self.label is None:
            return [question, *found], None
        label, lists = _text(row, self.label).strip(), row.get(self.candidates[0])
        if isinstance(lists, dict) and label in (lists.get("label") or ()):
            label = str(lists["label"].index(label))
        return [question, *found], label


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
    text: str | None,
    text2: str | None,
    label: str | None,
    candidates: Sequence[str],
    *,
    header: bool,
    labelled: bool,
) -> Choices:
    """The columns that a user gave; the others are guessed by their names."""
    names = read_columns(path, header)
    lower = {name.lower(): name for name in reversed(names)}

    def given(flag: str, *columns: str | None) -> tuple[str, ...]:
        return tuple(find_column(path, names, x, f"--{flag}") for x in columns if x)

    texts, found = given("text", text, text2), given("candidates", *candidates)
    if not texts:
        pairs = (pair.split("+") for pair in _QUESTIONS)
        pair = next((pair for pair in pairs if all(x in lower for x in pair)), [])
        texts = tuple(lower[x] for x in pair)
    if not found:
        found = tuple(lower[x] for x in _LISTS if x in lower)[:1]
        found = found or tuple(name for name in names if _NUMBERED.fullmatch(name.lower()))
    labels = given("label", label) or tuple(lower[x] for x in _ANSWERS if x in lower)
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
