"""Finds every line that occurred before, in bounded memory."""

import os

import numpy as np

from tupe_fairseq.files.atomic import atomic_write

_ENTRY = np.dtype([("hash", "<u8"), ("line", "<u8")])
# an entry, its place in the sorted order, and the copies that sorting makes
_BYTES_PER_LINE = 64
_CHUNK_LINES = 1 << 20


def mark_duplicates(hash_files: list[str], marks: str, folder: str, memory: int = 256 << 20) -> int:
    """Mark every line whose hash occurred before.

    The hashes are first distributed over files by their top bits, so that each file can be sorted
    within ``memory``; equal hashes end up in the same file.

    Args:
        hash_files (list): files of 8-byte hashes, in order of precedence.
        marks (str): file to write: a byte for each line of all files, 1 for a duplicate.
        folder (str): for the temporary files, which are removed again.
        memory (int): bytes of memory to use.
    Returns:
        int: the number of duplicates.
    Raises:
        OSError: if there is no space left.
    """
    lines = sum(os.path.getsize(path) // 8 for path in hash_files)
    bits = 0
    while (lines * _BYTES_PER_LINE) >> bits > memory:
        bits += 1
    # writing the zeros reserves the space: a full disk is an error here, but a crash in a memmap
    with atomic_write(marks, "wb") as file:
        for start in range(0, lines, _CHUNK_LINES):
            file.write(bytes(min(_CHUNK_LINES, lines - start)))
    if not lines:
        return 0
    parts = [os.path.join(folder, f"hashes{number}") for number in range(1 << bits)]
    for path in parts:
        open(path, "wb").close()
    first_line = 0
    for path in hash_files:
        first_line = _deal(path, first_line, bits, parts)
    marked = np.memmap(marks, dtype=np.uint8, mode="r+", shape=(lines,))
    duplicates = 0
    for path in parts:
        entries = np.fromfile(path, dtype=_ENTRY)
        # entries are in the order of the text, and a stable sort keeps the first one first
        order = np.argsort(entries["hash"], kind="stable")
        ordered = entries["hash"][order]
        repeated = entries["line"][order[1:][ordered[1:] == ordered[:-1]]]
        marked[repeated] = 1
        duplicates += len(repeated)
        os.remove(path)
    marked.flush()
    return duplicates


def _deal(hash_file: str, first_line: int, bits: int, parts: list[str]) -> int:
    """Append each hash, with the number of its line, to the file of its top bits."""
    with open(hash_file, "rb") as file:
        while True:
            hashes = np.frombuffer(file.read(_CHUNK_LINES * 8), dtype="<u8")
            if not len(hashes):
                return first_line
            entries = np.empty(len(hashes), dtype=_ENTRY)
            entries["hash"] = hashes
            entries["line"] = np.arange(first_line, first_line + len(hashes), dtype=np.uint64)
            first_line += len(hashes)
            if not bits:
                _append(parts[0], entries)
                continue
            part = (hashes >> np.uint64(64 - bits)).astype(np.int64)
            order = np.argsort(part, kind="stable")
            starts = np.searchsorted(part[order], np.arange(len(parts) + 1))
            entries = entries[order]
            for number, path in enumerate(parts):
                _append(path, entries[starts[number] : starts[number + 1]])


def _append(path: str, entries: np.ndarray) -> None:
    # not ndarray.tofile, whose errors do not say what went wrong
    with open(path, "ab") as file:
        file.write(entries.tobytes())
