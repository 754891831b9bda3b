"""Says which file a message about a checkpoint's contents is about."""

import contextlib
from typing import Iterator

from tupe_fairseq.checkpoint.restricted_load import CheckpointError


@contextlib.contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Put the name of the file before a CheckpointError of the block that does not have it.

    Args:
        path (str): the checkpoint.
    """
    try:
        yield
    except CheckpointError as error:
        if path in str(error):
            raise
        raise CheckpointError(f"{path}: {error}") from error
