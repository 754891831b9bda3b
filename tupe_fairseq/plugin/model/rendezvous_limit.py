"""Workers that wait for another one which never comes end, instead of waiting for half an hour."""

import faulthandler
import functools
import logging
import os
import sys
from typing import Callable

from fairseq.distributed import utils as distributed

logger = logging.getLogger(__name__)

#: of the environment: seconds, 0 for torch's own limit of 10 to 30 minutes
VARIABLE = "TUPE_RENDEZVOUS_SECONDS"
_SECONDS = 45  # so that a worker that has died ends the others within a minute


def limit_rendezvous() -> None:
    """Limit how long fairseq-train waits until all its processes have met.

    Afterwards the connections themselves tell that a worker has ended, however long a validation or
    a checkpoint takes, and this limit is over.  fairseq passes none to torch and has no hook there,
    so the function that it calls is replaced; fairseq-hydra-train loads the package only later.
    """
    if not hasattr(distributed.distributed_init, "__wrapped__"):
        distributed.distributed_init = _limited(distributed.distributed_init)


def _limited(meet: Callable) -> Callable:
    @functools.wraps(meet)
    def distributed_init(cfg):
        seconds, of = _seconds(), cfg.distributed_training
        if not seconds:
            return meet(cfg)
        logger.info(
            "rank %s of %s waits for the others at %s, for %g seconds at most: after that, one of "
            "them has ended or was not started; see its messages and start all of them again, or, "
            "if they need longer to start, set %s",
            of.distributed_rank, of.distributed_world_size, of.distributed_init_method, seconds,
            VARIABLE,
        )  # fmt: skip
        # not a thread of Python's: older releases of torch wait without letting go of the GIL
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
        try:
            return meet(cfg)
        finally:
            faulthandler.cancel_dump_traceback_later()

    return distributed_init


def _seconds() -> float:
    """The limit.

    Raises:
        ValueError: if the environment has something else than a number of seconds.
    """
    text = os.environ.get(VARIABLE, str(_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 1e6:
        raise ValueError(f"{VARIABLE}={text} in the environment is not a number from 0 to 1000000")
    return seconds
