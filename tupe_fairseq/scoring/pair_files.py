"""Finds files of minimal pairs: JSON lines, in folders and archives, too; nothing is unpacked."""

import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence

from tupe_fairseq.scoring.sentence_rows import bounded_lines
from tupe_fairseq.text.reading import TextFile

_JSONL = re.compile(r"\.jsonl(\.(gz|xz|bz2))?$")
_TAR = re.compile(r"\.(tar(\.(gz|xz|bz2))?|tgz|txz)$")


class PairFiles:
    """The files of minimal pairs that some paths name, each with a short name of its own.

    Args:
        paths (sequence of str): .jsonl files, also compressed; folders with some, at any depth;
            tar archives with some, which are read as they are.
    Raises:
        OSError: if a path does not exist.
        ValueError: if one is of another kind, or a folder has no such file.
    """

    def __init__(self, paths: Sequence[str]):
        self._paths: list[str] = []
        for path in paths:
            found = _in_folder(path) if os.path.isdir(path) else [path]
            self._paths += [one for one in found if one not in self._paths]
        for path in self._paths:
            if not os.path.exists(path):
                raise FileNotFoundError(f"--pairs {path} does not exist")
            if not (_JSONL.search(path) or _TAR.search(path)):
                raise ValueError(
                    f"--pairs {path} is neither a .jsonl file (also .gz, .xz, .bz2), a folder nor "
                    "a .tar archive of some"
                )

    def lines(self) -> Iterator[tuple[str, str, Iterator[bytes]]]:
        """The short name, the whole name and the lines of each file, which are to be read at once.

        Raises:
            OSError: if a file cannot be read.
            ValueError: if it is damaged, or an archive has no .jsonl file.
        """
        names: dict[str, str] = {}
        for path in self._paths:
            opened = _in_archive(path) if _TAR.search(path) else [(path, _lines(path))]
            for whole, lines in opened:
                short = _JSONL.sub("", os.path.basename(whole))
                if names.setdefault(short, whole) != whole:  # of another folder
                    short = _JSONL.sub("", whole)
                yield short, whole, lines


def _in_folder(folder: str) -> list[str]:
    found = [
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if _JSONL.search(name) and not name.startswith(".")
    ]
    if not found:
        raise ValueError(f"--pairs {folder} has no .jsonl file")
    return sorted(found)


def _lines(path: str) -> Iterator[bytes]:
    file = TextFile(path)
    for block in file.blocks():
        yield from block.split(b"\n")[:-1]
    if file.too_long:
        raise ValueError(f"{path} has a line that is longer than any sentence")


def _in_archive(path: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Members are read in the archive's order, in memory, and only what is a plain file."""
    found = False
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                hidden = os.path.basename(member.name).startswith(".")
                if not member.isfile() or hidden or not member.name.endswith(".jsonl"):
                    continue
                found = True
                whole = f"{path}:{member.name}"
                content = archive.extractfile(member)
                assert content is not None  # as of every plain file
                yield whole, bounded_lines(content, whole)
    except (EOFError, lzma.LZMAError, tarfile.TarError, zlib.error) as error:
        raise ValueError(f"{path} is damaged or not a tar archive: {error}") from error
    if not found:
        raise ValueError(f"--pairs {path} has no .jsonl file in it")
