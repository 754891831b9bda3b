"""Calls fairseq-preprocess on parts in parallel, and counts that nothing was lost."""

import itertools
import os
import shutil
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Dict, Iterator, List, Tuple

from tqdm import tqdm

from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.programs.preprocess import run_preprocess
from tupe_fairseq.text.mmap_index import count, join
from tupe_fairseq.text.parallel import in_child

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
    short = {split: path for split, path in texts.items() if expected[split] <= part_lines}
    made = {split: [os.path.join(partial, "short", name)] for split, name in _numbered(short)}
    with ThreadPoolExecutor(workers) as pool, _progress(sum(expected.values())) as bar:
        running = set()
        if short:
            job = (dictionary, list(short.values()), os.path.join(partial, "short"))
            lines = sum(expected[split] for split in short)
            running.add(pool.submit(_preprocess, *job, lines, bar))
        for split in texts:
            if split in short:
                continue
            made[split] = []
            begins = _parts(texts[split], part_lines, os.path.join(partial, "lines"))
            for text, lines in _while_free(begins, running, workers):
                part = f"{text}.data"
                made[split].append(os.path.join(part, "valid"))
                running.add(pool.submit(_preprocess, dictionary, [text], part, lines, bar, True))
        for job in running:
            job.result()
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


def _join(prefixes: List[str], target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if len(prefixes) > 1:
        join(prefixes, target)
        for prefix in prefixes:
            os.remove(prefix + ".bin")
    else:
        for ending in (".bin", ".idx"):
            os.replace(prefixes[0] + ending, target + ending)


def _numbered(texts: Dict[str, str]) -> Iterator[Tuple[str, str]]:
    """fairseq-preprocess's own name for each of its --validpref: valid, valid1, ..."""
    for number, split in enumerate(texts):
        yield split, f"valid{number or ''}"


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


def _while_free(parts: Iterator, running: set, workers: int) -> Iterator:
    """Start each part when fewer than ``workers`` are running; a failure ends it."""
    while True:
        while len(running) >= workers:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for job in done:
                running.discard(job)
                job.result()
        part = next(parts, None)
        if part is None:
            return
        yield part


def _preprocess(
    dictionary: str, texts: List[str], folder: str, lines: int, bar: tqdm, is_copy: bool = False
) -> None:
    words = ["--only-source", "--workers", "1", "--srcdict", dictionary, "--destdir", folder]
    words += ["--validpref", ",".join(texts)]
    # a forked child has fairseq loaded already, which otherwise takes seconds
    in_child(run_preprocess, words, killed="lower --workers")
    if is_copy:
        os.remove(texts[0])
    bar.update(lines)
