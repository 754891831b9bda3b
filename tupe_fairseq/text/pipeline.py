"""The whole of tupe-prepare-pretrain: five steps from raw text to fairseq's data, in order."""

import argparse
import contextlib
import logging
import os
from typing import Any

from tupe_fairseq.files.atomic import atomic_copy, atomic_write, write_json
from tupe_fairseq.files.names import DICTIONARY, REPORT
from tupe_fairseq.files.steps import Steps
from tupe_fairseq.text.cleaning import Cleaner, clean_file
from tupe_fairseq.text.data_report import build_report
from tupe_fairseq.text.deduplication import mark_duplicates
from tupe_fairseq.text.foreign_vocabulary import ForeignVocabulary
from tupe_fairseq.text.losses import dropped_lines, is_much_dropped
from tupe_fairseq.text.mmap_index import count
from tupe_fairseq.text.parallel import in_child
from tupe_fairseq.text.piece_encoder import PieceEncoder, encode_file
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.splitting import PART_LINES, ByHash, ByPosition, deal, read_parts
from tupe_fairseq.text.treatment import AsItIs, TextTreatment
from tupe_fairseq.text.vocabulary import learn_model
from tupe_fairseq.text.workspace import Workspace, progress, remove

logger = logging.getLogger("tupe-prepare-pretrain")

#: counts by what is counted
Counts = dict[str, int]


# what the steps record
_CLEANED: dict[str, Any] = dict.fromkeys(
    ("read", "split_off", "invalid_utf8", "too_short", "too_long", "documents"), int
)
_CLEANED["rows"] = (int, None)  # earlier versions read none, and recorded nothing
_SPLIT = dict.fromkeys(("documents", "parts", "lines", "joined"), int)
_ENCODED = dict.fromkeys(("lines", "tokens", "unknown", "cut", "no_pieces", "documents"), int)
_VOCABULARY = dict.fromkeys(("pieces", "dictionary"), int)


class Pipeline:
    """Prepares pre-training data.

    Each step returns the result of an earlier run, or does its work and records
    the result; files that no later step reads are removed.

    Args:
        options (Namespace): of tupe-prepare-pretrain.
        steps (Steps): the finished steps of the output folder.
    """

    def __init__(self, options: argparse.Namespace, steps: Steps):
        self.options = options
        self.steps = steps
        self.space = Workspace(options)

    def run(self) -> tuple[dict[str, Any], list[str]]:
        """Run all steps.

        Returns:
            tuple: the content of report.json, and the data folders, one for each shard.
        Raises:
            OSError, ValueError: if an input cannot be used, or the text is too short for the
                options.
        """
        cleaned = {**self.clean(), **self.deduplicate()}
        splits = self.split()
        vocabulary = self.learn_vocabulary()
        encoded = self.encode(list(splits))
        self.complete_shards(list(splits))
        report = build_report(
            self.options, cleaned, splits, encoded, vocabulary, self.space.dictionary
        )
        write_json(os.path.join(self.options.output_dir, REPORT), report)
        return report, self.space.folders

    # 1

    def clean(self) -> Counts:
        """Clean every input file, each as a step of its own."""
        options = self.options
        cleaner = Cleaner(
            AsItIs() if options.vocabulary else TextTreatment(options.lowercase),
            options.split_sentences,
            options.min_chars,
            options.max_chars,
        )
        total = dict.fromkeys(_CLEANED, 0)
        with progress("cleaning", self._bytes_to_clean(), "B") as bar:
            for source, paths in self.space.sources.items():
                files = [self._clean(source, i, cleaner, bar) for i in range(len(paths))]
                counts = {key: sum(file.get(key) or 0 for file in files) for key in _CLEANED}
                if paths and not counts["documents"]:
                    # the remedy is another text or other options, which both begin here
                    self.steps.forget("clean")
                    flag = "--input" if source == "train" else f"--{source}-input"
                    raise ValueError(
                        f"there are no documents in {flag} {' '.join(paths)}: "
                        + dropped_lines(counts, options.max_chars)
                    )
                total = {key: total[key] + counts[key] for key in _CLEANED}
        return total

    def _bytes_to_clean(self) -> int:
        return sum(
            os.path.getsize(path)
            for source, paths in self.space.sources.items()
            for i, path in enumerate(paths)
            if self.steps.result(f"clean {source} {i}", _CLEANED) is None
        )

    def _clean(self, source: str, number: int, cleaner: Cleaner, bar) -> Counts:
        step, path = f"clean {source} {number}", self.space.sources[source][number]
        counts = self.steps.result(step, _CLEANED)
        if counts is None:
            prefix = self.space.cleaned(source)[number]
            options = self.options
            counts = clean_file(path, cleaner, prefix, options.workers, bar, options.text_field)
            self.steps.finish(step, counts)
        if not counts["documents"] or is_much_dropped(counts):
            none = "" if counts["documents"] else "no documents: "
            dropped = dropped_lines(counts, self.options.max_chars)
            logger.warning("warning: %s: %s%s", path, none, dropped)
        return counts

    # 2

    def deduplicate(self) -> Counts:
        """Mark the duplicate lines of all inputs."""
        result = self.steps.result("deduplicate", {"duplicate": int})
        if result is None:
            logger.info("finding duplicate lines")
            space = self.space
            hashes = [f"{path}.hash" for source in space.sources for path in space.cleaned(source)]
            duplicates = mark_duplicates(hashes, space.path("duplicates"), space.work)
            result = {"duplicate": duplicates}
            self.steps.finish("deduplicate", result)
        return result

    # 3

    def split(self) -> dict[str, Counts]:
        """Distribute the documents over splits and shards."""
        result = self.steps.result("split", {"train": _SPLIT, str: _SPLIT})
        if result is None:
            result = {}
            first_line = 0
            for source, paths in self.space.sources.items():
                prefixes = self.space.cleaned(source)
                if source == "train":
                    result.update(self._split_train(prefixes, first_line))
                elif paths:
                    whole = ByHash({source: 1.0})
                    result.update(self._deal(prefixes, first_line, [source], whole))
                first_line += sum(os.path.getsize(f"{prefix}.hash") // 8 for prefix in prefixes)
            self._check_split(result)
            self.steps.finish("split", result)
        for source in self.space.sources:
            for prefix in self.space.cleaned(source):
                remove(f"{prefix}.txt", f"{prefix}.hash")
        remove(self.space.path("duplicates"))
        return result

    def _split_train(self, prefixes, first_line) -> dict[str, Counts]:
        options = self.options
        fractions = {
            split: fraction
            for split, fraction in (
                ("valid", options.valid_fraction),
                ("test", options.test_fraction),
            )
            if not self.space.sources[split] and fraction
        }
        splits = [*fractions, "train"]
        counts = self._deal(prefixes, first_line, splits, ByHash(fractions))
        lines = sum(split["lines"] for split in counts.values())
        if lines < len(splits):
            raise ValueError(
                f"only {lines} lines of the text are left, too few for {', '.join(splits)}; give "
                "--input more, different lines"
            )
        share = 1 - sum(fractions.values())
        few = counts["train"]["lines"] < 0.5 * share * lines
        if few or not all(split["lines"] for split in counts.values()):
            logger.info("few documents: valid and test get the last lines of the text")
            counts = self._deal(prefixes, first_line, splits, ByPosition(fractions, lines))
        return counts

    def _deal(self, prefixes, first_line, splits, choose) -> dict[str, Counts]:
        parts = read_parts(prefixes, self.space.path("duplicates"), first_line)
        paths = {split: self.space.texts(split) for split in splits}
        options = self.options
        with progress("splitting", None, " parts") as bar:
            return deal(parts, choose, paths, options.join_short, options.max_chars, bar.update)

    def _check_split(self, splits: dict[str, Counts]) -> None:
        for split, counts in splits.items():
            if not counts["lines"]:
                raise ValueError(
                    f"no line is left for {split}: all are in other splits, or the "
                    "text is too short for the fractions"
                )
        parts = splits["train"]["parts"]
        if parts < self.options.shards:
            raise ValueError(
                f"--shards {self.options.shards} is more than the {parts} documents of train; "
                f"one of more than {PART_LINES} lines counts as several"
            )

    # 4

    def learn_vocabulary(self) -> dict[str, Any]:
        """Train the SentencePiece model, or copy the given one or vocabulary; write dict.txt."""
        result = self.steps.result("vocabulary", _VOCABULARY)
        if result is None:
            options = self.options
            if options.vocabulary:
                return self._copy_vocabulary(options.vocabulary)
            if options.sentencepiece_model:
                with open(options.sentencepiece_model, "rb") as file:
                    model = file.read()
            else:
                logger.info(
                    "learning %d %s pieces; this shows no progress, and can take minutes",
                    options.vocab_size, options.model_type,
                )  # fmt: skip
                texts = self.space.texts("train")
                model = in_child(
                    learn_model, texts, options.sample_mb << 20, options.vocab_size,
                    options.model_type, options.character_coverage, options.lowercase,
                    killed="lower --sample-mb",
                )  # fmt: skip
            with atomic_write(self.space.model, "wb") as file:
                file.write(model)
            pieces = Pieces(self.space.model)
            pieces.write_dictionary(self.space.dictionary)
            # <s>, <pad>, </s>, <unk> and <mask> are fairseq's
            result = {"pieces": len(pieces), "dictionary": len(list(pieces.words())) + 5}
            self.steps.finish("vocabulary", result)
        return result

    def _copy_vocabulary(self, folder: str) -> dict[str, Any]:
        foreign = ForeignVocabulary(folder)
        for name, path in {DICTIONARY: foreign.dictionary, **foreign.files}.items():
            atomic_copy(path, os.path.join(self.space.folder, name))
        entries = len(list(foreign.pieces.words())) + 5
        result = {"pieces": entries, "dictionary": entries, "type": foreign.kind}
        self.steps.finish("vocabulary", result)
        return result

    def _pieces(self):
        """What splits the text, and the files that belong to it."""
        if self.options.vocabulary:
            foreign = ForeignVocabulary(self.space.folder)
            return foreign.pieces, list(foreign.files.values())
        return Pieces(self.space.model), [self.space.model]

    # 5

    def encode(self, splits: list[str]) -> dict[str, list[Counts]]:
        """Write every split as fairseq reads it, each shard as a step of its own."""
        todo = [
            (f"encode {split} {shard}", split, path, self.space.data(split, shard))
            for split in splits
            for shard, path in enumerate(self.space.texts(split))
        ]
        missing = [path for name, _, path, _ in todo if self.steps.result(name, _ENCODED) is None]
        found: dict[str, list[Counts]] = {split: [] for split in splits}
        pieces = self._pieces()[0]
        encoder = PieceEncoder(pieces, self.space.dictionary, self.options.tokens_per_sample - 2)
        with progress("encoding", sum(map(os.path.getsize, missing)), "B") as bar:
            for name, split, path, prefix in todo:
                counts = self.steps.result(name, _ENCODED)
                if counts is None:
                    counts = encode_file(path, encoder, prefix, self.options.workers, bar)
                    if not counts["lines"]:
                        raise ValueError(f"the vocabulary has no piece for any line of {split}")
                    self.steps.finish(name, counts)
                else:
                    self._check_encoded(prefix, counts)
                remove(path)
                found[split].append(counts)
        return found

    def _check_encoded(self, prefix: str, counts: Counts) -> None:
        """Refuse to go on without what an earlier run has written."""
        # the blank lines between documents are sentences of </s> alone
        sentences = counts["lines"] + counts["documents"] - 1
        with contextlib.suppress(OSError, ValueError):
            if count(prefix) == (sentences, counts["tokens"] + sentences):
                return
        raise ValueError(
            f"{prefix}.bin and .idx are not what {self.steps.path} says, or an earlier version of "
            "this command has begun the folder; delete it, and run the command again"
        )

    def complete_shards(self, splits: list[str]) -> None:
        """Copy what every data folder needs into those of further shards."""
        shared = [self.space.dictionary, *self._pieces()[1]]
        for split in splits:
            if split != "train":
                shared += [f"{self.space.data(split)}.{ending}" for ending in ("bin", "idx")]
        for folder in self.space.folders:
            for path in shared:
                target = os.path.join(folder, os.path.basename(path))
                if path != target:
                    atomic_copy(path, target)
