"""Splits text into the words of a given dict.txt; what it does not list is unknown."""

from collections.abc import Iterable, Sequence
from typing import Any

from tupe_fairseq.files.atomic import atomic_copy
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK
from tupe_fairseq.text.dictionary_file import listed_words


class ListedPieces:
    """The pieces of a dict.txt, which stays as it is: its order gives every word its id.

    It has the methods of :class:`Pieces`, whose dict.txt lists what its model knows.

    Args:
        dictionary (str): the dict.txt.
        splitter: has ``split(line)``, the pieces of a line, and ``before_word``, as
            :class:`Pieces` has it.
    Raises:
        OSError: if dict.txt cannot be read.
        ValueError: if it is not a dictionary.
    """

    unknown_id = 0

    def __init__(self, dictionary: str, splitter: Any):
        self._dictionary = dictionary
        self._split = splitter.split
        self.before_word: str = splitter.before_word
        # one for every other piece, such as a mask or an end that the text itself spells out
        listed = [word for word in listed_words(dictionary) if word != MASK]
        self._pieces = [BUILT_IN_SYMBOLS[-1], *listed]
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of the pieces of each line; places in dict.txt, counted from 1."""
        ids = self._ids
        return [[ids.get(piece, 0) for piece in self._split(line)] for line in lines]

    def numbers(self, ids: dict[str, int]) -> list[int]:
        """The number of each id in fairseq's dictionary; that of ``<unk>`` if it lacks the piece.

        Args:
            ids (dict): of the dictionary, from :func:`dictionary_ids`.
        """
        return [ids.get(piece, ids[BUILT_IN_SYMBOLS[-1]]) for piece in self._pieces]

    def to_text(self, ids: Sequence[int]) -> str:
        """Pieces separated by spaces, as fairseq's dictionary reads them."""
        return " ".join(map(self._pieces.__getitem__, ids))

    def words(self) -> Iterable[str]:
        """The words of dict.txt without the mask."""
        return self._pieces[1:]

    def write_dictionary(self, path: str) -> None:
        """Copy dict.txt."""
        atomic_copy(self._dictionary, path)
