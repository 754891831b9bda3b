"""Checkpoints of fairseq-train that are whole, or not there."""

import contextlib
import os
import shutil
from typing import Iterator

from fairseq.file_io import PathManager

from tupe_fairseq.files.write_together import Sink


class WholeFiles(PathManager):
    """What fairseq reads and writes checkpoints with, but each gets its name when it is complete.

    fairseq itself writes only the first file of an update so; ``checkpoint_last.pt`` and
    ``checkpoint_best.pt`` are mostly copies of it, and a kill or a full disk in the middle of
    copying leaves half a file in the place of a whole one.  Temporary files have fairseq's names,
    so that the next save of the same name replaces what a kill has left.
    """

    @staticmethod
    def open(path, mode="r", *args, **kwargs):
        """As fairseq's; what is written is on the disk when the file is closed.

        Raises:
            OSError: when it is closed; it names the file, and says that it is removed.
        """
        if mode != "wb" or PathManager.path_requires_pathmanager(path):
            return PathManager.open(path, mode, *args, **kwargs)
        return _written(path)

    @staticmethod
    def copy(src_path, dst_path, overwrite=False):
        """As fairseq's, but until the copy is complete, ``dst_path`` is what it was.

        Raises:
            OSError: as :meth:`open`.
        """
        if PathManager.path_requires_pathmanager(dst_path):
            return PathManager.copy(src_path, dst_path, overwrite=overwrite)
        partial = f"{dst_path}.tmp"
        with open(src_path, "rb") as source, _written(partial) as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        os.replace(partial, dst_path)
        return True


@contextlib.contextmanager
def _written(path: str) -> Iterator[Sink]:
    try:
        with open(path, "wb") as file:
            sink = Sink(file)  # fairseq would try three times to write to a full disk
            yield sink
            sink.complete()
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(path)
        raise OSError(
            f"{path} cannot be written: {error.strerror or error}; the earlier checkpoints in "
            f"{os.path.dirname(path) or '.'} are whole. Make room there, or give another "
            "--save-dir, and run the same command again"
        ) from error
