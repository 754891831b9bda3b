"""How fairseq reads and writes its checkpoints: what it may read, and copies that are atomic."""

import argparse
import struct

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from tupe_fairseq.files.atomic import atomic_copy

_CODES = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "b1": "?"}


class _Dtype:
    """Stands for numpy's dtype, which would take its state, memory addresses too, from the file."""

    def __init__(self, code, *flags):
        self.code = code

    def __setstate__(self, state):
        pass


def _number(dtype: _Dtype, content: bytes):
    """Stands for numpy's scalar."""
    return struct.unpack("<" + _CODES[dtype.code], content)[0]


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load(weights_only=True)`` read what fairseq saves: options, and numpy's scores.

    Without it fairseq cannot resume on torch 2.6 or later, stock RoBERTa neither. Nothing that is
    allowed runs code or is a class of numpy's.
    """
    names = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")  # before 2.0, since
    torch.serialization.add_safe_globals(
        [argparse.Namespace, (_Dtype, "numpy.dtype"), *((_number, name) for name in names)]
    )


class AtomicPathManager(PathManager):
    """fairseq's file access, whose copies have their name only when they are complete.

    fairseq writes the first checkpoint of an update atomically and copies it to
    ``checkpoint_last.pt`` and ``checkpoint_best.pt``, where a kill would leave half a file.
    """

    @staticmethod
    def copy(src_path, dst_path, overwrite=False):
        if PathManager.path_requires_pathmanager(dst_path):
            return PathManager.copy(src_path, dst_path, overwrite=overwrite)
        atomic_copy(src_path, dst_path)
        return True


def copy_atomically() -> None:
    """Make fairseq copy checkpoints atomically in this process: the one name that we replace."""
    checkpoint_utils.PathManager = AtomicPathManager
