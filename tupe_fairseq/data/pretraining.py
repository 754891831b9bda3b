"""From raw text to fairseq's data, in three stages; a finished stage is skipped.

    text         cleaned lines of train and valid (corpus.py)
    vocabulary   a SentencePiece model learned from train, or a copy of a given vocabulary
    encode       SPLIT.bin and SPLIT.idx

A stage writes its settings when it is finished. It runs again if they have changed, or if one of
its files is missing.
"""

import functools
import itertools
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tupe_fairseq.data.corpus import (
    SPLITS,
    check_text,
    make_text,
    progress,
    split_text,
)
from tupe_fairseq.data.dictionary import DICTIONARY, MASK, REPORT, UNK, write_dictionary
from tupe_fairseq.data.indexed import IndexedWriter
from tupe_fairseq.data.parallel import parallel_map
from tupe_fairseq.data.subwords import SentencePiece, learn_sentencepiece
from tupe_fairseq.data.text_files import BLOCK_BYTES
from tupe_fairseq.data.tokenizer import (
    SENTENCEPIECE_MODEL,
    VOCABULARY,
    Tokenizer,
    given_tokenizer,
    unknown_warnings,
)
from tupe_fairseq.files import atomic_copy, atomic_write, output_folder, read_json, write_json
from tupe_fairseq.provenance import made_by, warn_of_other_version

logger = logging.getLogger("tupe-prepare-pretrain")

# options that do not affect the text
_VOCABULARY_OPTIONS = ("vocab_size", "character_coverage", "tokens_per_sample", "vocabulary")
# settings of folders that earlier versions made: others than these are of another text
_FORMER_OPTIONS = {"split_sentences": None, "join_short": 0, "shards": 1}
# the part of train that the vocabulary is learned from; learning takes 30 times as much memory
_SAMPLE_BYTES = 64 << 20


# ---- Learn ------------------------------------------------------------------------------------


def sample_lines(path: str) -> Iterator[str]:
    """Evenly spaced lines, about 64 MiB in total, or all lines of less text; no blank ones."""
    total, number = os.path.getsize(path), 0
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            if line == "\n":
                continue
            number += 1
            taken = number * _SAMPLE_BYTES // total > (number - 1) * _SAMPLE_BYTES // total
            if taken or total <= _SAMPLE_BYTES:
                yield line.rstrip("\n")


def usual_coverage(lines: Iterable[str], size: int, lowercase: bool) -> tuple[float, str]:
    """The character coverage for a vocabulary of this size, and the characters that it must have.

    It covers an alphabet completely, a larger script to 99.95%; it must have printable ASCII.
    """
    seen = set[str]().union(*lines)
    printable = {c for c in map(chr, range(33, 127)) if not (lowercase and c.isupper())}
    if len(seen | printable) <= size // 10:
        return 1.0, "".join(sorted(printable))
    return 0.9995, "".join(sorted(printable & seen))


def make_vocabulary(options: Any, work: str) -> tuple[str, list[str]]:
    """Write dict.txt, the vocabulary and vocabulary.json; returns its type and the files."""
    folder, size = options.output_dir, options.vocab_size
    names = (DICTIONARY, VOCABULARY, SENTENCEPIECE_MODEL)
    dictionary, record, model = (os.path.join(folder, name) for name in names)
    if options.vocabulary:
        tokenizer = Tokenizer.load(options.vocabulary)
        tokenizer.record["max_positions"] = options.tokens_per_sample
        tokenizer.copy_to(folder)
        return tokenizer.kind, [dictionary, record]
    if options.sentencepiece_model:
        atomic_copy(options.sentencepiece_model, model)
    else:
        logger.info("learning a vocabulary of %d; this takes minutes and shows no progress", size)
        lines = functools.partial(sample_lines, split_text("train", work))
        coverage, required = options.character_coverage, ""
        if coverage is None:
            coverage, required = usual_coverage(lines(), size, options.lowercase)
        with atomic_write(model, "wb") as file:
            file.write(
                learn_sentencepiece(lines(), size, "unigram", coverage, options.lowercase, required)
            )
    write_dictionary(dictionary, SentencePiece(model).words())
    cleaning = {"clean": True, "lowercase": options.lowercase}
    length = {"max_positions": options.tokens_per_sample}
    write_json(record, {"kind": "sentencepiece", **cleaning, **length})
    return "given" if options.sentencepiece_model else "unigram", [dictionary, record, model]


# ---- Encode -----------------------------------------------------------------------------------


def encode(block: bytes, tokenizer: Tokenizer, longest: int) -> tuple[np.ndarray, list, Counter]:
    """Encode a block of lines: ids, the length of each sentence (0 between documents), counts."""
    lines = block.decode().split("\n")[:-1]
    ids, sizes = tokenizer.encode_flat(lines)
    counts: Counter = Counter(tokens=len(ids), unknown=int(np.count_nonzero(ids == UNK)))
    if counts["unknown"]:
        rows = np.unique(np.repeat(np.arange(len(lines)), sizes)[ids == UNK])
        characters = Counter("".join(lines[row] for row in rows))
        counts.update({("in unknown", c): number for c, number in characters.items()})
    lengths: list[int] = []
    for line, length in zip(lines, sizes.tolist()):
        if length:
            parts = (length - 1) // longest
            lengths += [longest] * parts + [length - parts * longest]
            counts["lines"] += 1 + parts
            counts["cut"] += parts
        elif line:  # it has no subword; written as an empty line, it would end the document
            counts["no_tokens"] += 1
        else:
            lengths.append(0)
    return ids, lengths, counts


def encode_file(path: str, tokenizer: Tokenizer, prefix: str, options) -> Counter:
    """Write PREFIX.bin and .idx: a sentence a line, an empty one between documents."""
    total: Counter = Counter()
    longest = options.tokens_per_sample - 2  # <s> and </s>
    function = functools.partial(encode, tokenizer=tokenizer, longest=longest)
    with open(path, "rb") as file, IndexedWriter(prefix, len(tokenizer.symbols)) as writer:
        blocks = iter(lambda: file.read(BLOCK_BYTES) + file.readline(), b"")
        for ids, lengths, counts in parallel_map(function, blocks, options.workers):
            writer.write_flat(ids, lengths)
            total.update(counts)
    return total


def make_data(options, work, text, kind) -> tuple[dict[str, Any], list[str]]:
    """Encode each split, and write the report."""
    folder, tokenizer = options.output_dir, Tokenizer.load(options.output_dir)
    texts = {split: split_text(split, work) for split in SPLITS}
    encoded: dict[str, Counter] = {}
    with progress("encoding", [*texts.values()]) as bar:
        for split, path in texts.items():
            counts = encode_file(path, tokenizer, os.path.join(folder, split), options)
            if not counts["lines"]:
                raise ValueError(f"the vocabulary has no subword for any line of {split}")
            encoded[split] = counts
            bar.update(os.path.getsize(path))
    report = make_report(options, text, encoded)
    report["lost_characters"] = lost_characters(sum(encoded.values(), Counter()), tokenizer)
    entries = len(tokenizer.symbols) + (MASK not in tokenizer.symbols)
    given = bool(options.vocabulary or options.sentencepiece_model)
    report["vocabulary"] = {"dictionary": entries, "type": kind, "given": given}
    report |= made_by()
    write_json(os.path.join(folder, REPORT), report)
    names = [f"{split}.{ending}" for split in SPLITS for ending in ("bin", "idx")]
    return report, [os.path.join(folder, name) for name in names]


# ---- All of it --------------------------------------------------------------------------------


def prepare(options: Any) -> dict[str, Any] | None:
    """Make the data and return its report; None if it is finished already."""
    folder = options.output_dir
    # check the files before the folder is made
    options.clean = True
    if options.vocabulary:
        record = given_tokenizer(options.vocabulary).record
        options.clean, options.lowercase = record["clean"], record["lowercase"]
    for path in [*options.input, *(options.valid_input or [])]:
        check_text(path, options.text_field)
    files = sorted(Path(options.vocabulary).iterdir()) if options.vocabulary else []
    if options.sentencepiece_model:
        SentencePiece(options.sentencepiece_model)
        files = [Path(options.sentencepiece_model)]
    settings = {
        **options.settings(),
        "clean": options.clean,
        **{name: facts(getattr(options, name)) for name in ("input", "valid_input")},
        "vocabulary": facts(filter(os.path.isfile, files)),
        "valid_fraction": options.valid_share,
        **_FORMER_OPTIONS,
    }
    del settings["valid_share"]
    of_text = {name: x for name, x in settings.items() if name not in _VOCABULARY_OPTIONS}
    work = os.path.join(folder, "work")
    with output_folder(
        folder, "settings.json", settings, others=["work"], overwrite=options.overwrite
    ) as output:
        if output.record is not None:
            warn_of_other_version(logger, folder, read_json(os.path.join(folder, REPORT)))
            return None
        os.makedirs(work, exist_ok=True)
        text = stage(folder, "work/text.json", of_text, make_text, options, work)
        kind = stage(folder, "work/vocabulary.json", settings, make_vocabulary, options, work)
        report = stage(folder, "settings.json", settings, make_data, options, work, text, kind)
        shutil.rmtree(work)
    return report


def facts(paths: Iterable[str] | None) -> list[list]:
    """Name, size and modification time of each file."""
    stats = [(os.path.basename(path), os.stat(path)) for path in paths or []]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def stage(
    folder: str, name: str, settings: dict, make: Callable[..., tuple[Any, list[str]]], *args
) -> Any:
    """The result of a stage. It runs again if its settings have changed or a file is missing."""
    path = os.path.join(folder, name)
    record = read_json(path) if os.path.isfile(path) else {}
    files = [os.path.join(folder, file) for file in record.get("files", [])]
    if record.get("settings") != settings or not all(map(os.path.isfile, files)):
        result, files = make(*args)
        files = [os.path.relpath(file, folder) for file in files]
        record = {"settings": settings, "files": files, "result": result}
        write_json(path, record)
    return record["result"]


def make_report(options, text: dict[str, Any], encoded: dict[str, Counter]) -> dict[str, Any]:
    """What was read, kept and dropped. Tokens are counted without the </s> of each line."""
    cleaned, splits = Counter(text["cleaned"]), text["splits"]
    total = sum(encoded.values(), Counter())
    rows = {"read": cleaned["rows"], "no_text": cleaned["rows"] - cleaned["documents"]}
    lines = {"read": cleaned["read"], "cut": total["cut"]}
    dropped = ("invalid_utf8", "too_long", "duplicate")
    return {
        **({"rows": rows} if options.text_field else {}),
        "documents": {"read": cleaned["documents"], **{x: splits[x]["documents"] for x in encoded}},
        "lines": {**lines, **{x: counts["lines"] for x, counts in encoded.items()}},
        "dropped": {**{x: cleaned[x] for x in dropped}, "no_tokens": total["no_tokens"]},
        "tokens": {x: counts["tokens"] for x, counts in encoded.items()},
        "unknown_rate": {x: counts["unknown"] / counts["tokens"] for x, counts in encoded.items()},
    }


def lost_characters(counts: Counter, tokenizer: Tokenizer) -> dict[str, int]:
    """The most frequent characters that the vocabulary lacks."""
    characters = Counter({key[1]: n for key, n in counts.items() if isinstance(key, tuple)})
    lost = (x for x in characters.most_common() if UNK in tokenizer.encode(x[0]))
    return dict(itertools.islice(lost, 10))


def summary(report: dict[str, Any]) -> Iterator[str]:
    """The report in a few lines, and warnings of splits with many unknown tokens."""
    for name in ("rows", "documents", "lines", "dropped", "tokens"):
        if name in report:
            yield f"{name}: " + ", ".join(f"{key} {n:,}" for key, n in report[name].items())
    if (valid := report["tokens"]["valid"]) > (train := report["tokens"]["train"]):
        yield f"warning: valid has {valid:,} tokens and train {train:,}; each validation reads all"
    rates = report["unknown_rate"]
    yield "unknown: " + ", ".join(f"{split} {rate:.4%}" for split, rate in rates.items())
    yield f"vocabulary: {report['vocabulary']['dictionary']:,} entries"
    if lost := report["lost_characters"]:
        listed = ", ".join(f"{character} {number:,}" for character, number in lost.items())
        given = report["vocabulary"]["given"]
        yield f"characters that it lacks: {listed}" + " (--character-coverage)" * (not given)
    yield from (f"warning: {line}" for line in unknown_warnings(rates))
