"""From raw text to fairseq's data, in the order of the story:

    clean        lines of the inputs, cleaned, and a hash of each
    split        train, valid and test (and shards), without the duplicate lines
    learn        a SentencePiece vocabulary of train, or a copy of a given one
    encode       SPLIT.bin and SPLIT.idx

``prepare`` does this in three stages (text, vocabulary, encode). Each writes its settings when it
is finished, and is done again unless they are the same and its files are there.
"""

import argparse
import functools
import hashlib
import io
import itertools
import logging
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tupe_fairseq.data.dictionary import DICTIONARY, MASK, UNK, write_dictionary
from tupe_fairseq.data.indexed import IndexedWriter
from tupe_fairseq.data.parallel import parallel_map
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.data.text_files import clean_line, lines_of, read_blocks
from tupe_fairseq.data.tokenizer import REPORT, SENTENCEPIECE_MODEL, VOCABULARY, Tokenizer
from tupe_fairseq.files.atomic import atomic_write, read_json, write_json

logger = logging.getLogger("tupe-prepare-pretrain")

SPLITS = ("train", "valid", "test")
_INPUTS = ("input", "valid_input", "test_input")
# Longer documents are distributed in parts of so many lines: otherwise a corpus without blank lines
# could not be split.
_PART_LINES = 1000
_BLOCK_BYTES = 1 << 18
# the share of lost lines, or of unknown tokens, that deserves a warning
_MUCH = 0.01
_TEXT_OPTIONS = (
    "text_field split_sentences clean lowercase min_chars max_chars join_short valid_fraction "
    "test_fraction shards"
).split()
_OTHER_OPTIONS = "vocab_size model_type character_coverage sample_mb tokens_per_sample".split()


# ---- Clean ------------------------------------------------------------------------------------


def clean(item: tuple, options: argparse.Namespace) -> tuple[str, bytes, bytes, Counter]:
    """Clean a file's block: path, lines with a blank one between documents, their hashes, counts.

    The first and the last line may be blank, too.
    """
    path, block = item
    field, language = options.text_field, options.split_sentences
    kept: list[bytes] = []
    hashes: list[bytes] = []
    split = (lambda line: (line,)) if language is None else sentence_splitter(language).split
    counts: Counter = Counter()
    read = sentences = 0
    for raw in lines_of(block, field, path):
        if raw is None:
            counts.update(("read", "invalid_utf8", "rows"))
            continue
        line = clean_line(raw, options.lowercase) if options.clean else raw.strip()
        if not line:
            counts["rows"] += not raw
            if (not raw or field is None) and not (kept and kept[-1] == b""):
                kept.append(b"")
            continue
        read += 1
        for sentence in split(line):
            if not sentence:
                continue
            sentences += 1
            if len(sentence) < options.min_chars:
                counts["too_short"] += 1
            elif len(sentence) > options.max_chars:
                counts["too_long"] += 1
            else:
                kept.append(sentence.encode())
                hashes.append(hashlib.blake2b(kept[-1], digest_size=8).digest())
    counts.update(read=read, split_off=sentences - read)
    return path, b"\n".join([*kept, b""]), b"".join(hashes), counts


@functools.lru_cache
def sentence_splitter(language: str) -> Any:
    import sentence_splitter

    try:
        return sentence_splitter.SentenceSplitter(language=language)
    except sentence_splitter.SentenceSplitterException:
        folder = os.path.join(os.path.dirname(sentence_splitter.__file__), "non_breaking_prefixes")
        known = ", ".join(sorted(name.removesuffix(".txt") for name in os.listdir(folder)))
        raise ValueError(f"--split-sentences {language}: it knows {known}") from None


def clean_files(paths: list[str], options, file, hashes: bytearray, bar: tqdm) -> Counter:
    """Write the cleaned lines, a blank one before each document, and add the hash of each line."""
    found = {path: Counter() for path in paths}
    blocks = (
        (path, block)
        for path in paths
        for block in read_blocks(path, options.text_field, bar.update)
    )
    last, is_between = "", True
    cleaned = parallel_map(functools.partial(clean, options=options), blocks, options.workers)
    for path, lines, more_hashes, counts in cleaned:
        is_between = is_between or lines.startswith(b"\n") or path != last
        last = path
        lines = lines.removeprefix(b"\n")
        if lines:
            file.write(b"\n" * is_between)
            counts["documents"] += is_between + lines.removesuffix(b"\n\n").count(b"\n\n")
            is_between = lines.endswith(b"\n\n")
            file.write(lines[:-1] if is_between else lines)
        hashes += more_hashes
        found[path].update(counts)
    for path, counts in found.items():
        if not counts["documents"] or _lost(counts) > _MUCH * counts["read"]:
            logger.warning("warning: %s: %s", path, dropped_lines(counts, options.max_chars))
    return sum(found.values(), Counter())


def _lost(counts: Counter) -> int:
    return counts["invalid_utf8"] + counts["too_long"]


def dropped_lines(counts: Counter, max_chars: int) -> str:
    """Why lines were dropped, and what to do about it."""
    reasons = {
        "invalid_utf8": "not UTF-8 (convert the file first: iconv -f LATIN1 -t UTF-8, or whatever "
        "it is in)",
        "too_long": f"longer than --max-chars, {max_chars:,}",
        "too_short": "shorter than --min-chars",
    }
    parts = [f"{counts[name]:,} {words}" for name, words in reasons.items() if counts[name]]
    lines = counts["read"] + counts["split_off"]
    return f"of {lines:,} lines, {', '.join(parts) or 'none is dropped'}"


# ---- Split ------------------------------------------------------------------------------------

Choose = Callable[[int, int, list[bytes]], list[tuple[str, list[bytes]]]]


def read_parts(path: str, hashes: np.ndarray, is_new: np.ndarray) -> Iterator[tuple]:
    """Parts of documents without duplicate lines: key, (document, part), lines.

    The key is the hash of the first line: 64 random bits, different for each part.
    """
    document = part = number = key = 0
    lines: list[bytes] = []
    with open(path, "rb") as file:
        for line in file:
            if line == b"\n":
                if lines:
                    yield key, (document, part), lines
                document, part, lines = document + 1, 0, []
                continue
            if is_new[number]:
                key = key if lines else int(hashes[number])
                lines.append(line)
            number += 1
            if len(lines) == _PART_LINES:
                yield key, (document, part), lines
                part, lines = part + 1, []
    if lines:
        yield key, (document, part), lines


def by_hash(fractions: dict[str, float], rest: str) -> Choose:
    """The split of a part by its key."""
    limits = [int(total * 2**64) for total in itertools.accumulate(fractions.values())]
    splits = list(zip(fractions, limits))
    return lambda key, first, lines: [
        (next((split for split, limit in splits if key < limit), rest), lines)
    ]


def by_position(fractions: dict[str, float], total: int) -> Choose:
    """The last lines for valid and test: for a text of too few documents to choose from."""
    ranges, end = [], total
    for split, fraction in fractions.items():
        start = end - max(1, round(fraction * total))
        ranges.append((split, start, end))
        end = start
    ranges.append(("train", 0, max(0, end)))

    def choose(key, first, lines):
        parts = [(split, lines[max(0, a - first) : max(0, b - first)]) for split, a, b in ranges]
        return [(split, part) for split, part in parts if part]

    return choose


def write_splits(
    parts: Iterable[tuple], choose: Choose, paths: dict[str, list[str]], options: argparse.Namespace
) -> dict[str, Counter]:
    """Write each split, round robin over its files; documents, parts, lines and joined lines."""
    files = {split: [open(path, "wb") for path in names] for split, names in paths.items()}
    counts = {split: Counter() for split in paths}
    last: dict[Any, tuple[int, int]] = {}  # document and part, of each split and each file
    first = 0
    for key, (document, part), lines in parts:
        for split, chosen in choose(key, first, lines):
            count = counts[split]
            file = files[split][count["parts"] % len(files[split])]
            if file in last and last[file] != (document, part - 1):
                file.write(b"\n")
            count["documents"] += split not in last or last[split][0] != document
            last[split] = last[file] = (document, part)
            count["parts"] += 1
            count["lines"] += len(chosen)
            joined = list(join_lines(chosen, options)) if options.join_short else chosen
            count["joined"] += len(chosen) - len(joined)
            file.writelines(joined)
        first += len(lines)
    for file in itertools.chain.from_iterable(files.values()):
        file.close()
    return counts


def join_lines(lines: list[bytes], options: argparse.Namespace) -> Iterator[bytes]:
    """Join a line of fewer than ``--join-short`` characters with the next one."""
    held = ""
    for line in (line.decode().rstrip("\n") for line in lines):
        longer = f"{held} {line}"
        if held and len(held) < options.join_short and len(longer) <= options.max_chars:
            held = longer
        else:
            if held:
                yield f"{held}\n".encode()
            held = line
    yield f"{held}\n".encode()


def split_source(source, path, hashes, is_new, options, work) -> dict[str, Counter]:
    """Write the splits that a source's cleaned text is for."""
    fractions = {}
    if source == "train":
        fractions = {split: getattr(options, f"{split}_fraction") for split in SPLITS[1:]}
        fractions = {split: fraction for split, fraction in fractions.items() if fraction}
    paths = {split: split_texts(split, options, work) for split in [*fractions, source]}

    def write(choose):
        return write_splits(read_parts(path, hashes, is_new), choose, paths, options)

    counts = write(by_hash(fractions, source))
    lines = sum(split["lines"] for split in counts.values())
    enough = 0.5 * (1 - sum(fractions.values())) * lines
    if counts[source]["lines"] < enough or not all(split["lines"] for split in counts.values()):
        logger.info("few documents: valid and test get the last lines of the text")
        counts = write(by_position(fractions, lines))
    if not all(split["lines"] for split in counts.values()):
        flag = "--input" if source == "train" else f"--{source}-input"
        raise ValueError(
            f"{flag}: only {lines} lines that are not in other splits are left, too few for "
            f"{', '.join(paths)}; give more, different lines"
        )
    return counts


def split_texts(split: str, options: argparse.Namespace, work: str) -> list[str]:
    """The files of a split's text; one for each shard of train."""
    shards = options.shards if split == "train" else 1
    return [os.path.join(work, f"{split}{shard}.txt") for shard in range(shards)]


def make_text(options: argparse.Namespace, work: str) -> tuple[dict[str, Any], list[str]]:
    """Clean all inputs and write the text of each split."""
    sources = {"valid": options.valid_input, "test": options.test_input, "train": options.input}
    sources = {source: paths for source, paths in sources.items() if paths}
    total, hashes, ends = Counter(), bytearray(), [0]
    with progress("cleaning", sum(sources.values(), [])) as bar:
        for source, paths in sources.items():
            with open(os.path.join(work, f"clean-{source}"), "wb") as file:
                counts = clean_files(paths, options, file, hashes, bar)
            if not counts["documents"]:
                flag = "--input" if source == "train" else f"--{source}-input"
                reasons = dropped_lines(counts, options.max_chars)
                raise ValueError(f"there are no documents in {flag} {' '.join(paths)}: {reasons}")
            ends.append(len(hashes) // 8)
            total.update(counts)
    all_hashes = np.frombuffer(hashes, "<u8")
    is_new = np.zeros(len(all_hashes), bool)
    is_new[np.unique(all_hashes, return_index=True)[1]] = True
    total["duplicate"] = len(is_new) - int(is_new.sum())
    splits: dict[str, Counter] = {}
    for source, start, end in zip(sources, ends, ends[1:]):
        path, rows = os.path.join(work, f"clean-{source}"), slice(start, end)
        splits.update(split_source(source, path, all_hashes[rows], is_new[rows], options, work))
        os.remove(path)
    parts = splits["train"]["parts"]
    if parts < options.shards:
        raise ValueError(
            f"--shards {options.shards} is more than the {parts} documents of train; one of more "
            f"than {_PART_LINES} lines counts as several"
        )
    files = sum((split_texts(split, options, work) for split in splits), [])
    return {"cleaned": total, "splits": splits}, files


# ---- Learn ------------------------------------------------------------------------------------


def sample_lines(paths: list[str], max_bytes: int) -> Iterator[str]:
    """Lines at an even distance, about so many bytes in total, without blank ones."""
    total, number = sum(map(os.path.getsize, paths)), 0
    for path in paths:
        with open(path, encoding="utf-8", newline="\n") as file:
            for line in file:
                if line == "\n":
                    continue
                number += 1
                taken = number * max_bytes // total > (number - 1) * max_bytes // total
                if taken or total <= max_bytes:
                    yield line.rstrip("\n")


def learn_sentencepiece(
    lines: Iterable[str],
    vocab_size: int,
    model_type: str,
    character_coverage: float,
    lowercase: bool,
) -> bytes:
    """A model with fairseq's ids up to <unk>, and <mask> among its pieces."""
    import sentencepiece

    model = io.BytesIO()
    # Python would see Ctrl-C when SentencePiece has finished
    before = [(n, signal.signal(n, signal.SIG_DFL)) for n in (signal.SIGINT, signal.SIGTERM)]
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=vocab_size,
            model_type=model_type, character_coverage=character_coverage,
            normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
            bos_id=0, pad_id=1, eos_id=2, unk_id=3, user_defined_symbols=[MASK],
            max_sentence_length=1 << 30,  # in bytes; ours in characters was applied before
            num_threads=8,  # not the number of workers, because the model depends on it
            minloglevel=2,
        )  # fmt: skip
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2].strip() or error
        raise ValueError(f"--vocab-size {vocab_size} does not fit the text: {reason}") from None
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    return model.getvalue()


def make_vocabulary(options: argparse.Namespace, work: str) -> tuple[str, list[str]]:
    """Write dict.txt, the vocabulary's files and vocabulary.json; what kind it is."""
    folder, length = options.output_dir, options.tokens_per_sample
    files = [os.path.join(folder, name) for name in (DICTIONARY, VOCABULARY)]
    if options.vocabulary:
        tokenizer = Tokenizer.load(options.vocabulary)
        tokenizer.record["max_positions"] = length
        tokenizer.copy_to(folder)
        return tokenizer.kind, files
    path, kind = os.path.join(folder, SENTENCEPIECE_MODEL), options.model_type
    if options.sentencepiece_model:
        shutil.copyfile(options.sentencepiece_model, path)
        kind = "given"
    else:
        size = options.vocab_size
        logger.info("learning a vocabulary of %d; this shows no progress, can take minutes", size)
        lines = sample_lines(split_texts("train", options, work), options.sample_mb << 20)
        coverage = options.character_coverage
        model = learn_sentencepiece(lines, size, kind, coverage, options.lowercase)
        with atomic_write(path, "wb") as file:
            file.write(model)
    write_dictionary(files[0], SentencePiece(path).words())
    record = {"kind": "sentencepiece", "clean": True, "lowercase": options.lowercase}
    write_json(files[1], {**record, "max_positions": length})
    return kind, [*files, path]


# ---- Encode -----------------------------------------------------------------------------------


def encode(block: bytes, tokenizer: Tokenizer, longest: int) -> tuple[np.ndarray, list, Counter]:
    """Encode a block of lines: ids, the length of each sentence, counts.

    A sentence of length 0 separates documents; the first and the last may be of this kind.
    """
    lines = block.decode().split("\n")[:-1]
    ids, found = tokenizer.encode_flat(lines)
    counts = Counter(tokens=len(ids), unknown=int(np.count_nonzero(ids == UNK)))
    lengths: list[int] = []
    for line, length in zip(lines, found.tolist()):
        if length:
            parts = (length - 1) // longest
            lengths += [longest] * parts + [length - parts * longest]
            counts["lines"] += 1 + parts
            counts["cut"] += parts
        elif line:  # without a subword; as an empty line it would end the document
            counts["no_pieces"] += 1
        elif not (lengths and lengths[-1] == 0):
            lengths.append(0)
    return ids, lengths, counts


def encode_file(path: str, tokenizer: Tokenizer, prefix: str, options, bar: tqdm) -> Counter:
    """Write PREFIX.bin and .idx: a sentence a line, an empty one between documents."""
    total: Counter = Counter()
    is_between = False
    function = functools.partial(encode, tokenizer=tokenizer, longest=options.tokens_per_sample - 2)
    with open(path, "rb") as file, IndexedWriter(prefix, len(tokenizer.symbols)) as writer:
        blocks = iter(lambda: file.read(_BLOCK_BYTES) + file.readline(), b"")
        for ids, lengths, counts in parallel_map(function, blocks, options.workers):
            is_between = is_between or lengths[:1] == [0]
            lengths = lengths[lengths[:1] == [0] :]
            if lengths:
                if is_between and total["lines"]:
                    writer.write_flat(ids[:0], [0])
                is_between = lengths[-1] == 0
                writer.write_flat(ids, lengths[:-1] if is_between else lengths)
            total.update(counts)
    bar.update(os.path.getsize(path))
    return total


def make_data(options, work, text, kind) -> tuple[dict[str, Any], list[str]]:
    """Encode each split, and complete the folders of the shards; the report."""
    tokenizer = Tokenizer.load(options.output_dir)
    folders = data_folders(options)
    splits = [split for split in SPLITS if split in text["splits"]]
    encoded: dict[str, Counter] = {split: Counter() for split in splits}
    texts = {split: split_texts(split, options, work) for split in splits}
    with progress("encoding", sum(texts.values(), [])) as bar:
        for split, paths in texts.items():
            for folder, path in zip(folders, paths):
                prefix = os.path.join(folder, split)
                counts = encode_file(path, tokenizer, prefix, options, bar)
                if not counts["lines"]:
                    raise ValueError(f"the vocabulary has no subword for any line of {split}")
                encoded[split].update(counts)
    names = [f"{split}.{ending}" for split in splits for ending in ("bin", "idx")]
    for folder in folders:
        if folder != options.output_dir:
            tokenizer.copy_to(folder)
        for name in names:
            if folder != folders[0] and not name.startswith("train"):
                shutil.copyfile(os.path.join(folders[0], name), os.path.join(folder, name))
    files = [os.path.join(folder, name) for folder in folders for name in [DICTIONARY, *names]]
    report = make_report(options, text, encoded)
    entries = len(tokenizer.symbols) + (MASK not in tokenizer.symbols)
    report["vocabulary"] = {"dictionary": entries, "type": kind}
    path = os.path.join(options.output_dir, REPORT)
    write_json(path, report)
    return report, [*files, path]


def data_folders(options: argparse.Namespace) -> list[str]:
    """The folders for fairseq: the output folder, or one for each shard in it."""
    if options.shards == 1:
        return [options.output_dir]
    return [os.path.join(options.output_dir, f"shard{n}") for n in range(options.shards)]


# ---- All of it --------------------------------------------------------------------------------


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """What the data depends on: the options, and name, size and time of the input files."""

    def facts(paths):
        stats = [(os.path.basename(path), os.stat(path)) for path in paths or []]
        return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]

    folder, model = options.vocabulary, options.sentencepiece_model
    return {
        **{name: getattr(options, name) for name in (*_TEXT_OPTIONS, *_OTHER_OPTIONS)},
        **{name: facts(getattr(options, name)) for name in _INPUTS},
        "sentencepiece_model": facts([model] if model else []),
        "vocabulary": facts(folder and filter(os.path.isfile, sorted(Path(folder).iterdir()))),
    }


def prepare(options: argparse.Namespace) -> dict[str, Any] | None:
    """Make the data and return its report; None if it is finished already."""
    folder, settings = options.output_dir, settings_of(options)
    work, done = os.path.join(folder, "work"), os.path.join(folder, "settings.json")
    if os.path.isfile(done):
        record = read_json(done)
        for name in settings:
            before = record["settings"].get(name)
            if before != settings[name]:
                raise ValueError(
                    f"{folder} was made with other settings: {name} was {before} and is now "
                    f"{settings[name]}; give another --output-dir, or delete it"
                )
        if all(map(os.path.isfile, record["files"])):
            return None
    elif os.listdir(folder) and not os.path.isdir(work):
        raise ValueError(f"--output-dir {folder} contains other files; give another folder")
    os.makedirs(work, exist_ok=True)
    of_text = {name: settings[name] for name in (*_TEXT_OPTIONS, *_INPUTS)}
    text = stage(os.path.join(work, "text.json"), of_text, lambda: make_text(options, work))
    kind = stage(
        os.path.join(work, "vocabulary.json"), settings, lambda: make_vocabulary(options, work)
    )
    report = stage(done, settings, lambda: make_data(options, work, text, kind))
    shutil.rmtree(work)
    return report


def stage(path: str, settings: dict[str, Any], make: Callable[[], tuple[Any, list[str]]]) -> Any:
    """The result of a stage, made unless it was, with these settings, and its files are there."""
    record = read_json(path) if os.path.isfile(path) else {}
    if record.get("settings") != settings or not all(map(os.path.isfile, record["files"])):
        result, files = make()
        record = {"settings": settings, "files": files, "result": result}
        write_json(path, record)
    return record["result"]


def make_report(options, text: dict[str, Any], encoded: dict[str, Counter]) -> dict[str, Any]:
    """What was read, kept and dropped. Tokens are counted without the </s> of each line."""
    cleaned, splits = Counter(text["cleaned"]), text["splits"]
    rows = {"read": cleaned["rows"], "no_text": cleaned["rows"] - cleaned["documents"]}
    total = sum(encoded.values(), Counter())
    dropped = ("invalid_utf8", "too_short", "too_long", "duplicate")
    return {
        **({"rows": rows} if options.text_field else {}),
        "documents": {
            "read": cleaned["documents"],
            **{split: splits[split]["documents"] for split in encoded},
        },
        "lines": {
            "read": cleaned["read"],
            "split_off": cleaned["split_off"],
            "joined": sum(splits[split]["joined"] for split in encoded),
            "cut": total["cut"],
            **{split: counts["lines"] for split, counts in encoded.items()},
        },
        "dropped": {
            **{reason: cleaned[reason] for reason in dropped},
            "no_pieces": total["no_pieces"],
        },
        "tokens": {split: counts["tokens"] for split, counts in encoded.items()},
        "unknown_rate": {
            split: counts["unknown"] / counts["tokens"] for split, counts in encoded.items()
        },
    }


def summary(report: dict[str, Any]) -> Iterator[str]:
    """The report in a few lines, and warnings of splits with many unknown tokens."""
    for name in ("rows", "documents", "lines", "dropped", "tokens"):
        if name in report:
            yield f"{name}: " + ", ".join(f"{key} {n:,}" for key, n in report[name].items())
    rates = report["unknown_rate"]
    yield "unknown: " + ", ".join(f"{split} {rate:.4%}" for split, rate in rates.items())
    yield f"vocabulary: {report['vocabulary']['dictionary']:,} entries"
    for split, rate in rates.items():
        if rate > _MUCH:
            yield (
                f"warning: {rate:.1%} of the tokens of {split} are unknown: characters that the "
                "vocabulary lacks; is it one for this language? (--character-coverage)"
            )


def progress(name: str, paths: list[str]) -> tqdm:
    """A progress bar in bytes; hidden if the log is not a terminal."""
    size = sum(map(os.path.getsize, paths))
    return tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=None, leave=False)
