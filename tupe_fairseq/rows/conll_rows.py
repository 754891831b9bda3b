"""Sentences of .conll files: a token and its tags per line, a blank line after each sentence."""

from collections.abc import Iterator, Sequence

from tupe_fairseq.rows.decoded_lines import decoded_lines
from tupe_fairseq.rows.row_file import OTHER_COLUMNS, BadRow, Row, RowFile, counted, numbered

_DOCUMENT = "-DOCSTART-"
_MOST_TOKENS = 100_000


class ConllRows(RowFile):
    """A file of sentences; a row has one list for each column, of all tokens of a sentence.

    Columns are separated by tabs, or if the first line has none, by spaces.  They have no names;
    the first has the tokens, the last the tags.  Lines of ``-DOCSTART-`` are no tokens.

    Args:
        path (str): the file.
    Raises:
        OSError, ValueError: as :func:`open_rows`.
    """

    has_names = False

    def __init__(self, path: str):
        lines = (line for _, line in decoded_lines(path) if not _is_between(line))
        first = next(lines, None)
        if first is None:
            raise ValueError(f"{path} is empty")
        self._separator = "\t" if "\t" in first else " "
        super().__init__(path, numbered(len(self._split(first))))
        if len(self.columns) > 1:
            self.tags = self.columns[-1]

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row | BadRow]:
        place_of = {name: place for place, name in enumerate(self.columns)}
        places = [place_of[name] for name in columns]
        for begin, lines in self._sentences():
            try:
                tokens = [self._fields(line, number) for number, line in enumerate(lines, begin)]
            except BadRow as bad:
                yield bad
            else:
                yield Row(begin, [[token[place] for token in tokens] for place in places])

    def _sentences(self) -> Iterator[tuple[int, list[str]]]:
        begin, lines = 0, []
        for number, line in decoded_lines(self.path):
            if not _is_between(line):
                begin = begin if lines else number
                lines.append(line)
                if len(lines) > _MOST_TOKENS:
                    raise ValueError(
                        f"{self.place(begin)} begins a sentence of more than {_MOST_TOKENS:,} "
                        "tokens; a blank line ends one"
                    )
            elif lines:
                yield begin, lines
                lines = []
        if lines:
            yield begin, lines

    def _fields(self, line: str, number: int) -> list[str]:
        fields = self._split(line)
        if len(fields) != len(self.columns) or "" in fields:
            count = counted(sum(map(bool, fields)))
            raise BadRow(
                f"{self.place(number)} has {count} with something in it, and the first line of a "
                f"token has {len(self.columns)}",
                OTHER_COLUMNS,
            )
        return fields

    def _split(self, line: str) -> list[str]:
        fields = line.rstrip("\r").split(self._separator)
        # of spaces there may be several
        return fields if self._separator == "\t" else list(filter(None, fields))


def _is_between(line: str) -> bool:
    return not line.strip() or line.split(None, 1)[0] == _DOCUMENT
