"""What importing the package sets up in fairseq and torch."""

import argparse
import os
from typing import List

import fairseq
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


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load`` with ``weights_only=True`` read what fairseq's checkpoints hold.

    That is one type beyond torch's own, ``argparse.Namespace``, a bag of attributes: rebuilding one
    runs no code.  Everything else remains refused.  Before torch 2.4 there is no list of allowed
    types, and fairseq unpickles without restriction.
    """
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals([argparse.Namespace])
