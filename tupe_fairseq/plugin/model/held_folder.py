"""Keeps a folder for one training of one process."""

import contextlib
import logging
import os
import time
import weakref
from typing import Any, Dict, Tuple

from tupe_fairseq.files.lock import locked

logger = logging.getLogger(__name__)

# a killed training may need a while to give its memory back
_PATIENCE = 5  # seconds

_HELD: Dict[str, Tuple[contextlib.ExitStack, object]] = {}


def hold(folder: str, owner: Any, patience: float = _PATIENCE) -> None:
    """Keep other processes out of a folder until the owner, or this process, is gone.

    A file system that has no locks is used without, with a warning.

    Args:
        folder (str): the folder; this process may hold it already, for an earlier owner.
        owner (object): what uses it.
        patience (float): seconds to wait for another process to end.
    Raises:
        ValueError: if another process still holds it then.
    """
    key, token = os.path.realpath(folder), object()
    if key in _HELD:
        stack, _ = _HELD[key]
    else:
        try:
            stack = _locked(folder, time.monotonic() + patience)
        except OSError as error:
            logger.warning("%s cannot be locked (%s): train there once at a time", folder, error)
            return
    _HELD[key] = stack, token
    weakref.finalize(owner, _release, key, token)


def _locked(folder: str, deadline: float) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    while True:
        try:
            stack.enter_context(locked(folder))
            return stack
        except ValueError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"another training is using --save-dir {folder}: their checkpoints would mix; "
                    "wait for it, or give another --save-dir"
                ) from error
        time.sleep(0.1)


def _release(key: str, token: object) -> None:
    stack, newest = _HELD.get(key, (None, None))
    if newest is token:
        del _HELD[key]
        stack.close()


def _let_go() -> None:
    """In a forked child, such as a worker of a data loader, which may outlive a killed training."""
    for stack, _ in _HELD.values():
        stack.close()
    _HELD.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_let_go)
