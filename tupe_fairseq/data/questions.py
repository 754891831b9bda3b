"""Questions whose answer is a part of a text: files, windows over the text, and SQuAD's metrics.

Files are SQuAD's JSON, or JSON lines or parquet in the layout of `datasets`, whose rows have
question, context and answers: {"text": [...], "answer_start": [...]}.

Rajpurkar et al. 2016 and 2018, https://arxiv.org/abs/1606.05250, https://arxiv.org/abs/1806.03822
"""

import functools
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tupe_fairseq.data.rows import HALF_CHARACTERS, BadRows, RowError, ending_of, read_rows, shown
from tupe_fairseq.data.text_files import printable

if TYPE_CHECKING:
    import numpy as np

#: the longest answer, in tokens
LONGEST = 30
Answer = tuple[str, int]  # its text, and where it begins
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


# ---- Files ------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A question and all its right answers: () if it has no answer, None if they are unknown."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None


def read_questions(path: str, bad: BadRows, labelled: bool = False) -> Iterator[Question]:
    """The usable questions of a file; if ``labelled``, their answers must be known."""
    if ending_of(path) not in (".json", ".jsonl", ".parquet"):
        raise ValueError(f"{path}: questions are in SQuAD's .json, in .jsonl or .parquet")
    use = functools.partial(_question, labelled=labelled)
    columns = ["question", "context"]
    return (question for _, question in read_rows(path, columns, bad, use))


def _question(index: int, row: dict[str, Any], texts: dict[str, Any], labelled: bool) -> Question:
    id, (question, context) = row.get("id"), (row.get(key) for key in ("question", "context"))
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str) or not printable(text).strip():
            raise RowError(f"has {shown(text)} as {name}, not a text", f"no {name}")
    # replaced, not removed, so that answers keep their place
    question, context = (HALF_CHARACTERS.sub("\ufffd", text) for text in (question, context))
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
        text = HALF_CHARACTERS.sub("\ufffd", text)
        if not printable(text).strip():
            problem = f'has the empty answer {text!r:.60}; for no answer write "answers": []'
            raise RowError(problem, "an empty answer")
        there = context[start : start + len(text)] if start >= 0 else ""
        if there != text:
            problem = f"has the answer {text!r:.60}, but its context has {there!r:.60} at {start}"
            raise RowError(problem, "an answer that is not in its text")
    return tuple(found)


# ---- Answers ----------------------------------------------------------------------------------


class Span(NamedTuple):
    """The most likely answer in a window."""

    first: int  # its first and last token, counted from the beginning of the text
    last: int
    score: float  # the probability of its beginning times that of its end
    no_answer: float  # the same for <s>, which stands for no answer


def question_windows(
    question: int, context: int, max_positions: int, stride: int
) -> tuple[int, list[tuple[int, int]]]:
    """How many tokens of a question are kept, and where the windows over its text begin and end.

    A sample is ``<s> question </s> </s> window </s>``; a question may take half of it.
    """
    room = max_positions - 4
    if room < 2:
        raise ValueError(
            f"--max-positions {max_positions} leaves no room for a question and a text"
        )
    question = min(question, room // 2)
    room -= question
    step = room - min(stride, room // 2)
    starts = range(0, max(1, context - room + step), step)
    return question, [(start, min(start + room, context)) for start in starts]


def best_span(logits: "np.ndarray", text: int, start: int = 0) -> Span:
    """The most likely answer in a window, which begins at token ``text`` of the sample and at token
    ``start`` of the whole text.

    Probabilities are over ``<s>`` and the window. Shape: logits (L, 2), of begin and end.
    """
    import numpy as np

    x = np.concatenate([logits[:1], logits[text:-1]]).astype(np.float64)
    shares = np.exp(x - x.max(axis=0))
    shares /= shares.sum(axis=0)
    no_answer, (begins, ends) = float(shares[0].prod()), shares[1:].T
    if not len(begins):
        return Span(start, start, 0.0, no_answer)
    scores = np.triu(np.tril(np.outer(begins, ends), LONGEST - 1))
    first, last = divmod(int(scores.argmax()), len(ends))
    return Span(start + first, start + last, float(scores[first, last]), no_answer)


def best_of_windows(spans: Sequence[Span], may_lack: bool) -> Span | None:
    """The best span of all windows. If questions may lack an answer (``may_lack``), None where all
    windows give no answer a higher score."""
    best = max(spans, key=lambda span: span.score)
    return None if may_lack and min(span.no_answer for span in spans) > best.score else best


def normalized(answer: str) -> str:
    """Lower case, without punctuation, articles and extra spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(target: str, prediction: str) -> float:
    return float(normalized(target) == normalized(prediction))


def answer_f1(target: str, prediction: str) -> float:
    """F1 of the words; if one side has none, 1 if neither has any, else 0."""
    sides = [normalized(answer).split() for answer in (target, prediction)]
    if not all(sides):
        return float(sides[0] == sides[1])
    same = (Counter(sides[0]) & Counter(sides[1])).total()
    return 2 * same / sum(map(len, sides))
