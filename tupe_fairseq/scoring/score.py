"""Scores the sentences of files, or minimal pairs, by a checkpoint: ``tupe-score``.

PLL(w) = sum over t of log P(w_t | w without w_t)
Salazar et al. 2020, Eq. (1), https://arxiv.org/abs/1910.14659
"""

import contextlib
import functools
import itertools
import logging
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm  # type: ignore[import-untyped]

from tupe_fairseq.checkpoint.model import read_with_tokenizer
from tupe_fairseq.checkpoint.options import ScoreOptions
from tupe_fairseq.data.dictionary import BOS, EOS, MASK, UNK
from tupe_fairseq.data.row_formats import STANDARD_INPUT, ending_of, place
from tupe_fairseq.data.rows import read_rows, row_writer
from tupe_fairseq.data.tokenizer import Tokenizer, warn_of_unknown
from tupe_fairseq.files import atomic_write, file_sha256
from tupe_fairseq.flags import takes
from tupe_fairseq.inference.texts import BATCH_TOKENS
from tupe_fairseq.provenance import made_by
from tupe_fairseq.results.page import write_page
from tupe_fairseq.scoring.minimal_pairs import (
    PAIR_COLUMNS,
    accuracy_page,
    pair_accuracies,
    pair_files,
    read_pairs,
)

logger = logging.getLogger(__name__)

_CHUNK_ROWS = 1000
# exp() of more would overflow
_HIGHEST_LOSS = 700.0

#: the place of a row for messages, its sentences, and further columns
Row = tuple[str, list[str], dict[str, Any]]


@takes(ScoreOptions)
def score_file(options: ScoreOptions) -> dict[str, Any]:
    """Score sentences or minimal pairs, as tupe-score does; returns the content of results.json."""
    checkpoint, device, pairs = options.checkpoint, options.device(), options.pairs
    if pairs is None:
        path = options.input or STANDARD_INPUT
        if ending_of(path, ".txt") != ".txt":
            raise ValueError(f"{path} is a file of rows; give a .txt with a sentence on each line")
        read: Callable[[], Iterator[Row]] = functools.partial(_sentences, path)
    else:
        read = functools.partial(read_pairs, pair_files(pairs), options.pairs_per_file)
    model, tokenizer = read_with_tokenizer(checkpoint, options.folders())
    origin = model.origin or "this project"
    logger.info("%s: a model of %s, with %s", checkpoint, origin, model.dictionary)
    trained_for = model.options.task
    if trained_for not in ("masked_lm", "tupe_masked_lm"):
        logger.warning(
            "the model was last trained for %s, without its LM head: the scores mean little",
            trained_for,
        )
    model.encoder.to(device)
    model.lm_head.to(device)
    longest = model.max_positions - 2

    def encoded(counts: Counter) -> Iterator[tuple[list[str], dict[str, Any], list[list[int]]]]:
        for where, sentences, columns in read():
            tokens = [_tokens(tokenizer, x, where, longest, options.cut, counts) for x in sentences]
            if pairs and min(map(len, tokens)) == 2:  # <s> and </s>
                raise ValueError(f"{where} has no tokens in one of {sentences}")
            yield sentences, columns, tokens

    total, counts = None, Counter[str]()
    if options.input or pairs:  # check all rows before any is scored
        total = sum(len(one) - 2 for *_, tokens in encoded(Counter()) for one in tokens)
        if not total:
            raise ValueError(f"{options.input} has no text")
        logger.info("%d tokens", total)
    mask, compared = model.symbols.index(MASK), []
    batch_tokens = BATCH_TOKENS["cpu" if device == "cpu" else "gpu"]
    names = ("sentences",) if pairs is None else ("acceptable", "other")
    totals: dict[str, Any] = {name: Counter() for name in names}
    opened: Any = contextlib.nullcontext(None if pairs else sys.stdout)
    with (
        tqdm(total=total, unit="token", unit_scale=True, disable=None, leave=False) as bar,
        atomic_write(options.output_file) if options.output_file else opened as file,
    ):
        rows, ending = encoded(counts), os.path.splitext(options.output_file or "-.tsv")[1].lower()
        no_row = _columns(("", ""), dict.fromkeys(PAIR_COLUMNS) if pairs else {}, (0, 0), (0, 0))
        write = row_writer(ending, file, list(no_row) if file else None)
        while chunk := list(itertools.islice(rows, 1 if total is None else _CHUNK_ROWS)):
            flat = [one for *_, tokens in chunk for one in tokens]
            likelihoods = iter(
                pseudo_likelihoods(
                    model.masked_logits, flat, mask, device, batch_tokens, bar.update
                )
            )
            for sentences, columns, tokens in chunk:
                scores = [next(likelihoods) for _ in tokens]
                lengths = [len(one) - 2 for one in tokens]
                for name, score, length in zip(names, scores, lengths):
                    totals[name].update(sentences=1, tokens=length, pseudo_log_likelihood=score)
                if pairs:
                    compared.append((columns["file"], columns["phenomenon"], *scores))
                if file:
                    if ending == ".tsv":
                        sentences = [" ".join(text.split()) for text in sentences]
                    write(_columns(sentences, columns, scores, lengths))
                    file.flush()
    if not counts["tokens"]:
        raise ValueError("standard input has no text")
    content: dict[str, Any] = {
        **made_by(device),
        "checkpoint": {"path": checkpoint, "sha256": file_sha256(checkpoint)},
        "input": pairs or options.input,
        "unknown_tokens": counts["unknown"],
        "cut_sentences": counts["cut"],
        "empty_sentences": counts["empty"],
        "scores": {name: _with_loss(total) for name, total in totals.items()},
    }
    for name, one in content["scores"].items():
        numbers = one["sentences"], one["tokens"], one["loss"] / math.log(2)
        text = "%s: %d with %d tokens, loss %.3f bits, pseudo-perplexity %.2f"
        logger.info(text, name, *numbers, one["pseudo_perplexity"])
    if pairs:
        content |= {"pairs_per_file": options.pairs_per_file, "pairs": pair_accuracies(compared)}
    if counts["cut"]:
        logger.warning("%d sentences were cut to what the model takes", counts["cut"])
    if counts["empty"]:
        logger.warning("without text: %d rows, which have the score 0", counts["empty"])
    warn_of_unknown(logger, counts)
    if options.report:
        write_page(options.report, content, accuracy_page(checkpoint, content["pairs"]))
    return content


@torch.inference_mode()
def pseudo_likelihoods(
    model: Callable[[Tensor, Tensor], Tensor],
    sentences: Sequence[Sequence[int]],
    mask: int,
    device: Any = "cpu",
    batch_tokens: int = 2048,
    advance: Callable[[int], Any] = lambda tokens: None,
) -> list[float]:
    """The natural logarithm of PLL for each sentence; 0 for one without tokens.

    A batch holds masked copies of sentences of one length, so nothing is padded.

    Args:
        model: as ``Model.masked_logits``.
        sentences: tokens with ``<s>`` and ``</s>``, which are not scored.
        batch_tokens: of all masked copies in a batch; a CPU is about equally fast from 1,024 to
            16,384, but glibc keeps the memory of large batches after they are freed.
        advance: is called with the number of tokens that a batch has scored.
    """
    scores = [0.0] * len(sentences)
    by_length: dict[int, list[int]] = {}
    for row, sentence in enumerate(sentences):
        if len(sentence) > 2:
            by_length.setdefault(len(sentence), []).append(row)
    for length, rows in by_length.items():
        tokens = torch.tensor([sentences[row] for row in rows], device=device)
        scored, batches = length - 2, []
        copies = torch.arange(len(rows) * scored, device=device)
        for batch in copies.split(max(1, batch_tokens // length)):
            originals, places = tokens[batch // scored], (1 + batch % scored)[:, None]
            logits = model(originals.scatter(1, places, mask), places)[:, 0]
            targets = originals.gather(1, places)[:, 0]
            batches.append(-F.cross_entropy(logits, targets, reduction="none").double().cpu())
            advance(len(batch))
        for row, logs in zip(rows, torch.cat(batches).view(-1, scored).tolist()):
            scores[row] = math.fsum(logs)
    return scores


def _sentences(path: str) -> Iterator[Row]:
    number = 0
    for number, row in read_rows(path, ["text"], ending=".txt"):
        yield place(path, number), [row["text"].strip()], {}
    if not number:  # for a file, read_rows has raised this
        raise ValueError("standard input has no rows")


def _tokens(
    tokenizer: Tokenizer, sentence: str, where: str, longest: int, cut: bool, counts: Counter
) -> list[int]:
    tokens = tokenizer.encode(sentence)
    counts["empty"] += not tokens
    if len(tokens) > longest:
        if not cut:
            raise ValueError(
                f"{where}: the sentence has {len(tokens)} tokens, and the model takes {longest}; "
                "shorten it, or give --cut to score the first ones"
            )
        tokens = tokens[:longest]
        counts["cut"] += 1
    counts.update(tokens=len(tokens), unknown=tokens.count(UNK))
    return [BOS, *tokens, EOS]


def _columns(sentences, columns, scores, lengths) -> dict[str, Any]:
    """The columns of a row in the output file."""
    rounded = [round(score, 6) for score in scores]
    if not columns:
        return {"score": rounded[0], "tokens": lengths[0], "sentence": sentences[0]}
    values: dict[str, Any] = {**columns, "right": scores[0] > scores[1]}
    for name, pair in (("score_", rounded), ("tokens_", lengths), ("", sentences)):
        values.update({f"{name}good": pair[0], f"{name}bad": pair[1]})
    return values


def _with_loss(total: Counter) -> dict[str, Any]:
    """Add the loss, minus the mean log-probability, and its exp (Salazar et al. 2020, Eq. 3)."""
    loss = -total["pseudo_log_likelihood"] / total["tokens"]
    return {**total, "loss": loss, "pseudo_perplexity": math.exp(min(loss, _HIGHEST_LOSS))}
