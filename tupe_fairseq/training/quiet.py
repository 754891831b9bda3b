"""Keeping a library's log off the screen."""

import contextlib
import logging


@contextlib.contextmanager
def quiet(*names: str):
    """Let only warnings of these loggers through: what else they say train.log has already."""
    loggers = [logging.getLogger(name) for name in names]
    before = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.WARNING)
        yield
    finally:
        for one, level in zip(loggers, before):
            one.setLevel(level)
