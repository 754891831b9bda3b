"""Names of the intermediate files of tupe-prepare-pretrain."""

import argparse
import os

from tqdm import tqdm

from tupe_fairseq.files.names import DICTIONARY, SENTENCEPIECE_MODEL


class Workspace:
    """The output folder, its data folders, and the files passed between steps.

    Args:
        options (Namespace): of tupe-prepare-pretrain.
    """

    def __init__(self, options: argparse.Namespace):
        self.folder = options.output_dir
        #: the data folders, one for each shard
        self.folders = [self.folder]
        if options.shards > 1:
            shards = range(options.shards)
            self.folders = [os.path.join(self.folder, f"shard{shard}") for shard in shards]
        self.work = os.path.join(options.output_dir, "work")
        self.model = os.path.join(self.folder, SENTENCEPIECE_MODEL)
        self.dictionary = os.path.join(self.folder, DICTIONARY)
        # in order of precedence: lines of valid are dropped from train
        self.sources: dict[str, list[str]] = {
            "valid": options.valid_input or [],
            "test": options.test_input or [],
            "train": options.input,
        }
        os.makedirs(self.work, exist_ok=True)

    def path(self, *words) -> str:
        """An intermediate file."""
        return os.path.join(self.work, "".join(map(str, words)))

    def cleaned(self, source: str) -> list[str]:
        """The prefix of the cleaned text and hashes of each input file."""
        return [self.path("clean-", source, i) for i in range(len(self.sources[source]))]

    def texts(self, split: str) -> list[str]:
        """The text of a split, by shard."""
        shards = len(self.folders) if split == "train" else 1
        return [self.path(split, shard, ".txt") for shard in range(shards)]

    def data(self, split: str, shard: int = 0) -> str:
        """The prefix of a split's SPLIT.bin and SPLIT.idx, by shard."""
        return os.path.join(self.folders[shard], split)


def remove(*paths: str) -> None:
    """Remove files that no later step reads; an earlier run may have done so."""
    for path in paths:
        if os.path.exists(path):
            os.remove(path)


def progress(name: str, total, unit: str) -> tqdm:
    """A progress bar; hidden if the log is not a terminal."""
    return tqdm(desc=name, total=total, unit=unit, unit_scale=True, disable=None, leave=False)
