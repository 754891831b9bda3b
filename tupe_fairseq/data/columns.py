"""Which columns of a file have the texts, the candidates of multiple choice, and the label."""

import logging
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tupe_fairseq.data.rows import (
    STANDARD_INPUT,
    Row,
    RowError,
    ending_of,
    first_rows,
    quoted,
    shown,
)

logger = logging.getLogger(__name__)

# names of columns in lower case, in order of preference
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
# the same of multiple choice, where both texts are asked
_QUESTIONS = (
    "article+question context+question sent1+sent2 premise+question ctx question premise goal "
    "sentence query context prompt stem text"
).split()
_CANDIDATES = "endings choices options candidates answers".split()
_NUMBERED = re.compile(r"(ending|choice|option|sol|answer|candidate)_?(\d|[a-h])")
_ANSWERS = "label answer answerkey answer_key correct gold target".split()


class Columns(NamedTuple):
    """Names of columns; ``label`` is None if there is none, ``candidates`` are one of lists, or
    one for each."""

    texts: tuple[str, ...]
    label: str | None = None
    candidates: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        """Those whose values are read as texts; a column of lists is not."""
        each = self.candidates if len(self.candidates) > 1 else ()
        return [*self.texts, *each, *filter(None, [self.label])]

    def cells(self, row: Row, texts: Row, number: int = 0) -> tuple[list[Any], Any]:
        """The cells of the texts, and that of the label (None: there is none).

        Of multiple choice the question and all candidates, ``number`` of them if it is known, and
        the name of the right one: its number from 0, if the row lists names of candidates.
        """
        if not self.candidates:
            return [texts[name] for name in self.texts], texts.get(self.label)
        for name, value in texts.items():
            if not isinstance(value, str):
                raise RowError(f"has a list in column {name!r}, no text", "a list for a text")
        question = " ".join(texts[name].strip() for name in self.texts).strip()
        listed = row.get(self.candidates[0])
        # of datasets such as ARC: {"text": [...], "label": ["A", ...]}
        names = listed.get("label") or () if isinstance(listed, dict) else ()
        found = listed.get("text") if isinstance(listed, dict) else listed
        if len(self.candidates) > 1:
            found = [texts[name] for name in self.candidates]
        if not isinstance(found, list) or not all(isinstance(x, str) for x in found):
            problem = f"has {shown(found)} in column {self.candidates[0]!r}, no list of texts"
            raise RowError(problem, "no candidates")
        if not all(map(str.strip, [question, *found])):
            what = "candidate" if question else "question"
            raise RowError(f"has an empty {what}", f"empty {what}")
        if len(found) < 2 or number not in (0, len(found)):
            expected = f"{number}, as most rows of train" if number else "2 or more"
            problem = f"has {len(found)} candidates, not {expected}"
            raise RowError(problem, "another number of candidates")
        label = None if self.label is None else texts[self.label].strip()
        return [question, *found], str(names.index(label)) if label in names else label


def find_column(path: str, names: list[str], name: str, flag: str) -> str:
    """The column that a user gave."""
    if name not in names:
        raise ValueError(f"{path} has no column {name!r} ({flag}); the columns are {quoted(names)}")
    return name


def choose_columns(
    path: str,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    candidates: Sequence[str] | None = None,
    *,
    num_texts: int | None = None,
    labelled: bool = False,
) -> Columns:
    """The columns that a user gave; the others are guessed, and logged.

    Args:
        candidates: None if it is not multiple choice.
        num_texts: how many texts a row should have, 1 or 2; by default the columns decide.
        labelled: whether a label is needed.
    """
    if path == STANDARD_INPUT:
        return Columns(("text",))
    rows = first_rows(path)
    names = list(dict.fromkeys(name for row in rows for name in row))

    def given(flag: str, *columns: str | None) -> tuple[str, ...]:
        return tuple(find_column(path, names, x, f"--{flag}") for x in columns if x)

    chosen = {
        "text": given("text", text, text2),
        "candidates": given("candidates", *(candidates or ())),
        "label": given("label", label),
    }
    is_choice = candidates is not None
    needed = ["text", *["candidates"] * is_choice, *["label"] * labelled]
    if not all(chosen[role] for role in needed):
        taken = {x for columns in chosen.values() for x in columns}
        lower = {x.strip().lower(): x for x in reversed(names) if x not in taken}
        if ending_of(path) == ".conll":
            found = of_conll(rows)
        else:
            found = _of_choice(lower, names) if is_choice else _guess(lower)
        found["text"] = found["text"][:num_texts]
        guessed = {role: found[role] for role in needed if found[role] and not chosen[role]}
        chosen |= guessed
        for role in needed:
            if not chosen[role]:
                raise ValueError(
                    f"{path} has no column whose name says that it is the {role}; give --{role}; "
                    f"the columns are {quoted(names)}"
                )
        listed = dict(zip(("text", "text2"), guessed.get("text", ())))
        listed |= {role: ",".join(guessed[role]) for role in needed[1:] if role in guessed}
        named = ", ".join(f"--{flag} {name!r}" for flag, name in listed.items())
        if ending_of(path) != ".txt":  # where a line is the text
            logger.info("%s: guessed %s", path, named)
    of_label = chosen["label"][0] if labelled else None
    columns = Columns(chosen["text"], of_label, chosen["candidates"])
    every = [*columns.texts, *columns.candidates, *filter(None, [columns.label])]
    if len({*every}) < len(every):
        raise ValueError(f"{path}: one column for two purposes: {quoted(every)}")
    if num_texts not in (None, len(columns.texts)):
        flag = "--text alone" if num_texts == 1 else "--text and --text2"
        raise ValueError(
            f"{path}: the task has {num_texts} texts, not {quoted(columns.texts)}; give {flag}"
        )
    return columns


def of_conll(rows: list[Row]) -> dict[str, tuple[str, ...]]:
    """The first column that does not count the words or name the document, and the last one.

    In CoNLL-U, which has ten columns, the tags are in the fourth.
    """

    def counts(words: list[str]) -> bool:
        return words == [str(n) for n, _ in enumerate(words, words[0] == "1")]

    names = list(rows[0])
    others = (x for x in names if any(len({*r[x]}) > 1 and not counts(r[x]) for r in rows))
    text = next(others, names[0])
    label = names[3] if len(names) == 10 and all(counts(row["1"]) for row in rows) else names[-1]
    return {"text": (text,), "label": (label,) if label != text else ()}


def _guess(lower: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The columns by their names in lower case; the only other column is the text."""
    label = tuple(lower[name] for name in _LABELS if name in lower)[:1]
    others = tuple(x for name, x in lower.items() if x not in label and name not in _IDS)
    text = _first(_TEXTS, lower) or (others if len(others) == 1 else ())
    return {"text": text, "label": label}


def _of_choice(lower: dict[str, str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    candidates = _first(_CANDIDATES, lower)
    candidates = candidates or tuple(x for x in names if _NUMBERED.fullmatch(x.lower()))
    answers = [x for x in _ANSWERS if lower.get(x) not in candidates]
    return {
        "text": _first(_QUESTIONS, lower),
        "candidates": candidates,
        "label": _first(answers, lower),
    }


def _first(names: Iterable[str], lower: dict[str, str]) -> tuple[str, ...]:
    """The first column, or columns with + between, that are all there."""
    parts = (name.split("+") for name in names)
    found = next((part for part in parts if all(x in lower for x in part)), [])
    return tuple(lower[x] for x in found)


def names_of(number: int, labels: Counter[str], path: str) -> tuple[str, ...]:
    """What candidates are called, as most labels of train: 0, 1, ..., 1, 2, ..., or A, B, ..."""
    counted = [tuple(map(str, range(first, first + number))) for first in (0, 1)]
    letters = [tuple(x[:number]) for x in (string.ascii_uppercase, string.ascii_lowercase)]
    schemes = [*counted, *letters]
    fits = [sum(labels[name] for name in names) for names in schemes]
    if fits.count(max(fits)) > 1:
        raise ValueError(
            f"{path} has the labels {quoted(sorted(labels))} for {number} candidates, which are "
            "neither letters nor clearly numbers from 0, or from 1; write A, B, ..."
        )
    names = schemes[fits.index(max(fits))]
    logger.info("candidates are called %s", quoted(names))
    return names
