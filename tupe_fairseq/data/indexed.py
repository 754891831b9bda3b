"""fairseq's binary data (SPLIT.bin and SPLIT.idx): the bytes that fairseq-preprocess writes.

The index is a header (magic, version, code of the dtype, number of sentences), then the length of
each sentence in tokens, then where each begins, in bytes.
"""

import contextlib
import itertools
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tupe_fairseq.data.dictionary import EOS

_HEADER = "<9sQBQ"
_HEADER_BYTES = struct.calcsize(_HEADER)
_MAGIC = b"MMIDIDX\x00\x00"
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4"}


def token_dtype(vocab_size: int) -> np.dtype:
    """The dtype that fairseq-preprocess chooses for a vocabulary of this size."""
    return np.dtype("<u2" if vocab_size < 65500 else "<u4")


def flat(sentences: Sequence[Sequence[int]], dtype: Any = "<i8") -> tuple[np.ndarray, np.ndarray]:
    """All ids in one array, and the length of each sentence."""
    lengths = np.fromiter(map(len, sentences), "<i4", len(sentences))
    ids = itertools.chain.from_iterable(sentences)
    return np.fromiter(ids, dtype, int(lengths.sum())), lengths


class IndexedWriter:
    """Writes PREFIX.bin and PREFIX.idx, which appear only when the ``with`` block succeeds."""

    def __init__(self, prefix: str, vocab_size: int):
        self.prefix = prefix
        self.dtype = token_dtype(vocab_size)
        self.lengths: list[np.ndarray] = []

    def __enter__(self) -> "IndexedWriter":
        os.makedirs(os.path.dirname(self.prefix) or ".", exist_ok=True)
        self.tokens = open(f"{self.prefix}.bin.partial", "wb")
        return self

    def write(self, sentences: Sequence[Sequence[int]]) -> None:
        """Add sentences; each gets its </s>. An empty sentence separates documents."""
        self.write_flat(*flat(sentences, self.dtype))

    def write_flat(self, ids: np.ndarray, lengths: Sequence[int] | np.ndarray) -> None:
        """Like :meth:`write`, from the two arrays of :func:`flat`."""
        counts = np.asarray(lengths, "<i4")
        tokens = np.insert(ids.astype(self.dtype, copy=False), np.cumsum(counts, dtype="<i8"), EOS)
        self.tokens.write(tokens)
        self.lengths.append(counts + np.int32(1))

    def __exit__(self, failed, *_) -> None:
        self.tokens.close()
        if failed:
            os.remove(self.tokens.name)
            return
        code = next(code for code, name in _DTYPES.items() if self.dtype == name)
        count, begin, size = sum(map(len, self.lengths)), 0, self.dtype.itemsize
        with open(f"{self.prefix}.idx.partial", "wb") as index:
            index.write(struct.pack(_HEADER, _MAGIC, 1, code, count))
            index.writelines(self.lengths)
            for lengths in self.lengths:
                index.write(begin + (np.cumsum(lengths, dtype="<i8") - lengths) * size)
                begin += int(lengths.sum()) * size
        for ending in ("bin", "idx"):
            os.replace(f"{self.prefix}.{ending}.partial", f"{self.prefix}.{ending}")


def read_indexed(prefix: str) -> tuple[np.ndarray, np.ndarray]:
    """All tokens, memory-mapped, and the length of each sentence with its </s>."""
    size = os.path.getsize(f"{prefix}.idx")
    with open(f"{prefix}.idx", "rb") as index, contextlib.suppress(struct.error):
        magic, _, code, count = struct.unpack(_HEADER, index.read(_HEADER_BYTES))
        if magic == _MAGIC and code in _DTYPES and size == _HEADER_BYTES + 12 * count:
            lengths = np.fromfile(index, "<i4", count).astype(np.int64)
            dtype = np.dtype(_DTYPES[code])
            total = int(lengths.sum())
            if os.path.getsize(f"{prefix}.bin") != total * dtype.itemsize:
                raise ValueError(f"{prefix}.idx is not the index of {prefix}.bin")
            # an empty file cannot be mapped
            return np.memmap(f"{prefix}.bin", dtype, "r") if total else np.empty(0, dtype), lengths
    raise ValueError(f"{prefix}.idx is not in fairseq's mmap format, or is truncated")


def token_counts(prefix: str) -> np.ndarray:
    """How often each token occurs, int64 (V), up to the highest one that does."""
    tokens, counts = read_indexed(prefix)[0], np.zeros(0, np.int64)
    for start in range(0, len(tokens), 1 << 24):  # bincount copies what it counts
        more = np.bincount(tokens[start : start + (1 << 24)], minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    return counts


def read_sentences(prefix: str, most: int | None = None) -> list[np.ndarray]:
    """The tokens of the first sentences, or of all, int64, each with its </s>."""
    tokens, lengths = read_indexed(prefix)
    ends, tokens = np.cumsum(lengths[:most]).tolist(), np.asarray(tokens)  # a memmap slices slowly
    return [tokens[a:b].astype(np.int64) for a, b in zip([0, *ends], ends)]
