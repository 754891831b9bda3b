"""Vectors and predictions for any number of texts, in batches of similar length."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tupe_fairseq.data.dictionary import BOS, EOS, PAD, UNK
from tupe_fairseq.data.questions import Span, best_of_windows, best_span, question_windows
from tupe_fairseq.data.task import OF_CLASSES, Task
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.data.truncation import pair_lengths, windows
from tupe_fairseq.modules.heads import POOLINGS

#: the keys of a prediction, for each kind of task
PREDICTED = {
    **dict.fromkeys(OF_CLASSES, ("label", "probability")),
    "regression": ("score",),
    "multilabel": ("labels", "probabilities"),
    "tagging": ("tags",),
    "qa": ("answer", "start", "end", "score"),
}
#: the key of the probabilities of all labels
ALL = "all_probabilities"
_DIGITS = 6

#: the texts of each row; for tagging, the words of a sentence
Rows = Sequence[Sequence[str]]
#: the same as tokens
TokenRows = Sequence[Sequence[list[int]]]
#: hidden states (B, L, D) and real tokens, bool (B, L) -> a tensor with B rows
Finish = Callable[[Tensor, Tensor], Tensor]


def embed(
    rows: Rows,
    tokenizer: Tokenizer,
    encoder: Any,
    pooling: str = "mean",
    batch_tokens: int | None = None,
    counts: Counter | None = None,
) -> list[np.ndarray]:
    """The vector of each row, float32 (D), by one of ``POOLINGS``. Long rows are truncated.

    Adds the numbers of rows, tokens, unknown tokens, truncated and empty rows to ``counts``.
    """
    encoded = [list(map(tokenizer.encode, texts)) for texts in rows]
    sequences = join_texts(encoded, encoder.config.max_positions, counts)
    return run(encoder, sequences, POOLINGS[pooling], batch_tokens)


def encode_rows(rows: Rows, task: Task, tokenizer: Tokenizer) -> TokenRows:
    """The tokens of each text of a row; for tagging, of each word."""
    if task.kind == "tagging":
        return [tokenizer.encode_words(words) for words in rows]
    return [list(map(tokenizer.encode, texts)) for texts in rows]


def logits_of_tokens(
    rows: TokenRows,
    task: Task,
    encoder: Any,
    head: Finish,
    batch_tokens: int | None = None,
    counts: Counter | None = None,
) -> list[np.ndarray]:
    """The head's outputs for each row, float32 (C); for tagging, those of its words, (words, C).

    For a question, the input of :func:`answer`.
    """
    if task.kind == "tagging":
        return _logits_of_words(rows, task, encoder, head, batch_tokens, counts)
    if task.kind == "qa":
        return _spans(rows, task, encoder, head, batch_tokens, counts)
    if task.kind == "choice":  # each candidate with the question
        pairs = [(question, one) for question, *candidates in rows for one in candidates]
        of_pairs: Counter = Counter()
        sequences = join_texts(pairs, encoder.config.max_positions, of_pairs)
        if counts is not None:
            counts.update({**of_pairs, "rows": len(rows)})
        scores = np.concatenate([*run(encoder, sequences, head, batch_tokens), np.zeros(0)])
        return np.split(scores.astype(np.float32), np.cumsum([len(row) - 1 for row in rows]))[:-1]
    sequences = join_texts(rows, encoder.config.max_positions, counts)
    return run(encoder, sequences, head, batch_tokens)


def probabilities(task: Task, logits: np.ndarray) -> np.ndarray:
    """The probability of each label, float64. Shape: (..., C) -> (..., C)."""
    logits = logits.astype(np.float64)
    if task.kind == "multilabel":
        return np.exp(-np.logaddexp(0, -logits))
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def prediction(task: Task, logits: np.ndarray, all_probabilities: bool = False) -> dict[str, Any]:
    """A prediction from the outputs for a row, with the keys in ``PREDICTED``.

    For a question see :func:`answer`.

    With ``all_probabilities`` there is also, under that name, a dict from each label to its
    probability; for tagging, one for each word.
    """
    if task.kind == "regression":
        low, high = task.scale or (0.0, 1.0)
        digits = 7 - math.floor(math.log10(high - low))  # float32 has no more
        return {"score": round(low + (high - low) * float(logits[0]), digits)}
    is_tagging = task.kind == "tagging"
    shares = probabilities(task, logits).round(_DIGITS)
    best = np.flatnonzero(logits > 0) if task.kind == "multilabel" else logits.argmax(axis=-1)
    if is_tagging or task.kind == "multilabel":
        values: tuple = ([task.labels[n] for n in best.tolist()], shares[..., best].tolist())
    else:
        values = (task.labels[best], float(shares[best]))
    result = dict(zip(PREDICTED[task.kind], values))
    if all_probabilities:
        every = [dict(zip(task.labels, x.tolist())) for x in np.atleast_2d(shares)]
        result[ALL] = every if is_tagging else every[0]
    return result


def _logits_of_words(rows: TokenRows, task, encoder, head, batch_tokens, counts):
    """Uses the same windows as training."""
    sequences: list[list[int]] = []
    # for each sequence its sentence, and the indices of the words that it predicts
    places: list[tuple[int, np.ndarray]] = []
    for row, of_words in enumerate(rows):
        tokens = [token for ids in of_words for token in ids]
        starts = np.cumsum([0, *map(len, of_words)])[:-1]
        spans = windows(starts, len(tokens), encoder.config.max_positions - 2)
        for start, stop, first, last in spans:
            sequences.append([BOS, *tokens[start:stop], EOS])
            places.append((row, starts[first:last] - start + 1))
        _count(counts, [tokens], in_windows=len(spans) > 1)
    parts = [[np.zeros((0, task.num_classes), np.float32)] for _ in rows]
    for (row, words), logits in zip(places, run(encoder, sequences, head, batch_tokens)):
        parts[row].append(logits[words])
    return list(map(np.concatenate, parts))


def _spans(rows: TokenRows, task, encoder, head, batch_tokens, counts):
    """The best span in each text, None for no answer; and the score of no answer."""
    sequences, places = [], []
    for row, (question, context) in enumerate(rows):
        sizes = len(question), len(context), encoder.config.max_positions, task.stride
        kept, parts = question_windows(*sizes)
        for start, stop in parts:
            sequences.append([BOS, *question[:kept], EOS, EOS, *context[start:stop], EOS])
            places.append((row, kept + 3, start))
        more = {"in_windows": len(parts) > 1, "truncated": kept < len(question)}
        _count(counts, (question, context), **more)
    spans: list[list[Span]] = [[] for _ in rows]
    outputs = run(encoder, sequences, head, batch_tokens)
    for (row, *place), sequence, logits in zip(places, sequences, outputs):
        spans[row].append(best_span(logits[: len(sequence)], *place))  # without padding
    return [(best_of_windows(x, task.may_lack), min(span.no_answer for span in x)) for x in spans]


def answers(
    rows: Rows, task: Task, tokenizer: Tokenizer, encoder: Any, head: Finish, *options: Any
) -> list[dict[str, Any]]:
    """The :func:`answer` to each question; ``options`` are those of :func:`logits_of_tokens`."""
    encode = functools.lru_cache(16)(tokenizer.encode_with_spans)  # questions share texts
    encoded = [(tokenizer.encode(question), *encode(context)) for question, context in rows]
    outputs = logits_of_tokens([row[:2] for row in encoded], task, encoder, head, *options)
    triples = zip(outputs, rows, encoded)
    return [answer(one, context, spans) for one, (_, context), (*_, spans) in triples]


def answer(
    found: tuple[Span | None, float], context: str, characters: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """An answer, its start and end in the text, and the model's score for them.

    ``found`` is from :func:`logits_of_tokens`; ``characters`` has the span of each token.
    """
    span, no_answer = found
    begin = end = 0
    if span is not None and characters:
        begin, end = characters[span.first][0], characters[span.last][1]
    score = round(no_answer if span is None else span.score, _DIGITS)
    return dict(zip(PREDICTED["qa"], (context[begin:end], begin, end, score)))


def join_texts(
    rows: TokenRows, max_positions: int, counts: Counter | None = None
) -> list[list[int]]:
    """``<s> text </s>``, or ``<s> first </s> </s> second </s>``, truncated as in training."""
    sequences = []
    for texts in rows:
        kept = texts
        room = max_positions - 2 * len(texts)
        if sum(map(len, texts)) > room:
            sizes = [room] if len(texts) == 1 else pair_lengths(*map(len, texts), room)
            kept = [ids[:size] for ids, size in zip(texts, sizes)]
        # the second text begins with </s>, not with <s>
        sequence = [token for ids in kept for token in (EOS, *ids, EOS)]
        sequences.append([BOS, *sequence[1:]])
        _count(counts, texts, truncated=kept is not texts)
    return sequences


def _count(counts: Counter | None, texts: Sequence[list[int]], **more: int) -> None:
    if counts is not None:
        tokens, unknown = sum(map(len, texts)), sum(ids.count(UNK) for ids in texts)
        counts.update(rows=1, tokens=tokens, unknown=unknown, empty=not all(texts), **more)


@torch.inference_mode()
def run(
    encoder: Any, sequences: Sequence[list[int]], finish: Finish, batch_tokens: int | None = None
) -> list[np.ndarray]:
    """The result of ``finish`` for each sequence of tokens, in their order.

    The encoder has its word embedding, ``embed_tokens``, and is in evaluation mode. Batches only
    depend on these sequences; ``batch_tokens`` is the size of a batch, padding included.
    """
    results: list[Any] = [None] * len(sequences)
    device = encoder.embed_tokens.weight.device
    batch_tokens = batch_tokens or (2048 if device.type == "cpu" else 32768)
    for rows in batches_by_length([len(ids) for ids in sequences], batch_tokens):
        lengths = np.array([len(sequences[row]) for row in rows])
        real = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.full(real.shape, PAD)
        tokens[real] = np.concatenate([sequences[row] for row in rows])
        is_real = torch.from_numpy(real).to(device)
        hidden = encoder(encoder.embed_tokens(torch.from_numpy(tokens).to(device)), ~is_real)
        outputs = finish(hidden, is_real)
        outputs = outputs.float() if outputs.is_floating_point() else outputs
        for row, output in zip(rows, outputs.cpu().numpy()):
            results[row] = output
    return results


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """The indices of each batch's sequences, longest first; a batch has at least one."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if rows and lengths[rows[0]] * (len(rows) + 1) > batch_tokens:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
