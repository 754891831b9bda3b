"""Learns a SentencePiece vocabulary from a sample of the training text."""

import io
import os
import re
from collections.abc import Iterable, Iterator

import sentencepiece

from tupe_fairseq.files.names import MASK

# Constant, not the number of workers, because the model depends on it.
_THREADS = 8
_TOO_HIGH = re.compile(r"Vocabulary size too high .* value <= (\d+)")
_TOO_LOW = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


def sample_lines(paths: list[str], max_bytes: int) -> Iterator[str]:
    """Yield lines sampled evenly from the files, about ``max_bytes`` in total, without blank ones.

    Args:
        paths (list): UTF-8 text.
        max_bytes (int): all lines are taken if the files are not larger.
    """
    total = sum(os.path.getsize(path) for path in paths)
    number = 0
    for path in paths:
        with open(path, encoding="utf-8", newline="\n") as file:
            for line in file:
                if line == "\n":  # which counted could be all that is taken, at an even distance
                    continue
                number += 1
                taken = number * max_bytes // total > (number - 1) * max_bytes // total
                if taken or total <= max_bytes:
                    yield line.rstrip("\n")


def train_model(
    lines: Iterable[str],
    vocab_size: int,
    model_type: str,
    character_coverage: float,
    lowercase: bool,
) -> bytes:
    """Train a SentencePiece model whose ids are those of fairseq's dictionary up to <unk>.

    ``<s>``, ``<pad>``, ``</s>``, ``<unk>`` and ``<mask>`` count among its ``vocab_size`` pieces, so
    that the dictionary of the model trained on the data has as many entries.

    Args:
        lines (iterable of str): the text to learn from.
        vocab_size (int): number of pieces.
        model_type (str): "unigram" or "bpe".
        character_coverage (float): share of the characters that the pieces cover; the
            rest is unknown.
        lowercase (bool): whether the model itself makes text lower case.
    Returns:
        bytes: the model file.
    Raises:
        ValueError: if the text does not allow this size; the message names the limit.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            character_coverage=character_coverage,
            normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
            bos_id=0,
            pad_id=1,
            eos_id=2,
            unk_id=3,
            user_defined_symbols=[MASK],
            # in bytes; our own limit in characters was applied before
            max_sentence_length=1 << 30,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(_explain(str(error), vocab_size)) from error
    return model.getvalue()


def learn_model(
    paths: list[str],
    sample_bytes: int,
    vocab_size: int,
    model_type: str,
    character_coverage: float,
    lowercase: bool,
) -> bytes:
    """:func:`train_model` on :func:`sample_lines`, as one function for a separate process."""
    lines = sample_lines(paths, sample_bytes)
    return train_model(lines, vocab_size, model_type, character_coverage, lowercase)


def _explain(error: str, vocab_size: int) -> str:
    found = _TOO_HIGH.search(error)
    if found:
        return (
            f"the text is too short for a --vocab-size of {vocab_size}; "
            f"the largest possible is {found.group(1)}"
        )
    found = _TOO_LOW.search(error)
    if found:
        return (
            f"a --vocab-size of {vocab_size} has no room for every character of the text; give at "
            f"least {found.group(1)}, or lower --character-coverage"
        )
    return f"SentencePiece cannot learn a vocabulary: {error.strip()}"
