"""Writes fairseq's mmap format (SPLIT.bin, SPLIT.idx), the bytes that fairseq-preprocess writes."""

import contextlib
import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS
from tupe_fairseq.text.mmap_index import HEADER, HEADER_BYTES, LENGTH, MAGIC, OFFSET, dtype_code

_EOS = BUILT_IN_SYMBOLS.index("</s>")
# fairseq's own choice, which is below the 65,536 that would fit
_ENTRIES_OF_16_BITS = 65500
_CHUNK = 1 << 18


class Sentences(NamedTuple):
    """Sentences in a row.

    Args:
        tokens (array): the ids of all, each sentence with its ``</s>``.
        lengths (array of int32): of each sentence.
    """

    tokens: np.ndarray
    lengths: np.ndarray


def item_type(entries: int) -> np.dtype:
    """The dtype that fairseq-preprocess takes for the tokens of a dictionary.

    Args:
        entries (int): of the dictionary, ``<s>``, ``<pad>``, ``</s>`` and ``<unk>`` included.
    """
    return np.dtype("<u2" if entries < _ENTRIES_OF_16_BITS else "<u4")


def ended(ids: np.ndarray, lengths: np.ndarray) -> Sentences:
    """Put ``</s>`` at the end of each sentence.

    Args:
        ids (array): of all sentences in a row; their dtype stays.
        lengths (array of int): of each sentence; 0 for a blank one.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    return Sentences(np.insert(ids, ends, _EOS), np.add(lengths, 1, dtype=LENGTH))


class SentenceWriter:
    """Writes sentences; :func:`sentence_writer` makes one.

    Args:
        tokens, index: the two files, open for writing bytes.
        dtype (dtype): of the tokens.
    """

    def __init__(self, tokens: IO[bytes], index: IO[bytes], dtype: np.dtype):
        self._tokens, self._index, self._dtype = tokens, index, dtype
        self._sentences = 0
        self._write_header()

    def write(self, sentences: Sentences) -> None:
        """Add sentences."""
        self._tokens.write(sentences.tokens.astype(self._dtype, copy=False).tobytes())
        self._index.write(sentences.lengths.astype(LENGTH, copy=False).tobytes())
        self._sentences += len(sentences.lengths)

    def finish(self) -> None:
        """Write the number of sentences and where each begins; they are not kept in memory."""
        self._index.flush()
        begin = 0
        with open(self._index.name, "rb") as written:
            written.seek(HEADER_BYTES)
            for start in range(0, self._sentences, _CHUNK):
                count = min(_CHUNK, self._sentences - start)
                lengths = np.frombuffer(written.read(count * LENGTH.itemsize), LENGTH)
                ends = begin + np.cumsum(lengths, dtype=OFFSET) * self._dtype.itemsize
                self._index.write(np.concatenate(([begin], ends[:-1])).astype(OFFSET).tobytes())
                begin = int(ends[-1])
        self._index.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        self._index.write(struct.pack(HEADER, MAGIC, 1, dtype_code(self._dtype), self._sentences))


@contextlib.contextmanager
def sentence_writer(prefix: str, dtype: np.dtype) -> Iterator[SentenceWriter]:
    """Yields what writes PREFIX.bin and PREFIX.idx, which get these names when the block succeeds.

    Args:
        prefix (str): the two files, without their endings; the folder is made if missing.
        dtype (dtype): of the tokens, from :func:`item_type`.
    Raises:
        OSError: as writing, a full disk included.
    """
    with atomic_write(f"{prefix}.bin", "wb") as tokens, atomic_write(f"{prefix}.idx", "wb") as idx:
        writer = SentenceWriter(tokens, idx, dtype)
        yield writer
        writer.finish()
