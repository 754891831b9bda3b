"""Distributes documents over train, valid, test and shards, without the duplicate lines."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.text.cleaning import HASH_BYTES
from tupe_fairseq.text.documents import DocumentWriter, Lines

# Longer documents are distributed in parts of this many lines: otherwise a corpus without blank
# lines, or of a few books, could not be split.
PART_LINES = 1000
# read ahead of what is known of the lines
_LINES = 1 << 15


class Part(NamedTuple):
    """Lines of one document that stay together.

    Attributes:
        key (int): 64 random bits that depend on the first line only; no two parts share a first
            line, because duplicates are removed.
        document (int): number of the document.
        number (int): number of the part within the document.
        lines (list of bytes): one or more.
    """

    key: int
    document: int
    number: int
    lines: list[bytes]


def read_parts(prefixes: Iterable[str], marks: str, first_line: int = 0) -> Iterator[Part]:
    """Yield the parts of cleaned files, without the lines marked as duplicates.

    Args:
        prefixes (list): PREFIX.txt and PREFIX.hash, as ``clean_file`` writes them.
        marks (str): the file of ``mark_duplicates``.
        first_line (int): the first line of these files in ``marks``.
    """
    document = 0
    with open(marks, "rb") as marked:
        marked.seek(first_line)
        for prefix in prefixes:
            with open(prefix + ".txt", "rb") as text, open(prefix + ".hash", "rb") as hashes:
                key, number, lines = b"", 0, []
                known: Iterator[tuple[bytes, bool]] = _of_lines(hashes, marked)
                for line in text:
                    if line == b"\n":
                        if lines:
                            yield _part(key, document, number, lines)
                        document += 1
                        number, lines = 0, []
                        continue
                    line_hash, is_duplicate = next(known)
                    if is_duplicate:
                        continue
                    if not lines:
                        key = line_hash
                    lines.append(line[:-1])
                    if len(lines) == PART_LINES:
                        yield _part(key, document, number, lines)
                        number, lines = number + 1, []
                if lines:
                    yield _part(key, document, number, lines)
                document += 1


def _of_lines(hashes, marked) -> Iterator[tuple[bytes, bool]]:
    """The hash of each line, and whether it is a duplicate, from where the two files stand."""
    while True:
        found = hashes.read(HASH_BYTES * _LINES)
        if not found:
            return
        lines = len(found) // HASH_BYTES
        each = (found[n : n + HASH_BYTES] for n in range(0, len(found), HASH_BYTES))
        yield from zip(each, map(bool, marked.read(lines)))


def _part(key, document, number, lines):
    return Part(int.from_bytes(key, "little"), document, number, lines)


class ByHash:
    """Chooses the split of a part by its key.

    Args:
        fractions (dict): split to its share, without train.
    """

    def __init__(self, fractions: dict[str, float]):
        self._limits = []
        total = 0.0
        for split, fraction in fractions.items():
            total += fraction
            self._limits.append((split, int(total * 2**64)))

    def __call__(self, part: Part, first_line: int) -> dict[str, list[bytes]]:
        for split, limit in self._limits:
            if part.key < limit:
                return {split: part.lines}
        return {"train": part.lines}


class ByPosition:
    """Gives the last lines to test and valid: for texts of too few documents to choose from.

    Args:
        fractions (dict): split to its share, without train.
        lines (int): lines in all.
    """

    def __init__(self, fractions: dict[str, float], lines: int):
        self._starts = []
        end = lines
        for split, fraction in fractions.items():
            start = end - max(1, round(fraction * lines))
            self._starts.append((split, start, end))
            end = start
        self._starts.append(("train", 0, end))

    def __call__(self, part: Part, first_line: int) -> dict[str, list[bytes]]:
        found = {}
        for split, start, end in self._starts:
            lines = part.lines[max(0, start - first_line) : max(0, end - first_line)]
            if lines:
                found[split] = lines
        return found


class SplitWriter:
    """Writes one split, round robin over its shards.

    Args:
        files (list): one for each shard, open for writing bytes.
        join_short (int): a line shorter than this many characters is joined with the next one of
            its document; 0 joins none.
        max_chars (int): never join to more than this.

    Attributes:
        counts (dict): documents, parts, lines before joining, and lines removed by joining.
    """

    def __init__(self, files, join_short: int, max_chars: int):
        self._writers = [DocumentWriter(file) for file in files]
        # of each shard, the document and number of the last part
        self._last = [None] * len(files)
        self._join_short = join_short
        self._max_chars = max_chars
        self.counts = {"documents": 0, "parts": 0, "lines": 0, "joined": 0}
        self._last_document = None

    def write(self, part: Part, lines: list[bytes]) -> None:
        """Write those lines of a part that belong to this split."""
        shard = self.counts["parts"] % len(self._writers)
        self.counts["parts"] += 1
        if self._last[shard] != (part.document, part.number - 1):
            self._writers[shard].end_document()
        self._last[shard] = (part.document, part.number)
        if part.document != self._last_document:
            self.counts["documents"] += 1
            self._last_document = part.document
        self.counts["lines"] += len(lines)
        if self._join_short:
            joined = list(self._join(lines))
            self.counts["joined"] += len(lines) - len(joined)
            lines = joined
        self._writers[shard].write(Lines(b"\n".join(lines) + b"\n", 1))

    def _join(self, lines: list[bytes]) -> Iterator[bytes]:
        held: str | None = None
        for line in (encoded.decode() for encoded in lines):
            if held is None:
                held = line
            elif len(held) < self._join_short and len(held) + 1 + len(line) <= self._max_chars:
                held += " " + line
            else:
                yield held.encode()
                held = line
        if held is not None:
            yield held.encode()


def deal(
    parts: Iterable[Part],
    choose: Callable[[Part, int], dict[str, list[bytes]]],
    paths: dict[str, list[str]],
    join_short: int,
    max_chars: int,
    on_part: Callable[[], object] = lambda: None,
) -> dict[str, dict[str, int]]:
    """Write the parts to the splits that ``choose`` gives them to.

    Args:
        parts (iterable): of :func:`read_parts`.
        choose (callable): :class:`ByHash`, :class:`ByPosition`, or any other function from a
            part and the number of its first line to the lines of each split.
        paths (dict): split to a file for each shard.
        join_short, max_chars (int): as for :class:`SplitWriter`.
        on_part (callable): called after each part.
    Returns:
        dict: split to its documents, lines (before joining) and lines removed by joining.
    """
    with contextlib.ExitStack() as stack:
        writers = {
            split: SplitWriter(
                [stack.enter_context(atomic_write(path, "wb")) for path in shards],
                join_short,
                max_chars,
            )
            for split, shards in paths.items()
        }
        line = 0
        for part in parts:
            for split, lines in choose(part, line).items():
                writers[split].write(part, lines)
            line += len(part.lines)
            on_part()
        return {split: writer.counts for split, writer in writers.items()}
