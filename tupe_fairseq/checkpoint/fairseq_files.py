"""How fairseq reads and writes its checkpoints: what it may read, and copies that are atomic."""

import argparse

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from tupe_fairseq.checkpoint.checkpoint import NUMPY_SUBSTITUTES
from tupe_fairseq.files.atomic import atomic_copy


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load(weights_only=True)`` read what fairseq saves: options, and numpy's scores.

    Without it fairseq cannot resume on torch 2.6 or later, stock RoBERTa neither. Nothing that is
    allowed runs code or is a class of numpy's.
    """
    torch.serialization.add_safe_globals([argparse.Namespace, *NUMPY_SUBSTITUTES])


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
