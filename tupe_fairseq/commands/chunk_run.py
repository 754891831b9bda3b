"""Runs a model over all rows of an input, chunk by chunk, and writes what it gives."""

import argparse
import contextlib
import itertools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tupe_fairseq.commands.text_input import BadRows, TextInput
from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.files.resumed_file import known_fingerprint, resumed_file
from tupe_fairseq.prediction.freed_memory import return_freed_blocks
from tupe_fairseq.prediction.row_chunks import Chunk
from tupe_fairseq.prediction.shared_work import map_on_devices
from tupe_fairseq.prediction.text_sequences import Counts
from tupe_fairseq.version import __version__

_MANY_UNKNOWN = 0.01

#: texts of a chunk -> what a row gets for each, and what was read
Work = Callable[[list[list[str]]], tuple[list[Any], Counts]]


class _Plain:
    """What writes parts to where nothing can be resumed."""

    parts = 0
    told: dict[str, Any] = {}

    def __init__(self, write: Callable[[bytes], Any]):
        self._write = write

    def add(self, content: bytes, told: dict[str, Any]) -> None:
        self._write(content)


def count_rows(source: TextInput, logger: logging.Logger, check: Callable[[Chunk], Any]) -> int:
    """Read all rows once, so that what is wrong with them is found before the first hour of work.

    Args:
        source (TextInput): not standard input.
        logger (Logger): told how many rows are left out.
        check (callable): called with each chunk.
    Returns:
        int: the rows that are not left out.
    Raises:
        OSError, ValueError: if a row is not as it should be; or as ``check``.
    """
    bad, rows = BadRows(), 0
    for chunk in source.chunks(bad):
        check(chunk)
        rows += len(chunk.values)
    bad.tell(logger)
    if not rows:
        raise ValueError(f"{source.file.path}: all rows are left out")
    return rows


def settings_of(
    args: argparse.Namespace, devices: Sequence[str], files: Sequence[str]
) -> dict[str, Any]:
    """What an interrupted run must have in common with the one that goes on with it.

    Args:
        args (Namespace): the flags.
        devices (sequence of str): where the model runs; their number does not matter.
        files (sequence of str): what the results depend on.
    """
    options = ("text", "text2", "no_header", "skip_bad_rows", "batch_tokens", "unpad", "fp16")
    return {
        "version": __version__,
        "device": devices[0].split(":")[0],
        **{f"--{name.replace('_', '-')}": getattr(args, name) for name in options},
        **{path: known_fingerprint(args.output_file, path, path) for path in files},
    }


def run_chunks(
    source: TextInput,
    make: Callable[[str], Work],
    devices: Sequence[str],
    to_bytes: Callable[[Chunk, list[Any], bool], bytes],
    output: Any,
    total: int | None = None,
    on_bad: BadRows | None = None,
) -> Counts:
    """Do all chunks that are not done.

    Args:
        source (TextInput): the rows.
        make (callable): a device -> what does the texts of a chunk there.
        devices (sequence of str): where.
        to_bytes (callable): a chunk, what its rows got, and whether it is the first -> what is
            added to the output.
        output (ResumedFile): from :func:`opened_output`.
        total (int, optional): rows, if known.
        on_bad (BadRows, optional): counts the rows that are left out.
    Returns:
        Counts: of all rows, those of an interrupted run as well.
    """
    from tqdm import tqdm

    return_freed_blocks()
    counts = Counts(**output.told)
    bar = tqdm(
        total=total, initial=counts.rows, unit="row", unit_scale=True, disable=None, leave=False
    )
    left, right = itertools.tee(_left(source.chunks(on_bad), output))
    with (
        bar,
        contextlib.closing(map_on_devices(make, (chunk.texts for chunk in right), devices)) as done,
    ):
        for number, ((found, read), chunk) in enumerate(zip(done, left), output.parts):
            counts.add(read)
            output.add(to_bytes(chunk, found, not number), vars(counts).copy())
            bar.update(read.rows)
    return counts


def _left(chunks: Iterator[Chunk], output: Any) -> Iterator[Chunk]:
    """The chunks that are not done.

    Raises:
        ValueError: if those that are said to be done have not the rows that are said to be.
    """
    done, rows = output.told.get("rows", 0), 0
    for _ in range(output.parts):
        chunk = next(chunks, None)
        if chunk is None:
            break
        rows += len(chunk.texts)
    if rows != done:
        raise ValueError(
            f"{output.recorded} is damaged: of {done} rows in {output.parts} parts, which it says "
            f"are done, the input has {rows}; delete its folder to begin anew"
        )
    return chunks


@contextlib.contextmanager
def opened_output(
    path: str | None, source: TextInput, settings: Callable[[], dict[str, Any]]
) -> Iterator[Any]:
    """Where parts are added to: standard output, or a file that can be resumed if the input can.

    Args:
        path (str, optional): the file; None: standard output.
        source (TextInput): the rows.
        settings (callable): as :func:`resumed_file`.
    """
    if path is None:
        yield _Plain(lambda content: sys.stdout.write(content.decode()))
        sys.stdout.flush()
    elif source.is_stream:
        with atomic_write(path, "wb") as file:
            yield _Plain(file.write)
    else:
        with resumed_file(path, settings()) as output:
            yield output


def tell(counts: Counts, logger: logging.Logger, output: str | None) -> None:
    """Log what was read, and what may be wrong with it."""
    logger.info("%d rows, %d pieces", counts.rows, counts.pieces)
    if counts.cut:
        logger.warning("cut, because they are longer than the model takes: %d rows", counts.cut)
    if counts.divided:
        logger.info("longer than the model takes, seen in parts: %d sentences", counts.divided)
    if counts.empty:
        logger.warning("with a text of no piece of the vocabulary: %d rows", counts.empty)
    if counts.unknown > _MANY_UNKNOWN * counts.pieces:
        logger.warning(
            "%d of %d pieces are unknown: is the text of the language of the model?",
            counts.unknown, counts.pieces,
        )  # fmt: skip
    if output is not None:
        logger.info("wrote %s", output)
