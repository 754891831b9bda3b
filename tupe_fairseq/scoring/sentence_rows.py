"""Reads sentences, one a line, and says which line is wrong."""

import sys
from collections.abc import Iterator
from typing import IO, NamedTuple

from tupe_fairseq.text.not_text import refuse_what_is_no_text
from tupe_fairseq.text.reading import LINE_BYTES, TextFile


class SentenceRow(NamedTuple):
    """A sentence.

    Args:
        place (str): where it stands, for messages.
        sentence (str): the line, without white space at its ends.
    """

    place: str
    sentence: str

    @property
    def sentences(self):
        """All that is to be scored of the row."""
        return (self.sentence,)


def read_sentences(path: str | None, skip_empty: bool = False) -> Iterator[SentenceRow]:
    """The lines of a file.

    Args:
        path (str, optional): plain, .gz, .xz or .bz2; standard input if None.
        skip_empty (bool): leave out empty lines, as between documents; else they are refused.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not text or empty, or a line is empty, too long or not UTF-8; the
            message has its number.
    """
    name = "standard input" if path is None else path
    row = None
    for number, line in enumerate(_lines(path), 1):
        place = f"{name}, line {number}"
        try:
            sentence = line.decode().strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"{place}: not UTF-8") from error
        if not sentence:
            if skip_empty:
                continue
            raise ValueError(f"{place} is empty; give one sentence in each line")
        row = SentenceRow(place, sentence)
        yield row
    if row is None:
        raise ValueError(f"{name} is empty; give one sentence in each line")


def _lines(path: str | None) -> Iterator[bytes]:
    if path is None:
        yield from bounded_lines(sys.stdin.buffer, "standard input")
        return
    refuse_what_is_no_text(path)
    file, count = TextFile(path), 0
    for block in file.blocks():
        if file.too_long:
            break
        lines = block.split(b"\n")[:-1]
        count += len(lines)
        yield from lines
    if file.too_long:
        raise ValueError(f"{path}: a line after line {count} is longer than {LINE_BYTES:,} bytes")


def bounded_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """The lines of an open file, none of which may take all memory.

    Raises:
        ValueError: if one is longer than 4 MiB; the message has its number.
    """
    number = 0
    while True:
        line = file.readline(LINE_BYTES + 1)
        number += 1
        if not line:
            return
        if len(line) > LINE_BYTES:
            raise ValueError(f"{name}, line {number} is longer than {LINE_BYTES:,} bytes")
        yield line
