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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from tupe_fairseq.data.dictionary import DICTIONARY, MASK, UNK, write_dictionary
from tupe_fairseq.data.indexed import IndexedWriter
from tupe_fairseq.data.parallel import parallel_map
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.data.text_files import clean_line, documents
from tupe_fairseq.data.tokenizer import REPORT, SENTENCEPIECE_MODEL, VOCABULARY, Tokenizer
from tupe_fairseq.files.atomic import atomic_write, read_json, write_json

logger = logging.getLogger("tupe-prepare-pretrain")

SETTINGS = "settings.json"
# Longer documents are distributed in parts of so many lines: otherwise a corpus without blank lines
# could not be split.
_PART_LINES = 1000
_BATCH = 1000
# the share of lost lines, or of unknown tokens, that deserves a warning
_MUCH = 0.01
_TEXT_OPTIONS = (
    "text_field split_sentences clean lowercase min_chars max_chars join_short valid_fraction "
    "test_fraction shards"
).split()
_VOCABULARY_OPTIONS = "vocab_size model_type character_coverage sample_mb".split()


# ---- Clean ------------------------------------------------------------------------------------


def clean(lines: Sequence[str | None], options: argparse.Namespace) -> tuple[list[str], Counter]:
    """Clean lines of :func:`documents`; an empty one ends a document."""
    rows, language = options.text_field, options.split_sentences
    kept: list[str] = []
    counts: Counter = Counter()
    for raw in lines:
        if raw is None:
            counts.update(("read", "invalid_utf8", "rows"))
            continue
        line = clean_line(raw, options.lowercase) if options.clean else raw.strip()
        if not line:
            counts["rows"] += not raw
            if not raw or rows is None:
                kept.append("")
            continue
        counts["read"] += 1
        sentences = [line] if language is None else sentence_splitter(language).split(line)
        sentences = [sentence for sentence in sentences if sentence]
        counts["split_off"] += len(sentences) - 1
        for sentence in sentences:
            if len(sentence) < options.min_chars:
                counts["too_short"] += 1
            elif len(sentence) > options.max_chars:
                counts["too_long"] += 1
            else:
                kept.append(sentence)
    return kept, counts


@functools.lru_cache
def sentence_splitter(language: str) -> Any:
    import sentence_splitter

    try:
        return sentence_splitter.SentenceSplitter(language=language)
    except sentence_splitter.SentenceSplitterException:
        folder = os.path.join(os.path.dirname(sentence_splitter.__file__), "non_breaking_prefixes")
        known = ", ".join(sorted(name.removesuffix(".txt") for name in os.listdir(folder)))
        raise ValueError(f"--split-sentences {language}: it knows {known}") from None


def clean_file(path: str, options: argparse.Namespace, file, hashes: bytearray, bar) -> Counter:
    """Append a file's cleaned lines, a blank one between documents, and the hash of each line."""
    lines = documents(path, options.text_field, bar.update)
    batches = iter(lambda: list(itertools.islice(lines, _BATCH)), [])
    # cleaning alone is faster than it is to send the lines to another process
    workers = options.workers if options.split_sentences else 1
    total: Counter = Counter()
    is_between = True
    for kept, counts in parallel_map(functools.partial(clean, options=options), batches, workers):
        total.update(counts)
        for line in kept:
            if not line:
                is_between = True
                continue
            if is_between:
                file.write(b"\n")
                total["documents"] += 1
                is_between = False
            encoded = line.encode()
            hashes += hashlib.blake2b(encoded, digest_size=8).digest()
            file.write(encoded + b"\n")
    return total


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
    document = part = number = 0
    lines: list[bytes] = []
    key = 0
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


def by_hash(fractions: dict[str, float]) -> Choose:
    """The split of a part by its key."""
    limits = [int(total * 2**64) for total in itertools.accumulate(fractions.values())]
    splits = list(zip(fractions, limits))

    def choose(key, first, lines):
        return [(next((split for split, limit in splits if key < limit), "train"), lines)]

    return choose


def by_position(fractions: dict[str, float], total: int) -> Choose:
    """The last lines for valid and test: for a text of too few documents to choose from."""
    ranges, end = [], total
    for split, fraction in fractions.items():
        start = end - max(1, round(fraction * total))
        ranges.append((split, start, end))
        end = start
    ranges.append(("train", 0, end))

    def choose(key, first, lines):
        parts = [(split, lines[max(0, a - first) : max(0, b - first)]) for split, a, b in ranges]
        return [(split, part) for split, part in parts if part]

    return choose


def write_splits(
    parts: Iterable[tuple],
    choose: Choose,
    paths: dict[str, list[str]],
    join_short: int,
    longest: int,
) -> dict[str, dict[str, int]]:
    """Write each split, round robin over its files; documents, parts, lines and joined lines."""
    files = {split: [open(path, "wb") for path in names] for split, names in paths.items()}
    counts = {split: dict.fromkeys(("documents", "parts", "lines", "joined"), 0) for split in paths}
    last: dict[str, Any] = {split: [None] * len(names) for split, names in paths.items()}
    documents: dict[str, int] = {}
    first = 0
    for key, (document, part), lines in parts:
        for split, chosen in choose(key, first, lines):
            count, shard = counts[split], counts[split]["parts"] % len(files[split])
            if last[split][shard] not in (None, (document, part - 1)):
                files[split][shard].write(b"\n")
            last[split][shard] = (document, part)
            count["documents"] += documents.get(split) != document
            documents[split] = document
            count["parts"] += 1
            count["lines"] += len(chosen)
            joined = list(join_lines(chosen, join_short, longest)) if join_short else chosen
            count["joined"] += len(chosen) - len(joined)
            files[split][shard].writelines(joined)
        first += len(lines)
    for file in itertools.chain.from_iterable(files.values()):
        file.close()
    return counts


def join_lines(lines: list[bytes], shortest: int, longest: int) -> Iterator[bytes]:
    """Join a line of fewer characters than ``shortest`` with the next one."""
    held = ""
    for line in (line.decode().rstrip("\n") for line in lines):
        if held and len(held) < shortest and len(held) + 1 + len(line) <= longest:
            held += " " + line
        else:
            if held:
                yield f"{held}\n".encode()
            held = line
    yield f"{held}\n".encode()


def make_text(options: argparse.Namespace, work: str) -> dict[str, Any]:
    """Clean all inputs and write the text of each split: the stage "text"."""
    sources = {"valid": options.valid_input, "test": options.test_input, "train": options.input}
    total, hashes, ends = Counter(), bytearray(), [0]
    size = sum(os.path.getsize(path) for paths in sources.values() for path in paths or [])
    with progress("cleaning", size) as bar:
        for source, paths in sources.items():
            found: Counter = Counter()
            with open(os.path.join(work, f"clean-{source}"), "wb") as file:
                for path in paths or []:
                    counts = clean_file(path, options, file, hashes, bar)
                    lost = counts["invalid_utf8"] + counts["too_long"]
                    if not counts["documents"] or lost > _MUCH * counts["read"]:
                        reasons = dropped_lines(counts, options.max_chars)
                        logger.warning("warning: %s: %s", path, reasons)
                    found.update(counts)
            ends.append(len(hashes) // 8)
            if paths and not found["documents"]:
                flag = "--input" if source == "train" else f"--{source}-input"
                reasons = dropped_lines(found, options.max_chars)
                raise ValueError(f"there are no documents in {flag} {' '.join(paths)}: {reasons}")
            total.update(found)
    all_hashes = np.frombuffer(hashes, "<u8")
    is_new = np.zeros(len(all_hashes), bool)
    is_new[np.unique(all_hashes, return_index=True)[1]] = True
    total["duplicate"] = len(is_new) - int(is_new.sum())
    splits: dict[str, dict[str, int]] = {}
    for (source, paths), start, end in zip(sources.items(), ends, ends[1:]):
        part = slice(start, end)
        path = os.path.join(work, f"clean-{source}")
        if paths:
            splits.update(split_source(source, path, all_hashes[part], is_new[part], options, work))
        os.remove(path)
    for split, counts in splits.items():
        if not counts["lines"]:
            raise ValueError(f"no line is left for {split}: all are in other splits")
    if splits["train"]["parts"] < options.shards:
        raise ValueError(
            f"--shards {options.shards} is more than the {splits['train']['parts']} documents of "
            f"train; one of more than {_PART_LINES} lines counts as several"
        )
    return {"cleaned": total, "splits": splits}


def split_source(source, path, hashes, is_new, options, work) -> dict[str, dict[str, int]]:
    """Write the splits that a source's cleaned text is for."""
    fractions = {}
    if source == "train":
        fractions = {"valid": options.valid_fraction, "test": options.test_fraction}
        fractions = {split: fraction for split, fraction in fractions.items() if fraction}
    paths = {split: split_texts(split, options, work) for split in [*fractions, source]}

    def write(choose):
        parts = read_parts(path, hashes, is_new)
        return write_splits(parts, choose, paths, options.join_short, options.max_chars)

    if source != "train":
        return write(lambda key, first, lines: [(source, lines)])
    counts = write(by_hash(fractions))
    lines = sum(split["lines"] for split in counts.values())
    if lines < len(paths):
        raise ValueError(
            f"only {lines} lines of the text are left, too few for {', '.join(paths)}; give "
            "--input more, different lines"
        )
    enough = 0.5 * (1 - sum(fractions.values())) * lines
    if counts["train"]["lines"] < enough or not all(split["lines"] for split in counts.values()):
        logger.info("few documents: valid and test get the last lines of the text")
        counts = write(by_position(fractions, lines))
    return counts


def split_texts(split: str, options: argparse.Namespace, work: str) -> list[str]:
    """The files of a split's text; one for each shard of train."""
    shards = options.shards if split == "train" else 1
    return [os.path.join(work, f"{split}{shard}.txt") for shard in range(shards)]


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


def make_vocabulary(options: argparse.Namespace, work: str) -> dict[str, Any]:
    """Write dict.txt, the vocabulary's files and vocabulary.json: the stage "vocabulary"."""
    folder, length = options.output_dir, options.tokens_per_sample
    if options.vocabulary:
        tokenizer = Tokenizer.load(options.vocabulary)
        tokenizer.record["max_positions"] = length
        tokenizer.copy_to(folder)
        return {"pieces": len(tokenizer.ids), "type": tokenizer.kind}
    path, kind = os.path.join(folder, SENTENCEPIECE_MODEL), "given"
    if options.sentencepiece_model:
        shutil.copyfile(options.sentencepiece_model, path)
    else:
        logger.info(
            "learning a vocabulary of %d; this shows no progress, and can take minutes",
            options.vocab_size,
        )
        lines = sample_lines(split_texts("train", options, work), options.sample_mb << 20)
        kind, coverage = options.model_type, options.character_coverage
        model = learn_sentencepiece(lines, options.vocab_size, kind, coverage, options.lowercase)
        with atomic_write(path, "wb") as file:
            file.write(model)
    pieces = SentencePiece(path)
    write_dictionary(os.path.join(folder, DICTIONARY), pieces.words())
    record = {"kind": "sentencepiece", "clean": True, "lowercase": options.lowercase}
    write_json(os.path.join(folder, VOCABULARY), {**record, "max_positions": length})
    return {"pieces": len(pieces.pieces), "type": kind}


# ---- Encode -----------------------------------------------------------------------------------


def encode_file(path: str, tokenizer: Tokenizer, prefix: str, longest: int, workers: int, bar):
    """Write PREFIX.bin and .idx: a sentence a line, an empty one between documents."""
    counts = dict.fromkeys(("lines", "tokens", "unknown", "cut", "no_pieces"), 0)
    with (
        open(path, encoding="utf-8", newline="\n") as file,
        IndexedWriter(prefix, len(tokenizer.symbols)) as writer,
    ):
        lines, again = itertools.tee(line.rstrip("\n") for line in file)
        sentences: list[list[int]] = []
        is_between = False
        for line, ids in zip(again, tokenizer.encode_lines(lines, workers)):
            if not ids:
                # a line of no subword: as an empty one it would end the document
                counts["no_pieces"] += bool(line)
                is_between = is_between or not line
                continue
            if is_between and counts["lines"]:
                sentences.append([])
            is_between = False
            parts = [ids[start : start + longest] for start in range(0, len(ids), longest)]
            sentences += parts
            counts["lines"] += len(parts)
            counts["cut"] += len(parts) - 1
            counts["tokens"] += len(ids)
            counts["unknown"] += ids.count(UNK)
            if len(sentences) > _BATCH:
                writer.write(sentences)
                sentences = []
        writer.write(sentences)
    bar.update(os.path.getsize(path))
    return counts


def make_data(options: argparse.Namespace, work: str, splits: Iterable[str]) -> dict[str, Any]:
    """Encode each split, and complete the folders of the shards: the stage "encode"."""
    tokenizer = Tokenizer.load(options.output_dir)
    folders = data_folders(options)
    found: dict[str, Counter] = {split: Counter() for split in splits}
    texts = {split: split_texts(split, options, work) for split in splits}
    with progress("encoding", sum(map(os.path.getsize, sum(texts.values(), [])))) as bar:
        for split, paths in texts.items():
            for folder, path in zip(folders, paths):
                prefix, longest = os.path.join(folder, split), options.tokens_per_sample - 2
                counts = encode_file(path, tokenizer, prefix, longest, options.workers, bar)
                if not counts["lines"]:
                    raise ValueError(f"the vocabulary has no subword for any line of {split}")
                found[split].update(counts)
    for folder in folders:
        if folder != options.output_dir:
            tokenizer.copy_to(folder)
        for split in set(splits) - {"train"}:
            for name in (f"{split}.bin", f"{split}.idx"):
                if folder != folders[0]:
                    shutil.copyfile(os.path.join(folders[0], name), os.path.join(folder, name))
    return dict(found)


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

    folder = options.vocabulary
    names = sorted(os.listdir(folder)) if folder else []
    model = [options.sentencepiece_model] if options.sentencepiece_model else []
    return {
        **{name: getattr(options, name) for name in (*_TEXT_OPTIONS, *_VOCABULARY_OPTIONS)},
        **{name: facts(getattr(options, name)) for name in ("input", "valid_input", "test_input")},
        "sentencepiece_model": facts(model),
        "vocabulary": facts(
            os.path.join(folder, name) for name in names if name.endswith((".txt", ".json"))
        ),
        "tokens_per_sample": options.tokens_per_sample,
    }


def prepare(options: argparse.Namespace) -> dict[str, Any] | None:
    """Make the data and return its report; None if it is finished already."""
    folder, settings = options.output_dir, settings_of(options)
    work = os.path.join(folder, "work")
    inputs = ("input", "valid_input", "test_input")
    of_text = {name: settings[name] for name in (*_TEXT_OPTIONS, *inputs)}
    of_vocabulary = {**settings, **of_text}
    folders = data_folders(options)

    def stage(path: str, needs: dict[str, Any], files: Callable[[Any], list[str]], make):
        record = read_json(path) if os.path.isfile(path) else {}
        if record.get("settings") == needs and all(map(os.path.isfile, files(record["result"]))):
            return record["result"]
        result = make()
        write_json(path, {"settings": needs, "result": result})
        return result

    def data_files(result) -> list[str]:
        names = [f"{split}.{ending}" for split in result for ending in ("bin", "idx")]
        paths = [os.path.join(one, name) for one in folders for name in [DICTIONARY, *names]]
        return [*paths, os.path.join(folder, REPORT)]

    done = os.path.join(folder, SETTINGS)
    if os.path.isfile(done):
        record = read_json(done)
        others = [name for name in settings if record["settings"].get(name) != settings[name]]
        if others:
            before, now = record["settings"].get(others[0]), settings[others[0]]
            raise ValueError(
                f"{folder} was made with other settings: {others[0]} was {before} and is now "
                f"{now}; give another --output-dir, or delete it"
            )
        if all(map(os.path.isfile, data_files(record["result"]))):
            return None
    elif os.listdir(folder) and not os.path.isdir(work):
        raise ValueError(f"--output-dir {folder} contains other files; give another folder")
    os.makedirs(work, exist_ok=True)
    text = stage(
        os.path.join(work, "text.json"), of_text,
        lambda text: sum((split_texts(split, options, work) for split in text["splits"]), []),
        lambda: make_text(options, work),
    )  # fmt: skip
    vocabulary = stage(
        os.path.join(work, "vocabulary.json"), of_vocabulary,
        lambda _: [os.path.join(folder, name) for name in (DICTIONARY, VOCABULARY)],
        lambda: make_vocabulary(options, work),
    )  # fmt: skip
    splits = [split for split in ("train", "valid", "test") if split in text["splits"]]
    encoded = make_data(options, work, splits)
    report = make_report(options, text, vocabulary, encoded)
    write_json(os.path.join(folder, REPORT), report)
    write_json(done, {"settings": settings, "result": splits})
    shutil.rmtree(work)
    return report


def make_report(options, text, vocabulary, encoded) -> dict[str, Any]:
    """What was read, kept and dropped. Tokens are counted without the </s> of each line."""
    cleaned, splits = Counter(text["cleaned"]), text["splits"]
    dropped = ("invalid_utf8", "too_short", "too_long", "duplicate")
    rows = {"read": cleaned["rows"], "no_text": cleaned["rows"] - cleaned["documents"]}
    dictionary = os.path.join(options.output_dir, DICTIONARY)
    with open(dictionary, "rb") as file:
        content = file.read()
    return {
        "text_treatment": {
            "unicode": "NFC" if options.clean else "as it is",
            "lowercase": options.lowercase,
        },
        **({"rows": rows} if options.text_field else {}),
        "documents": {
            "read": cleaned["documents"],
            **{split: splits[split]["documents"] for split in encoded},
        },
        "lines": {
            "read": cleaned["read"],
            "split_off": cleaned["split_off"],
            "joined": sum(splits[split]["joined"] for split in encoded),
            "cut": sum(counts["cut"] for counts in encoded.values()),
            **{split: counts["lines"] for split, counts in encoded.items()},
        },
        "tokens": {split: counts["tokens"] for split, counts in encoded.items()},
        "dropped": {
            **{reason: cleaned[reason] for reason in dropped},
            "no_pieces": sum(counts["no_pieces"] for counts in encoded.values()),
        },
        "unknown_rate": {
            split: counts["unknown"] / max(1, counts["tokens"]) for split, counts in encoded.items()
        },
        "vocabulary": {
            "pieces": vocabulary["pieces"],
            # <s>, <pad>, </s>, <unk> and <mask> are not listed
            "dictionary": content.count(b"\n") + 5 - content.count(b"<mask> "),
            "type": vocabulary["type"],
            "sha256": hashlib.sha256(content).hexdigest(),
        },
        "settings": {
            name: getattr(options, name)
            for name in "text_field split_sentences join_short min_chars max_chars "
            "tokens_per_sample shards".split()
        },
    }


def summary(report: dict[str, Any]) -> list[str]:
    """The report in a few lines."""
    lines = [
        f"{name}: {', '.join(f'{key} {count:,}' for key, count in report[name].items())}"
        for name in ("rows", "documents", "lines", "dropped", "tokens")
        if name in report
    ]
    rates = ", ".join(f"{split} {rate:.4%}" for split, rate in report["unknown_rate"].items())
    entries = report["vocabulary"]["dictionary"]
    return [*lines, f"unknown: {rates}", f"vocabulary: {entries:,} entries"]


def unknown_tokens(rates: dict[str, float], is_learned: bool) -> list[str]:
    """Warnings of splits for which the vocabulary lacks many characters."""
    advice = "is the vocabulary one for this language?"
    if is_learned:
        advice = "a higher --character-coverage has more of them"
    return [
        f"{rate:.1%} of the tokens of {split} are unknown: characters that the vocabulary lacks; "
        f"{advice}"
        for split, rate in rates.items()
        if rate > _MUCH
    ]


def progress(name: str, size: int) -> tqdm:
    """A progress bar in bytes; hidden if the log is not a terminal."""
    return tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=None, leave=False)
