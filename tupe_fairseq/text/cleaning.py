"""The first pass over raw text: clean lines, and a hash of each to find duplicates by."""

import hashlib
from typing import Any, NamedTuple

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.text.documents import DocumentWriter, Lines, collapse
from tupe_fairseq.text.parallel import ordered_map
from tupe_fairseq.text.reading import TextFile
from tupe_fairseq.text.row_texts import open_texts
from tupe_fairseq.text.sentences import LineSentences
from tupe_fairseq.text.treatment import TextTreatment

HASH_BYTES = 8


class CleanBlock(NamedTuple):
    """A cleaned block: its lines, the hashes of those that are not blank, and counts."""

    lines: Lines
    hashes: bytes
    counts: dict[str, int]


class Cleaner:
    """Cleans blocks of lines.

    Args:
        treatment (TextTreatment): the treatment of the characters.
        split_language (str, optional): split lines into sentences by the rules of this language,
            two letters; None keeps lines as they are.
        min_chars, max_chars (int): shorter and longer lines (sentences, if they are split) are
            dropped; in characters after the treatment.
    Raises:
        ValueError: if there are no rules for the language.
    """

    def __init__(
        self,
        treatment: TextTreatment,
        split_language: str | None = None,
        min_chars: int = 1,
        max_chars: int = 100_000,
    ):
        self.treatment = treatment
        self.min_chars = min_chars
        self.max_chars = max_chars
        self._splitter = None
        if split_language is not None:
            self._splitter = LineSentences(split_language)

    def __call__(self, block: bytes) -> CleanBlock:
        """Clean whole lines.  A line that is blank afterwards separates documents."""
        text, invalid = _decode(block)
        return self._clean(self.treatment.apply(text).split("\n")[:-1], invalid)

    def documents(self, texts: list[str], invalid: int = 0) -> CleanBlock:
        """Clean texts that are whole documents, whatever blank lines they have inside.

        Args:
            texts (list of str): documents, of any number of lines.
            invalid (int): how many more there were that are not UTF-8; each counts as one line.
        """
        lines = self.treatment.apply("\n".join([*texts, ""])).split("\n")[:-1]
        separated: list[str] = []
        start = 0
        for text in texts:
            end = start + text.count("\n") + 1
            separated += filter(None, lines[start:end])
            separated.append("")
            start = end
        return self._clean(separated, invalid)

    def _clean(self, lines: list[str], invalid: int) -> CleanBlock:
        read = invalid + len(lines) - lines.count("")
        split_off = 0
        if self._splitter is not None:
            before = len(lines)
            lines = self._sentences(lines)
            split_off = len(lines) - before
        kept: list[bytes] = []
        hashes = []
        too_short = too_long = 0
        for line in lines:
            if not line:
                kept.append(b"")
            elif len(line) < self.min_chars:
                too_short += 1
            elif len(line) > self.max_chars:
                too_long += 1
            else:
                encoded = line.encode()
                kept.append(encoded)
                hashes.append(line_hash(encoded))
        counts = {
            "read": read,
            "split_off": split_off,
            "invalid_utf8": invalid,
            "too_short": too_short,
            "too_long": too_long,
        }
        return CleanBlock(collapse(kept), b"".join(hashes), counts)

    def _sentences(self, lines: list[str]) -> list[str]:
        found = []
        for line in lines:
            if line:
                found += self._splitter.split(line)
            else:
                found.append(line)
        return found


def line_hash(line: bytes) -> bytes:
    """64 bits: among a billion different lines, the chance of any collision is 3%."""
    return hashlib.blake2b(line, digest_size=HASH_BYTES).digest()


class RowCleaner:
    """Cleans blocks of rows, each of which is a document.

    Args:
        cleaner (Cleaner): cleans their texts.
        rows (JsonTexts or ParquetTexts): finds the texts of a block.
    """

    def __init__(self, cleaner: Cleaner, rows):
        self._cleaner = cleaner
        self._rows = rows

    def __call__(self, block) -> CleanBlock:
        """Clean a block of the rows.

        Raises:
            ValueError: if a row has no text.
        """
        texts, invalid = self._rows.texts(block)
        cleaned = self._cleaner.documents(texts, invalid)
        cleaned.counts["rows"] = len(texts) + invalid
        return cleaned


def clean_file(
    path: str, cleaner: Cleaner, prefix: str, workers: int, bar, field: str | None = None
) -> dict[str, int]:
    """Clean a file into PREFIX.txt and PREFIX.hash (8 bytes for each line that is not blank).

    Args:
        path (str): plain, .gz, .xz or .bz2 text; or rows, if there is a field.
        cleaner (Cleaner): cleans each block.
        prefix (str): of the two files to write.
        workers (int): processes.
        bar (tqdm): advanced by the bytes read.
        field (str, optional): of the rows, the one with the text.
    Returns:
        dict: lines read, split off and dropped by reason, rows (0 in plain text), documents.
    Raises:
        OSError, ValueError: as :class:`TextFile` or :func:`open_texts`, or if there is no space
            left.
    """
    source: Any = TextFile(path) if field is None else open_texts(path, field)
    work = cleaner if field is None else RowCleaner(cleaner, source)
    reasons = ("invalid_utf8", "too_short", "too_long")
    counts = dict.fromkeys(("read", "split_off", *reasons, "rows"), 0)
    before = bar.n
    with atomic_write(prefix + ".txt", "wb") as text, atomic_write(prefix + ".hash", "wb") as marks:
        writer = DocumentWriter(text)
        for block in ordered_map(work, source.blocks(), workers):
            writer.write(block.lines)
            marks.write(block.hashes)
            for name, count in block.counts.items():
                counts[name] += count
            bar.update(before + source.bytes_read - bar.n)
        # the end of a file may consist of one skipped line
        bar.update(before + source.bytes_read - bar.n)
    counts["read"] += source.too_long
    counts["too_long"] += source.too_long
    counts["documents"] = writer.documents
    return counts


def _decode(block: bytes):
    """The text without the lines that are not UTF-8, and the number of those lines."""
    try:
        return block.decode(), 0
    except UnicodeDecodeError:
        pass
    good = []
    lines = block.split(b"\n")
    for line in lines:
        try:
            good.append(line.decode())
        except UnicodeDecodeError:
            continue
    return "\n".join(good), len(lines) - len(good)
