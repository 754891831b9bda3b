"""The hub's encoding of text with the vocabulary of a converted checkpoint."""

import logging
import os
from typing import Any, Optional

from tupe_fairseq.missing_package import MissingPackage
from tupe_fairseq.text.foreign_vocabulary import ForeignVocabulary, is_recorded

logger = logging.getLogger(__name__)


class RecordedBpe:
    """What fairseq's hub interface needs of an encoding, with the pieces that data would have.

    So text of the TUPE authors' models is made lower case and tokenized, too.

    Args:
        splitter: has ``split(text)`` and ``join(pieces)``.
    """

    def __init__(self, splitter: Any):
        self._splitter = splitter

    def encode(self, text: str) -> str:
        """The pieces of a text, separated by spaces."""
        return " ".join(self._splitter.split(text))

    def decode(self, pieces: str) -> str:
        """The text of pieces that are separated by spaces."""
        words = pieces.split()
        text = self._splitter.join(words)
        # fill_mask puts the text of one piece in the place of " <mask>"
        is_apart = len(words) == 1 and getattr(self._splitter, "words_apart", False)
        return f" {text}" if is_apart else text


def recorded_bpe(folder: str, data: str) -> Optional[RecordedBpe]:
    """The encoding of the first of two folders that records a vocabulary; None if none does.

    A package that is missing is logged, and not an error: the model itself works without it.

    Args:
        folder (str): the checkpoint's.
        data (str): the one with its dict.txt; relative to the first if it begins with a dot.
    Raises:
        OSError, ValueError: if the record or one of its files is missing or broken.
    """
    if data.startswith("."):
        data = os.path.join(folder, data)
    found = next(filter(is_recorded, (folder, data)), None)
    if found is None:
        return None
    try:
        return RecordedBpe(ForeignVocabulary(os.fspath(found)).splitter)
    except MissingPackage as error:
        logger.warning("text cannot be encoded: %s", error)
        return None
