"""Minimal pairs, and a loop that scores a sentence as slowly as it can be said."""

import json

import torch


def naive(logits, tokens, mask):
    """The sum of the log-probabilities of the tokens (L), one masked copy (1, L) at a time."""
    found = 0.0
    with torch.no_grad():
        for place in range(1, len(tokens) - 1):
            masked = tokens.clone()
            masked[place] = mask
            row = logits(masked[None])[0, place].double()
            found += torch.log_softmax(row, 0)[tokens[place]].item()
    return found


def write_pairs(path, pairs, **columns):
    """A file of minimal pairs as BLiMP's."""
    rows = [{"sentence_good": good, "sentence_bad": bad, **columns} for good, bad in pairs]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
