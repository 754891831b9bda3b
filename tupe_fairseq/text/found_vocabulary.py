"""Finds the dictionary, the vocabulary and the labels that belong to a checkpoint."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from tupe_fairseq.files.names import DICTIONARY, MASK, SENTENCEPIECE_MODEL, VOCABULARY
from tupe_fairseq.text.dictionary_file import listed_words
from tupe_fairseq.text.foreign_vocabulary import KINDS, ForeignVocabulary, is_recorded


class FoundVocabulary(NamedTuple):
    """What splits text for a model.

    Args:
        kind (str): one of :data:`KINDS`.
        paths (dict): the kind's files, by their names.
        recorded (bool): whether a vocabulary.json names them, or flags did; else it is a
            SentencePiece model beside the checkpoint or the data.
    """

    kind: str
    paths: dict[str, str]
    recorded: bool


def find_dictionary(places: Sequence[str]) -> str:
    """The path of the first dict.txt, also that of a task's first sentences.

    Args:
        places (sequence of str): folders.
    Raises:
        FileNotFoundError: if there is none.
    """
    for place in places:
        for name in (DICTIONARY, os.path.join("input0", DICTIONARY)):
            if os.path.isfile(os.path.join(place, name)):
                return os.path.join(place, name)
    raise FileNotFoundError(
        f"{os.path.join(places[0], DICTIONARY)} is missing; give --data, the folder that the "
        "checkpoint was trained with"
    )


def find_vocabulary(places: Sequence[str], dictionary: str, choices: str) -> FoundVocabulary:
    """The first vocabulary that is recorded, or else the first SentencePiece model.

    Args:
        places (sequence of str): folders.
        dictionary (str): the dict.txt that it must fit.
        choices (str): flags that name a vocabulary, for the message.
    Raises:
        OSError, ValueError: if there is none, or it is broken or does not fit; or if a package
            that it needs is missing.
    """
    for place in filter(is_recorded, places):
        foreign = ForeignVocabulary(place)
        paths = {name: path for name, path in foreign.files.items() if name != VOCABULARY}
        check_fits(foreign.kind, paths, dictionary)
        return FoundVocabulary(foreign.kind, paths, True)
    for place in places:
        path = os.path.join(place, SENTENCEPIECE_MODEL)
        if os.path.isfile(path):
            check_fits("sentencepiece", {SENTENCEPIECE_MODEL: path}, dictionary)
            return FoundVocabulary("sentencepiece", {SENTENCEPIECE_MODEL: path}, False)
    raise FileNotFoundError(
        f"there is no {SENTENCEPIECE_MODEL} or {VOCABULARY} in {' or '.join(places)}; give --data, "
        f"the folder that the checkpoint was trained with, or the files of its vocabulary "
        f"({choices})"
    )


def check_fits(kind: str, paths: dict[str, str], dictionary: str) -> None:
    """Refuse files of a vocabulary that cannot make the words of a dict.txt.

    Raises:
        OSError, ValueError: as the kind's check.
    """
    words = [word for word in listed_words(dictionary) if word != MASK]
    KINDS[kind].check(*paths.values(), words)


def find_labels(places: Sequence[str], given: str | None) -> tuple[str, list[str]] | None:
    """The path of the labels' dictionary and its labels; None if there is none.

    Args:
        places (sequence of str): folders.
        given (str, optional): the path, if a flag gave it.
    Raises:
        OSError, ValueError: if it cannot be read, or is no dictionary.
    """
    paths = [given] if given else [os.path.join(place, "label", DICTIONARY) for place in places]
    found = next((path for path in paths if given or os.path.isfile(path)), None)
    return None if found is None else (found, listed_words(found))
