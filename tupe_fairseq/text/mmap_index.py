"""fairseq's mmap format (SPLIT.bin, SPLIT.idx): counts and reads its sentences."""

import os
import struct

import numpy as np

MAGIC = b"MMIDIDX\x00\x00"
#: magic, version, code of the dtype, number of sentences; then a length for each sentence, then an
#: offset in bytes for each
HEADER = "<9sQBQ"
HEADER_BYTES = struct.calcsize(HEADER)
LENGTH, OFFSET = np.dtype("<i4"), np.dtype("<i8")
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4"}
_ITEM_BYTES = {code: np.dtype(dtype).itemsize for code, dtype in _DTYPES.items()}


def dtype_code(dtype: np.dtype) -> int:
    """How a file says of which dtype its tokens are."""
    return next(code for code, name in _DTYPES.items() if dtype == np.dtype(name))


def _read_header(prefix: str) -> tuple[int, int]:
    with open(prefix + ".idx", "rb") as file:
        header = file.read(HEADER_BYTES)
    if len(header) == HEADER_BYTES:
        magic, _, code, sentences = struct.unpack(HEADER, header)
        if magic == MAGIC and code in _ITEM_BYTES:
            return code, sentences
    raise ValueError(f"{prefix}.idx is not in fairseq's mmap format, or cut short")


def count(prefix: str) -> tuple[int, int]:
    """Sentences and tokens (including the </s> of each) of PREFIX.idx and PREFIX.bin.

    Raises:
        OSError: if one of the two cannot be read.
        ValueError: if it is not fairseq's mmap format, or one of the two is cut short.
    """
    code, sentences = _read_header(prefix)
    tokens, rest = divmod(os.path.getsize(prefix + ".bin"), _ITEM_BYTES[code])
    if rest or os.path.getsize(prefix + ".idx") != HEADER_BYTES + 12 * sentences:
        raise ValueError(f"{prefix}.idx or .bin is cut short")
    return sentences, tokens


def _lengths(prefix: str, sentences: int) -> np.ndarray:
    return np.fromfile(prefix + ".idx", dtype=LENGTH, count=sentences, offset=HEADER_BYTES)


def sentence_lengths(prefix: str) -> np.ndarray:
    """The number of tokens of each sentence, its </s> included, in a file that is not read yet.

    Raises:
        OSError, ValueError: as :func:`count`.
    """
    return _lengths(prefix, count(prefix)[0])


def sampled_tokens(prefix: str, most: int, parts: int = 100) -> np.ndarray:
    """Tokens of parts at an even distance, int64: all of them, or about as many as ``most``.

    Raises:
        OSError, ValueError: as :func:`count`.
    """
    _, total = count(prefix)
    code, _ = _read_header(prefix)
    if total == 0:  # which cannot be mapped
        return np.empty(0, np.int64)
    tokens = np.memmap(prefix + ".bin", dtype=_DTYPES[code], mode="r")
    if total > most:
        begins = np.arange(parts) * (total // parts)
        tokens = np.concatenate([tokens[begin : begin + most // parts] for begin in begins])
    return tokens.astype(np.int64)


def checked_count(prefix: str, symbols: int) -> int:
    """Sentences of PREFIX.idx and PREFIX.bin, after a look at all of both.

    Args:
        prefix (str): the two files, without their endings.
        symbols (int): how many the dictionary has.
    Raises:
        OSError, ValueError: as :func:`count`; or if the index is not that of the tokens, or a token
            is none of the symbols.
    """
    tokens, begins, _ = _mapped(prefix)
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < symbols:
        raise ValueError(
            f"{prefix}.bin has tokens from {tokens.min()} to {tokens.max()}, but the symbols of "
            f"its dict.txt are 0 to {symbols - 1}"
        )
    return len(begins)


def first_tokens(prefix: str) -> np.ndarray:
    """The first token of each sentence, int64: of a label file, the labels.

    Raises:
        OSError, ValueError: as :func:`count`; or if the index is not that of the tokens.
    """
    tokens, begins, _ = _mapped(prefix)
    return tokens[begins].astype(np.int64)


def first_sentences(prefix: str, most: int) -> list[np.ndarray]:
    """The tokens of the first sentences, int64, at most so many.

    Raises:
        OSError, ValueError: as :func:`first_tokens`.
    """
    tokens, begins, ends = _mapped(prefix)
    return [tokens[a:b].astype(np.int64) for a, b in zip(begins[:most], ends[:most])]


def _mapped(prefix: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All tokens, in a file that is not read yet, and where each sentence begins and ends."""
    sentences, total = count(prefix)
    code, _ = _read_header(prefix)
    lengths = _lengths(prefix, sentences).astype(np.int64)
    ends = np.cumsum(lengths)
    place = HEADER_BYTES + 4 * sentences
    offsets = np.fromfile(prefix + ".idx", dtype=OFFSET, count=sentences, offset=place)
    elsewhere = offsets != _ITEM_BYTES[code] * (ends - lengths)
    if (lengths < 1).any() or lengths.sum() != total or elsewhere.any():
        raise ValueError(f"{prefix}.idx is damaged, or not that of {prefix}.bin")
    if total == 0:  # which cannot be mapped
        return np.empty(0, _DTYPES[code]), ends, ends
    return np.memmap(prefix + ".bin", dtype=_DTYPES[code], mode="r"), ends - lengths, ends
