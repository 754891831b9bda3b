"""Turns a sentence into a model's token ids, as its training text was turned into them."""

import os
from collections.abc import Sequence
from typing import Any

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK
from tupe_fairseq.text.foreign_vocabulary import KINDS
from tupe_fairseq.text.found_vocabulary import check_fits, find_vocabulary
from tupe_fairseq.text.to_pieces import recorded_treatment
from tupe_fairseq.text.treatment import AsItIs, TextTreatment, one_line

BOS, _, EOS, UNKNOWN = range(len(BUILT_IN_SYMBOLS))


class ToTokens:
    """Splits text with a vocabulary, after the treatment that the training text had.

    A symbol of fairseq's that a text spells out, such as ``<mask>``, is not that symbol: what the
    vocabulary makes of it is an unknown piece, or several others.

    Args:
        symbols (list of str): of the model's dictionary, in order.
        kind (str): the kind of vocabulary, one of :data:`KINDS`.
        paths (dict): its files by their names.
        treatment: has ``apply(text)``.
    Raises:
        OSError, ValueError: if a file cannot be read, or is not of the kind.
        ModuleNotFoundError: if a package that this kind needs is not installed.

    Attributes:
        paths (list of str): the vocabulary's files.
    """

    def __init__(self, symbols: list[str], kind: str, paths: dict[str, str], treatment: Any):
        splitter = KINDS[kind].open(*paths.values())
        self._split, self._before_word = splitter.split, splitter.before_word
        self._apply = treatment.apply
        self.paths = list(paths.values())
        self._ids = {symbol: number for number, symbol in enumerate(symbols)}
        for symbol in (*BUILT_IN_SYMBOLS, MASK):
            self._ids[symbol] = UNKNOWN

    def __call__(self, sentence: str) -> list[int]:
        """``<s>``, the pieces and ``</s>`` as ids; a line feed is a space."""
        return [BOS, *self._pieces(self._apply(one_line(sentence))), EOS]

    def words(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of the pieces of each word of a sentence, at least one, as ``word_pieces``."""
        found = []
        for place, word in enumerate(words):
            line = self._apply(one_line(word))
            found.append(self._pieces(self._before_word + line if place and line else line))
        return [ids or [UNKNOWN] for ids in found]

    def _pieces(self, line: str) -> list[int]:
        return [self._ids.get(piece, UNKNOWN) for piece in self._split(line)]


def open_vocabulary(
    symbols: list[str],
    places: Sequence[str],
    dictionary: str,
    given: tuple[str, dict[str, str]] | None,
    is_ours: bool,
    choices: str,
) -> ToTokens:
    """What splits text for a model: the files that flags name, or else those that are found.

    With a SentencePiece model text is treated as the report.json beside the data says; without one
    as tupe-prepare-pretrain does by default for a model of ours, and not at all for another.  What
    tupe-convert recorded, and other kinds, take text as it is, and do themselves what they need.

    Args:
        symbols (list of str): of the model's dictionary, in order.
        places (sequence of str): the folders of the data and of the checkpoint.
        dictionary (str): the dict.txt that the vocabulary must fit.
        given (tuple, optional): the kind, and its files by name.
        is_ours (bool): whether the checkpoint is of this project.
        choices (str): flags that name a vocabulary, for the message.
    Raises:
        OSError, ValueError: if there is none, or it is broken or does not fit.
        ModuleNotFoundError: if a package that it needs is not installed.
    """
    is_recorded = False
    if given is None:
        kind, paths, is_recorded = find_vocabulary(places, dictionary, choices)
    else:
        kind, paths = given
        check_fits(kind, paths, dictionary)
    treatment: Any = AsItIs()
    if kind == "sentencepiece" and not is_recorded:
        found = (recorded_treatment(place) for place in places)
        otherwise = TextTreatment() if is_ours else AsItIs()
        treatment = next((one for one in found if one is not None), otherwise)
    return ToTokens(symbols, kind, paths, treatment)


def places_of(checkpoint: str, data: str | None) -> list[str]:
    """The folders in which dictionary and vocabulary may be, first the one that was given.

    Raises:
        FileNotFoundError: if the one that was given is not a folder.
    """
    if data is not None and not os.path.isdir(data):
        raise FileNotFoundError(f"--data {data} is not a folder")
    beside = os.path.dirname(checkpoint) or "."
    return [beside] if data is None else [data, beside]
