"""The bytes before the numbers in files of vectors, so that these can be written one by one."""

import io
import json
from collections.abc import Callable, Sequence

import numpy as np

from tupe_fairseq.files.names import VECTOR_FILES, VECTORS


def _npy(rows: int, width: int) -> bytes:
    header = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def _safetensors(rows: int, width: int) -> bytes:
    # its library writes from memory only; the format: safetensors_file.py
    entry = {"dtype": "F32", "shape": [rows, width], "data_offsets": [0, 4 * rows * width]}
    header = json.dumps({VECTORS: entry}).encode()
    # the numbers begin at a multiple of 8
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


#: ending of a file -> rows and width -> what is before the numbers: float32, little-endian, by rows
HEADERS: dict[str, Callable[[int, int], bytes]] = dict(zip(VECTOR_FILES, (_npy, _safetensors)))


def vector_bytes(vectors: Sequence[np.ndarray]) -> bytes:
    """The numbers of some vectors, as they follow the header."""
    return np.stack(vectors).astype("<f4").tobytes()
