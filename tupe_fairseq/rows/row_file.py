"""What all files of rows have in common: columns with names, and rows with numbers."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tupe_fairseq.files.repeated import first_repeated
from tupe_fairseq.text.json_texts import names_of
from tupe_fairseq.text.reading import TEXT_CHARACTERS

#: a text, or the texts of a list, such as the tokens of a sentence
Value = str | list[str]
#: the reason of a :class:`BadRow` with more or fewer columns than the first row
OTHER_COLUMNS = "another number of columns"


class Row(NamedTuple):
    """A row.

    Attributes:
        number (int): the line of the file in which it begins; in parquet, which row it is.  From 1.
        values (list of str or of list of str): one for each column that was asked for.
    """

    number: int
    values: list[Value]


class BadRow(ValueError):
    """A row that is not as it should be, while others of its file may be.

    Args:
        message (str): what is wrong, with file and row.
        reason (str): the same in words that all rows with the problem share, to be counted.
    """

    def __init__(self, message: str, reason: str):
        super().__init__(message)
        self.reason = reason


class RowFile:
    """A file of rows; :func:`open_rows` opens one.

    Args:
        path (str): the file.
        columns (list of str): the names of its columns, or "1", "2", ... if they have none.
    Raises:
        ValueError: if two columns have the same name.

    Attributes:
        has_names (bool): whether the columns have names, by which their contents can be guessed.
        tags (str, optional): the column of the tags, if the kind of file has one.
    """

    #: what :attr:`Row.number` counts
    unit = "line"
    has_names = True
    tags: str | None = None

    def __init__(self, path: str, columns: list[str]):
        self.path = path
        self.columns = columns
        repeated = first_repeated(columns)
        if repeated is not None:
            raise ValueError(f"{path} has several columns {repeated!r}; rename all but one")

    def column(self, name: str, flag: str) -> str:
        """The name of the column that a user gave, by name or by number.

        Args:
            name (str): one of the names; or, if none is this, the number, from "1" on.
            flag (str): with which it was given, for the message.
        Raises:
            ValueError: if there is no such column.
        """
        if name in self.columns:
            return name
        if name.isdecimal() and 1 <= int(name) <= len(self.columns):
            return self.columns[int(name) - 1]
        raise ValueError(
            f"{self.path} has no column {name!r} ({flag}); the columns are "
            f"{names_of(self.columns)}, or 1 to {len(self.columns)}"
        )

    def place(self, number: int) -> str:
        """File and row, as messages name them."""
        return f"{self.path}, {self.unit} {number}"

    def rows(
        self,
        columns: Sequence[str] | None = None,
        on_bad: Callable[[BadRow], None] | None = None,
    ) -> Iterator[Row]:
        """Yield the rows, in bounded memory; each call begins anew.

        Args:
            columns (sequence of str): which values, by the names of :attr:`columns`; default: all.
            on_bad (callable): called with each row that is not as it should be, which is left out;
                by default the first one is raised.
        Raises:
            OSError: if the file cannot be read.
            BadRow: if a row is not as it should be, and there is no ``on_bad``; the message names
                the file, the row and the column.
            ValueError: if there is no row, or what is wrong can be more than one: a quote in .csv
                that is not closed, text that is not UTF-8, damaged compression.
        """
        row, names = None, self.columns if columns is None else columns
        for row in self._rows(names, columns is None):
            if not isinstance(row, BadRow):
                row = self._checked(row, names)
            if not isinstance(row, BadRow):
                yield row
            elif on_bad is None:
                raise row
            else:
                on_bad(row)
        if row is None:
            raise ValueError(f"{self.path} has no rows")

    def _checked(self, row: Row, names: Sequence[str]) -> Row | BadRow:
        for name, value in zip(names, row.values):
            characters = len(value) if isinstance(value, str) else sum(map(len, value))
            if characters > TEXT_CHARACTERS:
                reason = f"more than {TEXT_CHARACTERS:,} characters"
                return BadRow(
                    f"{self.place(row.number)}: column {name!r} has {characters:,}, {reason}",
                    reason,
                )
        return row

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row | BadRow]:
        # a bad row is yielded, since a generator that raises has ended
        raise NotImplementedError


def numbered(count: int) -> list[str]:
    """What columns without names are called: "1", "2", ..."""
    return [str(number) for number in range(1, count + 1)]


def counted(count: int) -> str:
    """A number of columns, in words."""
    return "1 column" if count == 1 else f"{count} columns"
