"""A subject of the figures: a model, its heads and length, and text."""

from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.encoder import TupeEncoder

# A mean over fewer sequences is too noisy; more than the second number do not change a figure.
FEWEST_BLOCKS = 16
MOST_BLOCKS = 128
# shorter sequences are too short for a figure by position
SHORTEST_BLOCK = 8


class NoMeaning(ValueError):
    """A figure has nothing to show for a model; the message says why."""


class Subject(NamedTuple):
    """A model in evaluation mode, and what the figures need with it.

    Args:
        encoder (TupeEncoder): the model.
        length (int): positions 0 .. length - 1 are shown.
        heads (tuple of int): which attention heads are shown.
        blocks (Tensor, optional): token ids of real text in sequences of equal length, each with
            [CLS] first.
        words (Tensor, optional): the word embeddings of ``blocks``.
        sentence (Tensor, optional): the word embeddings of one sentence.
        pieces (list of str, optional): its tokens as text.
    Shape:
        blocks (N, T), words (N, T, D), sentence (L, D).
    """

    encoder: TupeEncoder
    length: int
    heads: tuple[int, ...]
    blocks: Tensor | None = None
    words: Tensor | None = None
    sentence: Tensor | None = None
    pieces: list[str] | None = None


def all_of(encoder: TupeEncoder) -> Subject:
    """A subject without text: all heads, and at most 128 positions, which a figure can show."""
    config = encoder.config
    return Subject(encoder, min(config.max_positions, 128), tuple(range(config.num_heads)))


def with_text(subject: Subject) -> Subject:
    """The subject itself.

    Raises:
        NoMeaning: if it has no text.
    """
    if subject.blocks is None:
        raise NoMeaning("it needs text; give --sentences, or a --data folder with a valid split")
    return subject


def cut_blocks(sentences: list[Tensor], length: int, cls: int) -> Tensor | None:
    """Sentences, one after the other, cut into sequences of one length with [CLS] first.

    If there is little text, the sequences are shorter, so that there are FEWEST_BLOCKS of them.

    Args:
        sentences (list of Tensor): token ids, each without [CLS] and with </s>.
        length (int): tokens of a sequence at most, [CLS] included.
        cls (int): the id of [CLS].
    Shape:
        (L) each -> (N, T), N at most MOST_BLOCKS; None for fewer than FEWEST_BLOCKS sequences of
        SHORTEST_BLOCK tokens.
    """
    stream, needed = [], MOST_BLOCKS * (length - 1)
    for sentence in sentences:
        stream.append(sentence)
        needed -= len(sentence)
        if needed <= 0:
            break
    tokens = torch.cat(stream) if stream else torch.empty(0, dtype=torch.long)
    inner = min(length - 1, len(tokens) // FEWEST_BLOCKS)
    if inner + 1 < min(SHORTEST_BLOCK, length) or inner < 1:
        return None
    blocks = tokens[: len(tokens) // inner * inner].view(-1, inner)[:MOST_BLOCKS]
    return torch.cat([blocks.new_full((len(blocks), 1), cls), blocks], dim=1)
