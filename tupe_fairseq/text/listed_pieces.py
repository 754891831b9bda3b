"""Splits text into the words of a given dict.txt; what it does not list is unknown."""

import shutil
from typing import Any, Iterable, List, Sequence

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK


class ListedPieces:
    """The pieces of a dict.txt, which stays as it is: its order gives every word its id.

    It has the methods of :class:`Pieces`, whose dict.txt lists what its model knows.

    Args:
        dictionary (str): the dict.txt.
        splitter: has ``split(line)``, the pieces of a line.
    Raises:
        OSError: if dict.txt cannot be read.
        ValueError: if it is not UTF-8.
    """

    unknown_id = 0

    def __init__(self, dictionary: str, splitter: Any):
        self._dictionary = dictionary
        self._split = splitter.split
        # one for every other piece, such as a mask or an end that the text itself spells out
        self._pieces = [BUILT_IN_SYMBOLS[-1], *words_of(dictionary)]
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, lines: Sequence[str]) -> List[List[int]]:
        """The ids of the pieces of each line; places in dict.txt, counted from 1."""
        ids = self._ids
        return [[ids.get(piece, 0) for piece in self._split(line)] for line in lines]

    def to_text(self, ids: Sequence[int]) -> str:
        """Pieces separated by spaces, as fairseq-preprocess reads them."""
        return " ".join(map(self._pieces.__getitem__, ids))

    def to_bytes(self, ids: Sequence[int]) -> bytes:
        """The same in UTF-8."""
        return self.to_text(ids).encode()

    def words(self) -> Iterable[str]:
        """The words of dict.txt without the mask."""
        return self._pieces[1:]

    def write_dictionary(self, path: str) -> None:
        """Copy dict.txt."""
        shutil.copyfile(self._dictionary, path)


def words_of(dictionary: str) -> List[str]:
    """The words that a dict.txt lists, but not the mask.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not UTF-8.
    """
    with open(dictionary, encoding="utf-8", newline="\n") as file:
        try:
            words = [line.rstrip("\n").rpartition(" ")[0] for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"{dictionary} is not a text file in UTF-8") from error
    return [word for word in words if word != MASK]
