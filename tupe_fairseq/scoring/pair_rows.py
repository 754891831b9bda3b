"""Reads minimal pairs out of JSON lines, and says which row is wrong."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from tupe_fairseq.scoring.pair_files import PairFiles

#: the column of BLiMP with the phenomenon, which other files may lack
PHENOMENON = "linguistics_term"


class Columns(NamedTuple):
    """The names that the columns have.

    Args:
        good (str): the acceptable sentence.
        bad (str): the other one.
        phenomenon (str, optional): what the pair tests; BLiMP's, if a row has it, if None.
    """

    good: str
    bad: str
    phenomenon: str | None = None


class PairRow(NamedTuple):
    """A minimal pair.

    Args:
        place (str): where it stands, for messages.
        file (str): the short name of its file.
        number (int): of the row in the file, from 1.
        phenomenon (str): what it tests; empty if the row does not say.
        good (str): the acceptable sentence.
        bad (str): the other one.
    """

    place: str
    file: str
    number: int
    phenomenon: str
    good: str
    bad: str

    @property
    def sentences(self):
        """All that is to be scored of the row."""
        return (self.good, self.bad)


def read_pairs(
    files: PairFiles, columns: Columns, per_file: int | None = None
) -> Iterator[PairRow]:
    """The pairs of all files, in order.

    Args:
        files (PairFiles): the files.
        columns (Columns): what their columns are called.
        per_file (int, optional): how many of each file, from its beginning; the others are not
            looked at.
    Raises:
        OSError: if a file cannot be read.
        ValueError: if a file is damaged or empty, or a row is not an object with these columns,
            each a text; the message has the file and the number of the row.
    """
    for short, whole, lines in files.lines():
        number = 0
        for number, line in enumerate(islice(lines, per_file), 1):
            place = f"{whole}, row {number}"
            row = _object(line, place)
            good, bad = (_text(row, name, place) for name in columns[:2])
            phenomenon = ""
            if columns.phenomenon is not None:
                phenomenon = _text(row, columns.phenomenon, place)
            elif row.get(PHENOMENON) is not None:
                phenomenon = _text(row, PHENOMENON, place)
            yield PairRow(place, short, number, phenomenon, good, bad)
        if not number:
            raise ValueError(f"{whole} is empty; each row must be a pair")


def _object(line: bytes, place: str) -> dict[str, Any]:
    if not line.strip():
        raise ValueError(f"{place} is empty; each row must be a pair")
    try:
        row = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"{place}: not UTF-8") from error
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{place} is a {type(row).__name__}, not an object of JSON")
    return row


def _text(row: dict[str, Any], name: str, place: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        problem = "has no" if name not in row else "has no text in"
        columns = ", ".join(list(map(str, row))[:8])
        raise ValueError(
            f"{place} {problem} {name!r}, but {columns or 'nothing'}; name the columns with "
            "--good, --bad and --phenomenon"
        )
    # surrogates that JSON can spell would end the writing of scores
    return value.encode("utf-8", "replace").decode().strip()
