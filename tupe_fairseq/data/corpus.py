"""The first stage of pre-training data: raw text to cleaned lines of train and valid.

clean        lines of the inputs, cleaned, and a hash of each
split        train and valid, without the duplicate lines
"""

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from tupe_fairseq.data.parallel import parallel_map
from tupe_fairseq.data.row_formats import RowError, ending_of
from tupe_fairseq.data.rows import BadRows, read_rows, refuse_list, shown
from tupe_fairseq.data.text_files import (
    BLOCK_BYTES,
    CONVERT,
    MUCH,
    clean_line,
    holds_json,
    open_text,
)

logger = logging.getLogger("tupe-prepare-pretrain")

SPLITS = ("train", "valid")
# Longer documents are divided into parts of this many lines, so that a corpus without blank lines
# can be split, too.
_PART_LINES = 1000
# longer lines are dropped and counted
_MOST_CHARACTERS = 100_000
# WikiExtractor's lines at the beginning and the end of a document
_BORDER = re.compile("</?doc( [^<>]*)?>")
# the length of most lines of a text that is wrapped
_WRAPPED = range(60, 81)


# ---- Read -------------------------------------------------------------------------------------


def check_text(path: str, field: str | None) -> None:
    """Refuse a file that does not begin as plain text or, with ``field``, has no usable row."""
    if field is not None:
        bad = BadRows()
        if next(_texts(path, field, bad), None) is None and bad:
            raise ValueError(bad.first)
        return
    has_rows = ending_of(path, ".txt") != ".txt"
    if not has_rows:
        with open_text(path) as (file, _):
            has_rows = holds_json(file.peek())
    if has_rows:
        raise ValueError(
            f"{path} has rows, and all of its columns would be learned as text; give the column or "
            "JSON field with the text: --text-field NAME (for a JSON list, first run jq -c '.[]')"
        )


def _texts(path: str, field: str, bad: BadRows) -> Iterator[str]:
    def text_of(index: int, row: dict[str, Any], texts: dict[str, Any]) -> str:
        if not isinstance(row[field], str):
            problem = f"has {shown(row[field])} in --text-field {field}, not a text"
            raise RowError(problem, "not a text")
        refuse_list(texts[field])
        return texts[field]

    ending = ending_of(path, ".jsonl")
    ending = ".jsonl" if ending in (".txt", ".json") else ending  # other names hold JSON lines
    return (text for _, text in read_rows(path, [field], bad, text_of, ending=ending))


def read_blocks(
    path: str, field: str | None, bad: BadRows, advance: Callable[[int], Any]
) -> Iterator[bytes]:
    """Blocks of whole lines of a file.

    With ``field``, a row becomes its non-empty lines, then an empty line; rows without a text in
    this field are counted in ``bad``. ``advance`` gets the number of bytes read, approximately.
    """
    if field is None:
        with open_text(path) as (file, position):
            before = 0
            while content := file.read(BLOCK_BYTES) + file.readline():
                yield content
                advance(position() - before)
                before = position()
        return
    left, block = os.path.getsize(path), bytearray()
    for text in _texts(path, field, bad):
        block += "".join(f"{line}\n" for line in [*filter(None, text.split("\n")), ""]).encode()
        if len(block) > BLOCK_BYTES:
            yield bytes(block)
            advance(min(left, len(block)))
            left -= min(left, len(block))
            block.clear()
    if block:
        yield bytes(block)
    advance(left)


# ---- Clean ------------------------------------------------------------------------------------


def clean(item: tuple, options: Any) -> tuple:
    """Clean a block of a file.

    Returns:
        the path, the lines, their hashes, for each line whether it begins a document, whether the
        next block's first line does, and counts.
    """
    path, block = item
    lines: list[bytes] = []
    hashes: list[bytes] = []
    starts, is_between = bytearray(), False
    counts: Counter = Counter()
    for content in block.removesuffix(b"\n").split(b"\n"):
        try:
            raw = content.decode()
        except UnicodeDecodeError:
            counts.update(("read", "invalid_utf8"))
            continue
        line = clean_line(raw, options.lowercase) if options.clean else raw.strip()
        if not line or (options.text_field is None and _BORDER.fullmatch(line)):
            counts["rows"] += not raw
            is_between = is_between or not raw or options.text_field is None
            continue
        counts["read"] += 1
        counts["wrapped"] += len(line) in _WRAPPED
        if len(line) > _MOST_CHARACTERS:
            counts["too_long"] += 1
            continue
        lines.append(line.encode())
        hashes.append(hashlib.blake2b(lines[-1], digest_size=8).digest())
        starts.append(is_between)
        is_between = False
    return path, b"\n".join([*lines, b""]), b"".join(hashes), starts, is_between, counts


def clean_files(
    paths: list[str], options, out: str, all_hashes: bytearray, all_starts: bytearray, bar: tqdm
) -> Counter:
    """Write the cleaned lines to ``out``; append their hashes and where documents begin."""
    by_path = {path: Counter() for path in paths}
    field, function = options.text_field, functools.partial(clean, options=options)
    bad = {path: BadRows() for path in paths}
    blocks = (
        (path, block) for path in paths for block in read_blocks(path, field, bad[path], bar.update)
    )
    last, is_between = "", True
    with open(out, "wb") as file:
        for path, lines, hashes, starts, ends, counts in parallel_map(
            function, blocks, options.workers
        ):
            if starts:
                starts[0] |= is_between or path != last
                last, is_between = path, False
            is_between = is_between or ends
            counts["documents"] = starts.count(1)
            file.write(lines)
            all_hashes += hashes
            all_starts += starts
            by_path[path].update(counts)
    for path, counts in by_path.items():
        counts["rows"] += bad[path].total()
        if bad[path]:
            logger.warning("warning: left out: %s", bad[path])
        lost = counts["invalid_utf8"] + counts["too_long"]
        if not counts["documents"] or lost > MUCH * counts["read"]:
            logger.warning("warning: %s: %s", path, dropped_lines(counts))
        if counts["wrapped"] > 0.5 * counts["read"]:
            logger.warning(
                "warning: %s: most lines have 60 to 80 characters. If the text is wrapped, first "
                "join the lines of each paragraph: awk -v RS= '{$1 = $1; print}' FILE > NEW",
                path,
            )
    total = sum(by_path.values(), Counter())
    if not total["documents"]:
        reasons = dropped_lines(total)
        raise ValueError(f"there are no documents in {' '.join(paths)}: {reasons}")
    return total


def dropped_lines(counts: Counter) -> str:
    """How many lines were dropped, and why."""
    most = f"over {_MOST_CHARACTERS:,} characters; break the lines"
    advice = {"invalid_utf8": CONVERT, "too_long": most}
    dropped = [f"{counts[name]:,} {name} ({advice[name]})" for name in advice if counts[name]]
    return f"of {counts['read']:,} lines dropped: {', '.join(dropped) or 'none'}"


# ---- Split ------------------------------------------------------------------------------------


def choose_held_out(hashes: np.ndarray, documents: np.ndarray, fraction: float) -> np.ndarray:
    """Which lines are held out, about ``fraction`` of them: bool (lines).

    Long documents are divided into parts. The hash of a part's first line, which is 64 random bits,
    decides. If there are too few documents for this, the last lines of the text are held out.
    Shape: hashes, documents (lines).
    """
    starts = np.flatnonzero(np.diff(documents, prepend=np.int32(0)))
    ends = [*starts[1:].tolist(), len(hashes)]
    parts = map(range, starts.tolist(), ends, itertools.repeat(_PART_LINES))
    first = np.fromiter(itertools.chain.from_iterable(parts), np.int64)
    is_held_out = hashes[first] < np.uint64(fraction * 2**64)
    is_held_out = is_held_out.repeat(np.diff(first, append=len(hashes)))
    if fraction and not 0 < is_held_out.sum() <= (0.5 + 0.5 * fraction) * len(hashes):
        logger.info("few documents: the last lines of the text are held out")
        is_held_out[:] = False
        is_held_out[-max(1, round(fraction * len(hashes))) :] = True
    return is_held_out


def write_splits(
    path: str, is_new: np.ndarray, documents: np.ndarray, is_held_out: np.ndarray, paths: list[str]
) -> list[dict[str, int]]:
    """Write the new lines that stay and those that are held out; count documents and lines of each.

    ``documents`` and ``is_held_out`` are those of the new lines. An empty line stands between
    documents, and where lines in between went to the other file.
    """
    changes = np.diff(documents, prepend=np.int32(0)) | np.diff(is_held_out, prepend=False)
    starts = np.flatnonzero(changes)
    sizes, splits = np.diff(starts, append=len(documents)), is_held_out[starts] * 1
    between = [b""] * len(paths)
    with contextlib.ExitStack() as stack:
        lines = itertools.compress(stack.enter_context(open(path, "rb")), is_new)
        files = [stack.enter_context(open(path, "wb")) for path in paths]
        for size, split in zip(sizes.tolist(), splits.tolist()):
            files[split].write(between[split])
            files[split].writelines(itertools.islice(lines, size))
            between[split] = b"\n"
    runs = [splits == split for split in range(len(paths))]
    return [
        {"documents": len(np.unique(documents[starts][own])), "lines": int(sizes[own].sum())}
        for own in runs
    ]


def split_text(split: str, work: str) -> str:
    """The text file of a split."""
    return os.path.join(work, f"{split}.txt")


def make_text(options: Any, work: str) -> tuple[dict[str, Any], list[str]]:
    """Clean all inputs and write the text of each split."""
    sources = {"valid": options.valid_input, "train": options.input}
    sources = {source: paths for source, paths in sources.items() if paths}
    out, total, ends = os.path.join(work, "clean-"), Counter(), [0]
    hashes, starts = bytearray(), bytearray()
    with progress("cleaning", sum(sources.values(), [])) as bar:
        for source, paths in sources.items():
            total.update(clean_files(paths, options, out + source, hashes, starts, bar))
            ends.append(len(starts))
    hashes, starts = np.frombuffer(hashes, "<u8"), np.frombuffer(starts, bool)
    all_new = np.zeros(len(hashes), bool)  # whether a line occurs for the first time
    all_new[np.unique(hashes, return_index=True)[1]] = True
    document = np.cumsum(starts, dtype="i4")
    splits: dict[str, dict[str, int]] = {}
    fraction = options.valid_share  # 0 with --valid-input
    for source, *place in zip(sources, ends, ends[1:]):
        of_source = slice(*place)
        is_new = all_new[of_source]
        if options.keep_duplicates:  # still, train must not repeat lines of valid
            is_new = ~np.isin(hashes[of_source], hashes[: place[0]])
        total["duplicate"] += int((~is_new).sum())
        documents = document[of_source][is_new]
        is_held_out = choose_held_out(hashes[of_source][is_new], documents, fraction)
        names = [source, "valid"] if fraction else [source]
        paths = [split_text(split, work) for split in names]
        of_splits = write_splits(out + source, is_new, documents, is_held_out, paths)
        counts = dict(zip(names, of_splits))
        if not all(split["lines"] for split in counts.values()):
            flag = "--input" if source == "train" else f"--{source}-input"
            raise ValueError(
                f"{flag}: only {is_new.sum()} lines are left that no other split has, too few for "
                f"{', '.join(names)}; give more text"
            )
        splits.update(counts)
        os.remove(out + source)
    return {"cleaned": total, "splits": splits}, [split_text(split, work) for split in splits]


def progress(name: str, paths: list[str]) -> tqdm:
    """A progress bar in bytes; hidden if the log is not a terminal."""
    size = sum(map(os.path.getsize, paths))
    return tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=None, leave=False)
