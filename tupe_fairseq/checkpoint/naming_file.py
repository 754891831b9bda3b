"""Says which file it is about when a checkpoint's contents cannot be used."""

import contextlib
from collections.abc import Iterator

from tupe_fairseq.checkpoint.restricted_load import CheckpointError


@contextlib.contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Turn what is wrong with options or tensors into a CheckpointError that names the file.

    Args:
        path (str): the checkpoint.
    Raises:
        CheckpointError: in one line, for whatever a block raises of options or tensors that do
            not fit; one that names the file already passes as it is.
    """
    try:
        yield
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError) and path in str(error):
            raise
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} cannot be loaded: {reason}") from error
