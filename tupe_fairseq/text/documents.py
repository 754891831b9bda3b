"""Joins blocks that were processed separately into text with blank lines between documents."""

from collections.abc import Iterable
from typing import NamedTuple


class Lines(NamedTuple):
    """Part of a text: its bytes, in which a blank line ends a document.

    Attributes:
        content (bytes): whole lines; no two blank ones in a row, though the first may be blank.
        documents (int): runs of lines that are not blank.
    """

    content: bytes
    documents: int


def collapse(lines: Iterable[bytes]) -> Lines:
    """Join lines; of several blank ones in a row one is kept."""
    kept: list[bytes] = []
    documents = 0
    for line in lines:
        if line:
            documents += not kept or not kept[-1]
            kept.append(line)
        elif not kept or kept[-1]:
            kept.append(line)
    return Lines(b"\n".join(kept) + b"\n" if kept else b"", documents)


class DocumentWriter:
    """Writes blocks of lines with exactly one blank line between two documents.

    Args:
        file: open for writing bytes.

    Attributes:
        documents (int): documents written so far.
    """

    def __init__(self, file):
        self._file = file
        self._open = False
        self._pending_blank = False
        self.documents = 0

    def end_document(self) -> None:
        """The next line starts a document."""
        self._pending_blank = self._pending_blank or self._open
        self._open = False

    def write(self, lines: Lines) -> None:
        """Write a part; it continues the last document unless it starts with a blank line."""
        content = lines.content
        if content.startswith(b"\n"):
            self.end_document()
            content = content[1:]
        if not content:
            return
        if self._pending_blank:
            self._file.write(b"\n")
            self._pending_blank = False
        # a continued document was counted when it began
        self.documents += lines.documents - self._open
        ends = content.endswith(b"\n\n")
        self._file.write(content[:-1] if ends else content)
        self._open = True
        if ends:
            self.end_document()
