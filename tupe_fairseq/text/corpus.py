"""The first half of tupe-prepare-pretrain: from raw text to clean text, split."""

import logging
import os
from typing import Dict

from tupe_fairseq.text.cleaning import Cleaner, clean_file
from tupe_fairseq.text.deduplication import mark_duplicates
from tupe_fairseq.text.splitting import PART_LINES, ByHash, ByPosition, deal, read_parts
from tupe_fairseq.text.treatment import TextTreatment
from tupe_fairseq.text.workspace import Workspace, progress, remove

logger = logging.getLogger(__name__)


class Corpus:
    """Each method is a step: it returns what it finished before, or works and remembers it."""

    def __init__(self, space: Workspace):
        self.space = space
        self.options = space.options
        self.steps = space.steps

    def clean(self) -> Dict[str, int]:
        """Clean every input file; each is a step of its own."""
        options = self.options
        cleaner = Cleaner(
            TextTreatment(options.lowercase),
            options.split_sentences,
            options.min_chars,
            options.max_chars,
        )
        todo = [
            (f"clean {source} {number}", path, prefix)
            for source, paths in self.space.sources.items()
            for number, (path, prefix) in enumerate(zip(paths, self.space.cleaned(source)))
        ]
        missing = [path for name, path, _ in todo if self.steps.result(name) is None]
        total: Dict[str, int] = {}
        with progress("cleaning", sum(map(os.path.getsize, missing)), "B") as bar:
            for name, path, prefix in todo:
                counts = self.steps.result(name)
                if counts is None:
                    counts = clean_file(path, cleaner, prefix, options.workers, bar)
                    self.steps.finish(name, counts)
                    if not counts["documents"]:
                        logger.warning("%s has no documents", path)
                for key, count in counts.items():
                    total[key] = total.get(key, 0) + count
        for source, paths in self.space.sources.items():
            if paths and not self._documents(source):
                flag = "--input" if source == "train" else f"--{source}-input"
                raise ValueError(f"there are no documents in {flag} {' '.join(paths)}")
        return total

    def _documents(self, source: str) -> int:
        return sum(
            self.steps.result(f"clean {source} {number}")["documents"]
            for number in range(len(self.space.sources[source]))
        )

    def deduplicate(self) -> Dict[str, int]:
        """Mark the duplicate lines over all inputs."""
        result = self.steps.result("deduplicate")
        if result is None:
            logger.info("finding duplicate lines")
            space = self.space
            hashes = [f"{path}.hash" for source in space.sources for path in space.cleaned(source)]
            marks = space.path("duplicates")
            result = {"duplicate": mark_duplicates(hashes, marks, space.work)}
            self.steps.finish("deduplicate", result)
        return result

    def split(self) -> Dict[str, Dict[str, int]]:
        """Deal the documents to the splits and shards."""
        result = self.steps.result("split")
        if result is None:
            result = {}
            first_line = 0
            for source, paths in self.space.sources.items():
                prefixes = self.space.cleaned(source)
                if source == "train":
                    result.update(self._split_train(prefixes, first_line))
                elif paths:
                    result.update(self._deal(prefixes, first_line, [source], _Whole(source)))
                first_line += sum(os.path.getsize(f"{prefix}.hash") // 8 for prefix in prefixes)
            for split, counts in result.items():
                if not counts["lines"]:
                    raise ValueError(
                        f"no line is left for {split}: all occur in other splits, or the text is "
                        "too short for its fractions"
                    )
            parts = result["train"]["parts"]
            if parts < self.options.shards:
                raise ValueError(
                    f"--shards {self.options.shards} is more than the {parts} documents of train; "
                    f"one of more than {PART_LINES} lines counts as several"
                )
            self.steps.finish("split", result)
        for source in self.space.sources:
            for prefix in self.space.cleaned(source):
                remove(f"{prefix}.txt", f"{prefix}.hash")
        remove(self.space.path("duplicates"))
        return result

    def _split_train(self, prefixes, first_line):
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
            raise ValueError(f"{lines} lines are left of the text, too few for {', '.join(splits)}")
        share = 1 - sum(fractions.values())
        few = counts["train"]["lines"] < 0.5 * share * lines
        if few or not all(split["lines"] for split in counts.values()):
            logger.info("few documents: valid and test get the last lines")
            counts = self._deal(prefixes, first_line, splits, ByPosition(fractions, lines))
        return counts

    def _deal(self, prefixes, first_line, splits, choose):
        options = self.options
        parts = read_parts(prefixes, self.space.path("duplicates"), first_line)
        paths = {split: self.space.texts(split) for split in splits}
        with progress("splitting", None, " parts") as bar:
            return deal(_counted(parts, bar), choose, paths, options.join_short, options.max_chars)


class _Whole:
    """Chooses one split for everything."""

    def __init__(self, split):
        self._split = split

    def __call__(self, part, first_line):
        return {self._split: part.lines}


def _counted(parts, bar):
    for part in parts:
        bar.update()
        yield part
