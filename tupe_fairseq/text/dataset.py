"""The second half of tupe-prepare-pretrain: from clean text to fairseq's data."""

import logging
import os
import shutil
from typing import Dict, List

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.text.binarize import binarize
from tupe_fairseq.text.encoding import Encoder, encode_file
from tupe_fairseq.text.mmap_index import count
from tupe_fairseq.text.parallel import in_child
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.vocabulary import sample_lines, train_model
from tupe_fairseq.text.workspace import MODEL, Workspace, progress, remove

logger = logging.getLogger(__name__)


class Dataset:
    """Each method is a step: it returns what it finished before, or works and remembers it."""

    def __init__(self, space: Workspace):
        self.space = space
        self.options = space.options
        self.steps = space.steps

    def vocabulary(self) -> Dict[str, object]:
        """Train the SentencePiece model, or copy the given one; write dict.txt."""
        result = self.steps.result("vocabulary")
        if result is None:
            options = self.options
            given = options.sentencepiece_model
            if given:
                with open(given, "rb") as file:
                    model = file.read()
            else:
                logger.info("learning %d %s pieces", options.vocab_size, options.model_type)
                texts = self.space.texts("train")
                model = in_child(_train, texts, options, killed="lower --sample-mb")
            with atomic_write(self.space.model, "wb") as file:
                file.write(model)
            pieces = Pieces(self.space.model)
            pieces.write_dictionary(self.space.dictionary)
            # <s>, <pad>, </s>, <unk> and <mask> are fairseq's
            result = {"pieces": len(pieces), "dictionary": len(list(pieces.words())) + 5}
            self.steps.finish("vocabulary", result)
        return result

    def encode(self, splits: List[str]) -> Dict[str, List[Dict[str, int]]]:
        """Encode every split, shard by shard; each is a step of its own."""
        todo = [
            (f"encode {split} {shard}", split, shard, path)
            for split in splits
            for shard, path in enumerate(self.space.texts(split))
        ]
        missing = [path for name, _, _, path in todo if self.steps.result(name) is None]
        found: Dict[str, List[Dict[str, int]]] = {split: [] for split in splits}
        encoder = Encoder(Pieces(self.space.model), self.options.tokens_per_sample - 2)
        with progress("encoding", sum(map(os.path.getsize, missing)), "B") as bar:
            for name, split, shard, path in todo:
                counts = self.steps.result(name)
                if counts is None:
                    output = self.space.pieces(split, shard)
                    counts = encode_file(path, encoder, output, self.options.workers, bar)
                    if not counts["lines"]:
                        raise ValueError(f"the vocabulary leaves no piece of any line of {split}")
                    self.steps.finish(name, counts)
                remove(path)
                found[split].append(counts)
        return found

    def binarize(self, encoded: Dict[str, List[Dict[str, int]]]) -> List[str]:
        """Binarize, each shard as a step of its own; returns the data folders."""
        shards = self.options.shards
        folders = [self.space.folder]
        if shards > 1:
            folders = [os.path.join(self.space.folder, f"shard{shard}") for shard in range(shards)]
        for shard, folder in enumerate(folders):
            name = f"binarize {shard}"
            if self.steps.result(name) is None:
                logger.info("binarizing %s", folder)
                self._binarize_shard(shard, folder, encoded)
                self.steps.finish(name, True)
            remove(self.space.pieces("train", shard))
        return folders

    def _binarize_shard(self, shard, folder, encoded) -> None:
        texts, sentences, tokens = {}, {}, {}
        for split, shards in encoded.items():
            number = shard if split == "train" else 0
            counts = shards[number]
            texts[split] = self.space.pieces(split, number)
            # the blank lines between documents are sentences of </s> alone
            sentences[split] = counts["lines"] + counts["documents"] - 1
            tokens[split] = counts["tokens"] + sentences[split]
        made = self.space.path("binary")
        binarize(self.space.dictionary, texts, made, sentences, self.options.workers)
        for split, expected in tokens.items():
            _, found = count(os.path.join(made, split))
            if found != expected:
                raise ValueError(
                    f"fairseq-preprocess wrote {found} tokens of {split} and was given {expected}; "
                    "is the disk full?"
                )
        os.makedirs(folder, exist_ok=True)
        for file in sorted(os.listdir(made)):
            os.replace(os.path.join(made, file), os.path.join(folder, file))
        if folder != self.space.folder:
            shutil.copyfile(self.space.model, os.path.join(folder, MODEL))


def _train(paths, options) -> bytes:
    return train_model(
        sample_lines(paths, options.sample_mb << 20),
        options.vocab_size,
        options.model_type,
        options.character_coverage,
        options.lowercase,
    )
