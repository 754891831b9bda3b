"""The first stage of pre-training data: raw text to cleaned lines of train, valid and test.

clean        lines of the inputs, cleaned, and a hash of each
split        train, valid and test (and shards), without the duplicate lines
"""

import argparse
import functools
import hashlib
import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from tupe_fairseq.data.parallel import parallel_map
from tupe_fairseq.data.rows import BadRows, RowError, ending_of, read_rows, refuse_list, shown
from tupe_fairseq.data.text_files import (
    BLOCK_BYTES,
    CONVERT,
    MUCH,
    clean_line,
    holds_json,
    open_text,
)

logger = logging.getLogger("tupe-prepare-pretrain")

SPLITS = ("train", "valid", "test")
# Longer documents are divided into parts of this many lines, so that a corpus without blank lines
# can be split, too.
_PART_LINES = 1000
# longer lines are dropped and counted
_MOST_CHARACTERS = 100_000


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


def clean(item: tuple, options: argparse.Namespace) -> tuple:
    """Clean a block of a file.

    Returns:
        the path, the lines, their hashes, for each line whether it begins a document, whether the
        next block's first line does, and counts.
    """
    path, block = item
    field, language = options.text_field, options.split_sentences
    split = (lambda line: (line,)) if language is None else sentence_splitter(language).split
    lines: list[bytes] = []
    hashes: list[bytes] = []
    starts, is_between = bytearray(), False
    counts: Counter = Counter()
    read = sentences = 0
    for content in block.removesuffix(b"\n").split(b"\n"):
        try:
            raw = content.decode()
        except UnicodeDecodeError:
            counts.update(("read", "invalid_utf8"))
            continue
        line = clean_line(raw, options.lowercase) if options.clean else raw.strip()
        if not line:
            counts["rows"] += not raw
            is_between = is_between or not raw or field is None
            continue
        read += 1
        for sentence in split(line):
            if not sentence:
                continue
            sentences += 1
            if len(sentence) > _MOST_CHARACTERS:
                counts["too_long"] += 1
            else:
                lines.append(sentence.encode())
                hashes.append(hashlib.blake2b(lines[-1], digest_size=8).digest())
                starts.append(is_between)
                is_between = False
    counts.update(read=read, split_off=sentences - read)
    return path, b"\n".join([*lines, b""]), b"".join(hashes), starts, is_between, counts


@functools.lru_cache
def sentence_splitter(language: str) -> Any:
    import sentence_splitter

    try:
        return sentence_splitter.SentenceSplitter(language=language)
    except sentence_splitter.SentenceSplitterException as error:
        raise ValueError(f"--split-sentences {language}: sentence-splitter {error}") from None


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
    total = counts["read"] + counts["split_off"]
    return f"of {total:,} lines dropped: {', '.join(dropped) or 'none'}"


# ---- Split ------------------------------------------------------------------------------------


def split_parts(
    hashes: np.ndarray, documents: np.ndarray, fractions: list[float]
) -> Iterator[tuple[int, ...]]:
    """Divide documents into parts, and give each a split: (number of lines, document, part, split).

    ``hashes`` and ``documents`` have an item for each line. The hash of a part's first line, which
    is 64 random bits, picks its split: the first of ``fractions``, the second, ..., or the rest. If
    there are too few documents for this, the last lines of the text are held out.
    """
    starts = np.flatnonzero(np.diff(documents, prepend=0))
    counts = -(-np.diff(starts, append=len(hashes)) // _PART_LINES)
    document = np.repeat(np.arange(len(starts)), counts)
    place = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = starts[document] + _PART_LINES * place
    limits = [int(total * 2**64) for total in itertools.accumulate(fractions)]
    split = np.searchsorted(np.array(limits, "u8"), hashes[first], side="right")
    number = np.arange(len(first))
    sizes = np.diff(first, append=len(hashes))
    lines = np.bincount(split, sizes, minlength=len(fractions) + 1)
    is_uneven = lines[-1] < 0.5 * (1 - sum(fractions)) * len(hashes) or not lines.all()
    if fractions and is_uneven:
        logger.info("few documents: the last lines of the text are held out")
        lengths = [max(1, round(fraction * len(hashes))) for fraction in fractions]
        ends = len(hashes) - np.cumsum([0, *lengths])
        cuts = np.union1d(first, ends[1:][ends[1:] > 0])
        number = np.searchsorted(first, cuts, side="right") - 1
        document, first = document[number], cuts
        split = (ends[1:] > first[:, None]).sum(1)
        sizes = np.diff(first, append=len(hashes))
    return zip(*(map(int, array) for array in (sizes, document, number, split)))


def write_splits(
    path: str, is_new: np.ndarray, parts: Iterable[tuple], paths: dict[str, list[str]], options
) -> dict[str, Counter]:
    """Write each split, round robin over its files; count documents, parts, lines, joined lines."""
    files = {split: [open(path, "wb") for path in names] for split, names in paths.items()}
    counts = {split: Counter(lines=0) for split in paths}
    last: dict[Any, tuple[int, int]] = {}  # last document and part of each split and each file
    with open(path, "rb") as text:
        lines = itertools.compress(text, is_new)
        for size, document, number, split in parts:
            split = list(paths)[split]
            count = counts[split]
            file = files[split][count["parts"] % len(files[split])]
            if file in last and last[file] != (document, number - 1):
                file.write(b"\n")
            count["documents"] += split not in last or last[split][0] != document
            last[split] = last[file] = (document, number)
            count["parts"] += 1
            count["lines"] += size
            part = list(itertools.islice(lines, size))
            lines_joined = list(join_lines(part, options)) if options.join_short else part
            count["joined"] += len(part) - len(lines_joined)
            file.writelines(lines_joined)
    for file in itertools.chain.from_iterable(files.values()):
        file.close()
    return counts


def join_lines(lines: list[bytes], options: argparse.Namespace) -> Iterator[bytes]:
    """Join a line of fewer than ``--join-short`` characters with the next one."""
    pending = ""
    for line in (line.decode().rstrip("\n") for line in lines):
        longer = f"{pending} {line}"
        if pending and len(pending) < options.join_short and len(longer) <= _MOST_CHARACTERS:
            pending = longer
        else:
            if pending:
                yield f"{pending}\n".encode()
            pending = line
    yield f"{pending}\n".encode()


def split_texts(split: str, options: argparse.Namespace, work: str) -> list[str]:
    """The text files of a split; train has one for each shard."""
    shards = options.shards if split == "train" else 1
    return [os.path.join(work, f"{split}{shard}.txt") for shard in range(shards)]


def make_text(options: argparse.Namespace, work: str) -> tuple[dict[str, Any], list[str]]:
    """Clean all inputs and write the text of each split."""
    sources = {"valid": options.valid_input, "test": options.test_input, "train": options.input}
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
    splits: dict[str, Counter] = {}
    for source, *place in zip(sources, ends, ends[1:]):
        of_source = slice(*place)
        is_new = all_new[of_source]
        if options.keep_duplicates:  # still, train must not repeat lines of valid or test
            is_new = ~np.isin(hashes[of_source], hashes[: place[0]])
        total["duplicate"] += int((~is_new).sum())
        fractions = {split: getattr(options, f"{split}_fraction") for split in SPLITS[1:]}
        fractions = {x: value for x, value in fractions.items() if value and source == "train"}
        paths = {split: split_texts(split, options, work) for split in [*fractions, source]}
        parts = split_parts(
            hashes[of_source][is_new], document[of_source][is_new], list(fractions.values())
        )
        counts = write_splits(out + source, is_new, parts, paths, options)
        if not all(split["lines"] for split in counts.values()):
            flag = "--input" if source == "train" else f"--{source}-input"
            raise ValueError(
                f"{flag}: only {is_new.sum()} lines are left that no other split has, too few for "
                f"{', '.join(paths)}; give more text"
            )
        splits.update(counts)
        os.remove(out + source)
    parts = splits["train"]["parts"]
    if parts < options.shards:
        raise ValueError(
            f"--shards {options.shards} is more than the {parts} documents of train; a document of "
            f"more than {_PART_LINES} lines counts as several"
        )
    files = sum((split_texts(split, options, work) for split in splits), [])
    return {"cleaned": total, "splits": splits}, files


def progress(name: str, paths: list[str]) -> tqdm:
    """A progress bar in bytes; hidden if the log is not a terminal."""
    size = sum(map(os.path.getsize, paths))
    return tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=None, leave=False)
