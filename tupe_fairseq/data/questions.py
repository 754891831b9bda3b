"""Questions whose answer is a part of a text: SQuAD's JSON; JSON lines or parquet of `datasets`.

In the latter a row has question, context and answers: {"text": [...], "answer_start": [...]}.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tupe_fairseq.data.rows import BadRows, RowError, ending_of, read_rows, shown
from tupe_fairseq.data.text_files import printable

Answer = tuple[str, int]  # its text, and where it begins
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")


class Question(NamedTuple):
    """A question; ``answers`` are all that are right, () if it has none, None if unknown."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None


def read_questions(path: str, bad: BadRows, labelled: bool = False) -> Iterator[Question]:
    """The questions of a file that can be used; if ``labelled``, those that have answers."""
    if ending_of(path) not in (".json", ".jsonl", ".parquet"):
        raise ValueError(f"{path}: questions are in SQuAD's .json, in .jsonl or .parquet")
    use = functools.partial(_question, labelled=labelled)
    columns = ["question", "context"]
    return (question for _, question in read_rows(path, columns, bad, use, whole=True))


def _question(index: int, row: dict[str, Any], texts: dict[str, Any], labelled: bool) -> Question:
    id, (question, context) = row.get("id"), (row.get(key) for key in ("question", "context"))
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str) or not printable(text).strip():
            raise RowError(f"has {shown(text)} as {name}, no text", f"no {name}")
    # as many characters, so that answers stay where they are
    question, context = (_HALF_CHARACTERS.sub("\ufffd", text) for text in (question, context))
    name, answers = str(index) if id is None else " ".join(str(id).split()), _answers(row, context)
    if labelled and answers is None:
        raise RowError(f"with the id {name} has no answers", "no answers")
    return Question(name, question, context, answers)


def _answers(row: dict[str, Any], context: str) -> tuple[Answer, ...] | None:
    answers = row.get("answers")
    if row.get("is_impossible") is True:
        return ()
    if answers is None:
        return None
    try:
        if isinstance(answers, dict):
            texts, starts = answers["text"], answers["answer_start"]
            if len(texts) != len(starts):
                raise TypeError
            found = list(zip(texts, starts))
        else:
            found = [(answer["text"], answer["answer_start"]) for answer in answers]
    except (KeyError, TypeError):
        problem = f"has the answers {shown(answers)}, not texts with an answer_start for each"
        raise RowError(problem, "answers of another layout") from None
    for text, start in found:
        if not isinstance(text, str) or type(start) is not int:
            problem = f"has the answer {shown(text)} at {shown(start)}; give a text and a number"
            raise RowError(problem, "answers of another layout")
        there = context[start : start + len(text)] if start >= 0 else ""
        text = _HALF_CHARACTERS.sub("\ufffd", text)
        if there != text or not printable(text).strip():
            problem = f"has the answer {text!r:.60}, but its context has {there!r:.60} at {start}"
            raise RowError(problem, "an answer that is not in its text")
    return tuple(found)
