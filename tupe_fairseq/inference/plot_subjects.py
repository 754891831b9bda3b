"""Loads checkpoints and text as subjects of the figures."""

import argparse
import logging
import os
from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS
from tupe_fairseq.inference.asked_subjects import heads, labels
from tupe_fairseq.inference.model import WordEncoder, load
from tupe_fairseq.plots.subject import MOST_BLOCKS, Subject, all_of, cut_blocks
from tupe_fairseq.text.to_pieces import ToPieces

logger = logging.getLogger("tupe-plot")

_BOS, _, _EOS, _UNK = range(len(BUILT_IN_SYMBOLS))
# the longest sentence whose map is easy to read, in tokens
READABLE = 30


def load_subjects(args: argparse.Namespace) -> dict[str, Subject]:
    """All models by label, with the same number of positions, so that they can be compared.

    Args:
        args (Namespace): the options of tupe-plot.
    Raises:
        OSError, ValueError: if an input is absent or wrong.
    """
    lines = None if args.sentences is None else _read_lines(args.sentences)
    names, loaded = labels(args.checkpoints), []
    for path in args.checkpoints:
        folder = os.path.dirname(os.path.abspath(path))
        data = folder if args.data is None else args.data
        model = load(path, data)
        loaded.append((path, folder, data, model.encoder, model.symbols))
    length = args.length
    if length is None:
        length = min(all_of(encoder).length for *_, encoder, _ in loaded)
    subjects = {}
    for name, (path, folder, data, encoder, symbols) in zip(names, loaded):
        subject = all_of(encoder)._replace(length=_checked_length(length, encoder.config, path))
        if args.heads is not None:
            subject = subject._replace(heads=_checked_heads(args.heads, encoder.config, path))
        to_pieces = None
        if lines is not None or args.sentence is not None:
            to_pieces = ToPieces(data, folder, args.sentencepiece_model)
        text = _Text(name, path, data, encoder, symbols, to_pieces)
        subjects[name] = text.added_to(subject, lines, args.sentence)
    return subjects


def _checked_length(length: int, config, path: str) -> int:
    if not 2 <= length <= config.max_positions:
        raise ValueError(
            f"--length ({length}) is not in 2 .. {config.max_positions}, max_positions of {path}"
        )
    return length


def _checked_heads(text: str, config, path: str) -> tuple[int, ...]:
    found = heads(text)
    if found[-1] >= config.num_heads:
        raise ValueError(
            f"--heads contains {found[-1]}, but {path} has the heads 0 .. {config.num_heads - 1}"
        )
    return found


class _Text(NamedTuple):
    """Turns text into a model's word embeddings."""

    label: str
    path: str
    data: str
    encoder: WordEncoder
    symbols: list[str]
    to_pieces: ToPieces | None

    def added_to(self, subject: Subject, lines: list[str] | None, sentence: str | None) -> Subject:
        sentences = self._sentences(subject.length, lines)
        blocks = cut_blocks(sentences, subject.length, _BOS)
        if blocks is not None:
            logger.info("%s: %d sequences of %d tokens of text", self.label, *blocks.shape)
            subject = subject._replace(blocks=blocks, words=self._embedded(blocks))
        elif sentences:
            logger.info("%s: the text is too short for means over many sequences", self.label)
        longest = self.encoder.config.max_positions
        shown = self._example(sentences, longest) if sentence is None else self._encode(sentence)
        if shown is None:
            return subject
        shown = torch.cat([shown.new_tensor([_BOS]), shown])
        if len(shown) > longest:
            raise ValueError(
                f"--sentence has {len(shown)} tokens, but max_positions of "
                f"{self.path} is {longest}; shorten it"
            )
        pieces = [self.symbols[token] for token in shown.tolist()]
        return subject._replace(sentence=self._embedded(shown), pieces=pieces)

    @staticmethod
    def _example(sentences: list[Tensor], longest: int) -> Tensor | None:
        """The first sentence short enough for readable token labels, or else the shortest one."""
        fitting = [tokens for tokens in sentences if 2 < len(tokens) < longest]
        readable = (tokens for tokens in fitting if len(tokens) < READABLE)
        return next(readable, min(fitting, key=len, default=None))

    def _sentences(self, length: int, lines: list[str] | None) -> list[Tensor]:
        if lines is not None:
            return [self._encode(line) for line in lines]
        # more than enough: a sentence has at least its </s>
        return _valid_sentences(self.data, len(self.symbols), MOST_BLOCKS * length) or []

    def _encode(self, line: str) -> Tensor:
        ids = {symbol: number for number, symbol in enumerate(self.symbols)}
        return torch.tensor([*(ids.get(p, _UNK) for p in self.to_pieces(line).split()), _EOS])

    def _embedded(self, tokens: Tensor) -> Tensor:
        return self.encoder.embed_tokens(tokens).detach()


def _read_lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        try:
            lines = [line.strip() for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"--sentences {path} is not a text file in UTF-8") from error
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError(f"--sentences {path} is empty; it needs one sentence per line")
    return lines


def _valid_sentences(data: str, num_symbols: int, most: int) -> list[Tensor] | None:
    """The first sentences of a data folder's valid split; None if it has none.

    Shape:
        token ids (L) each, with </s>.
    Raises:
        OSError, ValueError: if it is damaged, or of another dictionary.
    """
    prefix = os.path.join(data, "valid")
    if not os.path.exists(f"{prefix}.idx"):
        return None
    # numpy, which figures need too
    from tupe_fairseq.text.mmap_index import first_sentences

    try:
        sentences = [torch.from_numpy(tokens) for tokens in first_sentences(prefix, most)]
    except ValueError as error:
        raise ValueError(f"{prefix}.idx or .bin is damaged: {error}") from error
    for tokens in sentences:
        if ((tokens < 0) | (tokens >= num_symbols)).any():
            raise ValueError(f"{prefix}.bin has tokens that the dictionary of --data does not list")
    return sentences
