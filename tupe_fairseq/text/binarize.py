"""Calls fairseq-preprocess on parts in parallel, and counts that nothing was lost."""

import itertools
import os
import shutil
from typing import Callable, Dict, Iterator, List, Tuple

from tqdm import tqdm

from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.programs.preprocess import run_preprocess
from tupe_fairseq.text.mmap_index import count, join
from tupe_fairseq.text.parallel import in_children
from tupe_fairseq.text.workspace import remove

# fairseq-preprocess needs some hundred bytes of memory per line
LINES_PER_PART = 500_000
# with fewer lines a second worker does not pay
_LEAST_LINES = 20_000


def binarize(
    dictionary: str,
    texts: Dict[str, str],
    folder: str,
    expected: Dict[str, int],
    workers: int = 1,
    lines_per_part: int = LINES_PER_PART,
) -> None:
    """Write SPLIT.bin and SPLIT.idx for each split, and dict.txt, with fairseq-preprocess.

    Long texts are binarized in parts, ``workers`` at a time, so that memory does not grow with the
    text; the files are the same for every number of workers.

    Args:
        dictionary (str): the dict.txt to use.
        texts (dict): split (train, valid, ..., or input0/train) to a file with one line of pieces
            per sentence.
        folder (str): the output folder; files of the same names are replaced.
        expected (dict): split to its number of lines.
        workers (int): processes.
        lines_per_part (int): the most lines that one fairseq-preprocess gets.
    Raises:
        ValueError: if a path of texts holds a comma, which separates paths for fairseq.
        ValueError: if fairseq-preprocess fails; the message ends with its last line.
        ValueError: if the data does not have the expected number of sentences, or is cut short.
    """
    for path in texts.values():
        if "," in path:
            raise ValueError(f"fairseq-preprocess does not accept a comma in a path: {path!r}")
    partial = folder.rstrip("/") + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    a_share = -(-max(expected.values()) // workers)
    part_lines = min(lines_per_part, max(_LEAST_LINES, a_share))
    made: Dict[str, List[str]] = {}
    jobs = _jobs(dictionary, texts, expected, part_lines, partial, made)
    with _progress(sum(expected.values())) as bar:
        for (lines, used_up), _ in in_children(jobs, workers, "lower --workers"):
            remove(*used_up)
            bar.update(lines)
    for split, prefixes in made.items():
        target = os.path.join(partial, "ready", split)
        _join(prefixes, target)
        sentences, _ = count(target)
        if sentences != expected[split]:
            raise ValueError(
                f"fairseq-preprocess wrote {sentences} of {expected[split]} "
                f"sentences of {split}; is the disk full?"
            )
    for split in texts:
        os.makedirs(os.path.dirname(os.path.join(folder, split)), exist_ok=True)
        for name in (split + ".bin", split + ".idx"):
            os.replace(os.path.join(partial, "ready", name), os.path.join(folder, name))
    shutil.copyfile(dictionary, os.path.join(folder, DICTIONARY))
    shutil.rmtree(partial)


def _jobs(dictionary, texts, expected, part_lines, partial, made) -> Iterator[Tuple]:
    """Calls of fairseq-preprocess, for in_children; long texts are cut when their turn comes.

    Each is named by its number of lines and the files that it uses up; ``made`` gets the prefixes
    of what it writes.
    """
    short = [split for split in texts if expected[split] <= part_lines]
    if short:
        folder = os.path.join(partial, "short")
        # fairseq-preprocess's own name for each of its --validpref: valid, valid1, ...
        for number, split in enumerate(short):
            made[split] = [os.path.join(folder, f"valid{number or ''}")]
        lines = sum(expected[split] for split in short)
        yield (lines, ()), *_call(dictionary, [texts[split] for split in short], folder)
    for split in texts:
        if split in short:
            continue
        made[split] = []
        for text, lines in _parts(texts[split], part_lines, os.path.join(partial, "lines")):
            folder = f"{text}.data"
            made[split].append(os.path.join(folder, "valid"))
            yield (lines, (text,)), *_call(dictionary, [text], folder)


def _call(dictionary: str, texts: List[str], folder: str) -> Tuple[Callable, List]:
    words = ["--only-source", "--workers", "1", "--srcdict", dictionary, "--destdir", folder]
    # a forked child has fairseq loaded already, which otherwise takes seconds
    return run_preprocess, [[*words, "--validpref", ",".join(texts)]]


def _join(prefixes: List[str], target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if len(prefixes) > 1:
        join(prefixes, target)
        for prefix in prefixes:
            os.remove(prefix + ".bin")
    else:
        for ending in (".bin", ".idx"):
            os.replace(prefixes[0] + ending, target + ending)


def _progress(lines: int) -> tqdm:
    return tqdm(
        desc="binarizing", total=lines, unit="lines", unit_scale=True, disable=None, leave=False
    )


def _parts(path: str, lines: int, prefix: str) -> Iterator[Tuple[str, int]]:
    """Cut a text into files of ``lines_per_part`` lines; each is written when it is requested."""
    with open(path, "rb") as file:
        for number in itertools.count():
            first = file.readline()
            if not first:
                return
            name = f"{prefix}-{os.path.basename(path)}-{number}"
            with open(name, "wb") as part:
                part.write(first)
                written = 1
                for line in itertools.islice(file, lines - 1):
                    part.write(line)
                    written += 1
            yield name, written
