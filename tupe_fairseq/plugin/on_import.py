"""What importing the package sets up in fairseq and torch."""

import argparse
import os
from typing import List

import fairseq
import numpy as np
import torch


def know_own_spellings(package_path: List[str]) -> None:
    """Let ``--user-dir`` recognise a package that is already imported, however its path is spelled.

    ``--user-dir NAME`` is looked up next to fairseq as ``.../fairseq/../NAME``, and fairseq then
    looks for exactly this string in the ``__path__`` of the module of that name; if the package was
    imported before under another spelling, fairseq stops with "not globally unique".  A folder that
    is another copy of the package stays unknown: two copies in one process are an error.

    Args:
        package_path (list of str): the package's ``__path__``, changed in place.
    """
    here = os.path.realpath(package_path[0])
    next_to_fairseq = os.path.join(
        os.path.dirname(fairseq.__file__), "..", os.path.basename(package_path[0])
    )
    for spelling in (next_to_fairseq, here):
        if os.path.realpath(spelling) == here and spelling not in package_path:
            package_path.append(spelling)


# those in which criterions compute their metrics
_NUMPY_TYPES = (np.float16, np.float32, np.float64, np.int32, np.int64, np.bool_)


def torch_is_at_least(major: int, minor: int) -> bool:
    """Whether this is that release of torch, or a later one."""
    return tuple(map(int, torch.__version__.split(".")[:2])) >= (major, minor)


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load`` with ``weights_only=True`` read what fairseq's checkpoints hold.

    That is ``argparse.Namespace``, a bag of attributes, and numpy's numbers, which a score can be
    (scipy's correlation, in ``--best-checkpoint-metric pearson``): rebuilding them runs no code.
    Everything else remains refused.  Before torch 2.6 fairseq unpickles without restriction, and
    before 2.10 a crafted file can corrupt memory on the way (CVE-2026-24747).
    """
    if torch_is_at_least(2, 6):
        # a method's own way to say which function of numpy makes it, wherever this numpy has it
        scalar = np.float64(0).__reduce__()[0]
        names = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
        kinds = {type(np.dtype(kind)) for kind in _NUMPY_TYPES}
        torch.serialization.add_safe_globals(
            [argparse.Namespace, np.dtype, *kinds, *((scalar, name) for name in names)]
        )
