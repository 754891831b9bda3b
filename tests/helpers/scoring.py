"""Small models for tupe-score, and a loop that scores a sentence as slowly as it can be said."""

import json

import torch

from helpers.running import call_program

SENTENCES = [
    "The cat sat on the mat.", "No fish.", "The cat sat on the mat.", "Is it so?",
    "A dog saw the cat.", "No cat sat.", "The fish is on a mat, it is.",
]  # fmt: skip


def score(checkpoint, *flags):
    """tupe-score on the CPU in this process: the exit code and what was printed."""
    return call_program("score", [checkpoint, "--cpu", *flags])


def naive(logits, tokens, mask):
    """The sum of the log-probabilities of the pieces, one copy at a time.

    Args:
        logits (callable): from (1, L) to (1, L, V).
        tokens (Tensor): (L), with ``<s>`` and ``</s>``.
        mask (int): the id of ``<mask>``.
    """
    found = 0.0
    with torch.no_grad():
        for place in range(1, len(tokens) - 1):
            masked = tokens.clone()
            masked[place] = mask
            row = logits(masked[None])[0, place].double()
            found += torch.log_softmax(row, 0)[tokens[place]].item()
    return found


def read_tsv(text):
    """The rows of tab-separated values, by column."""
    names, *rows = (line.split("\t") for line in text.splitlines())
    return [dict(zip(names, row)) for row in rows]


def write_pairs(path, pairs, **columns):
    """A file of minimal pairs as BLiMP's."""
    rows = [{"sentence_good": good, "sentence_bad": bad, **columns} for good, bad in pairs]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
