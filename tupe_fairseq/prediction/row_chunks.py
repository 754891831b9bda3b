"""Reads the rows of a file in chunks, with the texts that a model gets of each."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tupe_fairseq.rows.row_file import Row, Value

#: rows of a chunk; fewer if their texts are longer than _CHARACTERS together
CHUNK_ROWS = 8192
_CHARACTERS = 1 << 23


class Chunk(NamedTuple):
    """Rows in their order.

    Args:
        values (list): the values of each, of all columns.
        texts (list): what the model gets of each: its texts, or the words of a sentence.
    """

    values: list[list[Value]]
    texts: list[list[str]]


def read_chunks(rows: Iterable[Row], places: Sequence[int], is_words: bool) -> Iterator[Chunk]:
    """Yield chunks, whose sizes depend on nothing but the rows.

    Args:
        rows (iterable): of all columns.
        places (sequence of int): the columns with the texts.
        is_words (bool): the one text is a sentence of words: a list, or with spaces between.
    """
    chunk, characters = Chunk([], []), 0
    for row in rows:
        texts = [_joined(row.values[place]) for place in places]
        characters += sum(map(len, texts))
        if is_words:
            value = row.values[places[0]]
            texts = value.split() if isinstance(value, str) else list(value)
        chunk.values.append(row.values)
        chunk.texts.append(texts)
        if len(chunk.values) == CHUNK_ROWS or characters >= _CHARACTERS:
            yield chunk
            chunk, characters = Chunk([], []), 0
    if chunk.values:
        yield chunk


def _joined(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value)
