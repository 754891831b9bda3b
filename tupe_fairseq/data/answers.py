"""Answers that are a part of a text: windows over it, the best part, and SQuAD's metrics.

Rajpurkar et al. 2016 and 2018, https://arxiv.org/abs/1606.05250, https://arxiv.org/abs/1806.03822
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

#: the longest answer, in tokens
LONGEST = 30
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Span(NamedTuple):
    """The best part of a window.

    Args:
        first, last: its tokens, counted from the begin of the text.
        score: the probability of its begin times that of its end.
        no_answer: the same of ``<s>``, which stands for no answer.
    """

    first: int
    last: int
    score: float
    no_answer: float


def question_windows(
    question: int, context: int, max_positions: int, stride: int
) -> tuple[int, list[tuple[int, int]]]:
    """How much of a question is kept, and where windows over its text begin and end, in tokens.

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
    """The best part of a window's text, which begins at the token ``text`` of the sample.

    Probabilities are over ``<s>`` and the text. Shape: logits (L, 2), of begin and end.

    Args:
        start: where the window begins in the whole text.
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
    """The best of all windows; None if no window is surer of it than all are of no answer.

    Args:
        may_lack: whether there are questions without an answer.
    """
    best = max(spans, key=lambda span: span.score)
    return None if may_lack and min(span.no_answer for span in spans) > best.score else best


def normalized(answer: str) -> str:
    """Lower case, without punctuation, articles and further spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(target: str, prediction: str) -> float:
    return float(normalized(target) == normalized(prediction))


def answer_f1(target: str, prediction: str) -> float:
    """F1 of the words; if one side has none, whether the other has none either."""
    sides = [normalized(answer).split() for answer in (target, prediction)]
    if not all(sides):
        return float(sides[0] == sides[1])
    same = (Counter(sides[0]) & Counter(sides[1])).total()
    return 2 * same / sum(map(len, sides))
