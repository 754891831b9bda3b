"""Splits sentences of given words into pieces, word by word, so that each piece has its word."""

from collections.abc import Sequence
from typing import Any

from tupe_fairseq.text.treatment import one_line


def word_pieces(
    pieces: Any, treatment: Any, sentences: Sequence[Sequence[str]]
) -> list[list[list[int]]]:
    """The ids of the pieces of each word of each sentence.

    They are those that the words have in the line that they make with spaces between, as far as a
    vocabulary splits at spaces; Moses' tokenizer, before fastBPE, may look beyond a word.

    Args:
        pieces (Pieces or ListedPieces): the vocabulary.
        treatment (TextTreatment or AsItIs): is applied to each word.
        sentences (sequence of sequences of str): the words; one may have spaces or line ends.
    Returns:
        list: for each sentence and each of its words, the ids; at least one: ``<unk>`` for a word
        of which the treatment or the vocabulary leaves nothing.
    """
    lines = []
    for words in sentences:
        for place, word in enumerate(words):
            line = treatment.apply(one_line(word))
            lines.append(pieces.before_word + line if place and line else line)
    found = iter(pieces.encode(lines))
    return [[next(found) or [pieces.unknown_id] for _ in words] for words in sentences]


def differs_from_line(
    pieces: Any, treatment: Any, words: Sequence[str], split: Sequence[Sequence[int]]
) -> bool:
    """Whether a sentence as one line has other pieces than its words apart.

    Args:
        pieces, treatment: as for :func:`word_pieces`.
        words (sequence of str): of the sentence.
        split (sequence): of these words, from :func:`word_pieces`.
    """
    line = treatment.apply(one_line(" ".join(words)))
    return list(pieces.encode([line])[0]) != [i for ids in split for i in ids]
