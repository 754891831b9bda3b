"""Fine-tuning on tags of words; sentences that are too long are split into windows."""

import logging
import os
from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from fairseq.utils import safe_getattr
from omegaconf import II, MISSING

from tupe_fairseq.data.truncation import windows
from tupe_fairseq.kinds import kind_of_options
from tupe_fairseq.options import option
from tupe_fairseq.tasks._training import FineTuningTask, Samples
from tupe_fairseq.tasks.sentence_prediction import KIND_HELP, class_names

logger = logging.getLogger(__name__)


@dataclass
class TokenTaggingConfig(FairseqDataclass):
    data: str = option(MISSING, "path to data directory")
    num_classes: int = option(-1, "number of tags; default: those of label/dict.txt")
    max_positions: int = option(512, "longest window, in tokens")
    no_shuffle: bool = option(False, "keep the order of the sentences")
    kind: Optional[str] = option(None, KIND_HELP)
    classification_head_name: str = II("criterion.classification_head_name")
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")  # checkpoints of earlier versions have it


@register_task("token_tagging", dataclass=TokenTaggingConfig)
class TokenTaggingTask(FineTuningTask):
    """Predicts a tag for each word.

    Data: ``input0`` has the tokens of a sentence, ``label`` a symbol for each token: the tag at the
    first token of a word, ``<pad>`` at the others. Without labels all tags are ``<unk>``.
    """

    def __init__(self, cfg, dictionary, label_dictionary):
        super().__init__(cfg)
        self.dictionary, self.label_dictionary = dictionary, label_dictionary
        self.tags = class_names(label_dictionary)
        self.kind = kind_of_options({"task": "token_tagging", "kind": safe_getattr(cfg, "kind")})

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        paths = [os.path.join(cfg.data, key, "dict.txt") for key in ("input0", "label")]
        dictionary, labels = map(Dictionary.load, paths)
        dictionary.add_symbol("<mask>")
        task = cls(cfg, dictionary, labels)
        if cfg.num_classes not in (-1, len(task.tags)):
            raise ValueError(
                f"--num-classes ({cfg.num_classes}) must be {len(task.tags)} for the tags of "
                f"{cfg.data} ({', '.join(task.tags)})"
            )
        cfg.num_classes = len(task.tags)
        return task

    def build_model(self, cfg, from_checkpoint=False):
        pooling = safe_getattr(cfg, "pooling", "cls")
        if pooling != "cls":
            raise ValueError(
                f"--pooling {pooling} makes one vector for a text, but this task needs one for "
                "each word; drop it"
            )
        model = super().build_model(cfg, from_checkpoint)
        model.register_tagging_head(self.cfg.classification_head_name, len(self.tags))
        return model

    def load_dataset(self, split, combine=False, **kwargs):
        tokens, tags = self.columns(split, ("input0", "label"), combine)
        if tags is None:  # without them it is unknown where words begin
            raise FileNotFoundError(f"{self.cfg.data}/label/{split}.bin is missing")
        dataset = WindowedSentences(
            tokens,
            tags,
            self.dictionary,
            self.label_dictionary,
            self.cfg.max_positions,
            f"split {split} of {self.cfg.data}",
        )
        text = "%s: %d of %d sentences are longer than --max-positions %d and are split; %d windows"
        counts = dataset.num_long, len(tokens), self.cfg.max_positions, len(dataset)
        logger.info(text, split, *counts)
        return self.keep(split, dataset)

    def max_positions(self):
        return self.cfg.max_positions

    @property
    def source_dictionary(self):
        return self.dictionary

    @property
    def target_dictionary(self):
        return self.label_dictionary


class WindowedSentences(Samples):
    """Windows ``<s>`` tokens ``</s>`` of sentences; every word is predicted in one of them.

    A batch has ``net_input.word_starts``, bool (B, L), True = first token of a word that is
    predicted in this window, and, if the split has tags, ``target``, int64 (words), row by row.
    """

    columns = ("id", "sentence")

    def __init__(self, tokens, tags, source, labels, max_positions, name):
        super().__init__()
        self.tokens, self.tags, self.source = tokens, tags, source
        self.first_tag, self.no_word = labels.nspecial, labels.pad()
        room = max_positions - 2
        if room < 1:
            raise ValueError(
                f"--max-positions {max_positions} leaves no room for a token between <s> and </s>"
            )
        rows, self.has_tags, self.num_long = [], True, 0
        for sentence in range(len(tokens)):
            symbols = tags[sentence].numpy()[:-1]
            if len(symbols) != tokens.sizes[sentence] - 1:
                raise ValueError(
                    f"row {sentence + 1} of {name}: tokens and tags do not match; prepare it again"
                )
            self.has_tags &= labels.unk() not in symbols
            starts = np.flatnonzero(symbols != self.no_word)
            rows += [(sentence, *window) for window in windows(starts, len(symbols), room)]
            self.num_long += len(symbols) > room
        self.windows = np.array(rows, dtype=np.int64).reshape(-1, 5)
        self.sizes = self.windows[:, 2] - self.windows[:, 1] + 2

    def __getitem__(self, index):
        sentence, start, stop, first, last = self.windows[index].tolist()
        tokens, tags = self.tokens[sentence], self.tags[sentence][:-1]
        bos, eos = tokens.new_tensor([self.source.bos()]), tokens.new_tensor([self.source.eos()])
        word_starts = tags.ne(self.no_word).nonzero().flatten()[first:last]
        return {
            "id": index,
            "sentence": sentence,
            "net_input": torch.cat([bos, tokens[start:stop], eos]),
            "word_starts": word_starts - start + 1,
            "target": tags[word_starts] - self.first_tag,
        }

    def collater(self, samples):
        batch = super().collater(samples)
        if samples:
            word_starts = torch.zeros(batch["net_input"]["src_tokens"].shape, dtype=torch.bool)
            for row, sample in enumerate(samples):
                word_starts[row, sample["word_starts"]] = True
            batch["net_input"]["word_starts"] = word_starts
            if self.has_tags:
                batch["target"] = torch.cat([sample["target"] for sample in samples])
        return batch
