"""The fairseq task of tagging words."""

import logging
import os
from dataclasses import dataclass, field

import numpy as np
from fairseq.data import Dictionary, SortDataset, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from fairseq.utils import safe_getattr
from omegaconf import II, MISSING

from tupe_fairseq.files.names import CLS, DICTIONARY, MASK
from tupe_fairseq.plugin.glue.fine_tuning_task import FineTuningTask
from tupe_fairseq.plugin.glue.task import class_names
from tupe_fairseq.plugin.tagging.windowed_sentences import WindowedSentences

logger = logging.getLogger(__name__)


@dataclass
class TokenTaggingConfig(FairseqDataclass):
    data: str = field(default=MISSING, metadata={"help": "path to data directory"})
    num_classes: int = field(
        default=-1, metadata={"help": "number of tags; default: those that label/dict.txt lists"}
    )
    max_positions: int = field(
        default=512,
        metadata={"help": "max tokens per example; longer sentences are split, with overlap"},
    )
    no_shuffle: bool = field(default=False, metadata={"help": "keep the order of the sentences"})
    classification_head_name: str = II("criterion.classification_head_name")
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")


@register_task("token_tagging", dataclass=TokenTaggingConfig)
class TokenTaggingTask(FineTuningTask):
    """A tag for each word of a sentence.

    Reads input0/SPLIT, the pieces of the words, and label/SPLIT, a symbol for each piece, as
    :class:`WindowedSentences` says.  What is longer than ``--max-positions`` is split into windows;
    each word is trained on and predicted in exactly one.
    """

    def __init__(self, cfg, dictionary, label_dictionary):
        super().__init__(cfg)
        self.dictionary, self.label_dictionary = dictionary, label_dictionary
        #: the tags as users spell them, in the order of the head's outputs
        self.tags = class_names(label_dictionary)

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        """Load the dictionaries.

        Raises:
            FileNotFoundError: if the folder has none of the words or of the tags.
            ValueError: if ``--num-classes`` is not the number of tags.
        """
        paths = [os.path.join(cfg.data, key, DICTIONARY) for key in ("input0", "label")]
        for path in paths:
            if not os.path.exists(path):
                raise FileNotFoundError(f"there is no {path}; make the folder first")
        dictionary, label_dictionary = map(Dictionary.load, paths)
        dictionary.add_symbol(MASK)
        task = cls(cfg, dictionary, label_dictionary)
        if cfg.num_classes not in (-1, len(task.tags)):
            raise ValueError(
                f"--num-classes is {cfg.num_classes}; the tags in {cfg.data} are "
                f"{len(task.tags)} ({', '.join(task.tags)})"
            )
        cfg.num_classes = len(task.tags)  # so that checkpoints record it
        return task

    def build_model(self, cfg, from_checkpoint=False):
        """With a head for the tags.

        Raises:
            ValueError: if model.max_positions is set and not the task's.
            ValueError: if a pooling is given.
        """
        pooling = safe_getattr(cfg, "pooling", CLS)
        if pooling != CLS:
            raise ValueError(
                f"--pooling {pooling} makes one vector of a text, and token_tagging has a tag for "
                "each word; drop it"
            )
        model = super().build_model(cfg, from_checkpoint)
        model.register_tagging_head(self.cfg.classification_head_name, len(self.tags))
        return model

    def load_dataset(self, split, combine=False, **kwargs):
        """Load a split; if all its tags are ``<unk>``, it has no targets.

        Raises:
            FileNotFoundError: if the pieces or the tags are missing.
            ValueError: as :class:`WindowedSentences`.
        """
        parts = []
        for key, dictionary in (("input0", self.dictionary), ("label", self.label_dictionary)):
            path = os.path.join(self.cfg.data, key, split)
            parts.append(data_utils.load_indexed_dataset(path, dictionary, combine=combine))
            if parts[-1] is None:
                why = "" if key == "input0" else ", which says where words begin"
                raise FileNotFoundError(f"{path}.bin is missing{why}; prepare the folder again")
        dataset = WindowedSentences(
            *parts, self.dictionary, self.label_dictionary, len(self.tags), self.cfg.max_positions,
            f"split {split} of {self.cfg.data}",
        )  # fmt: skip
        logger.info(
            "%s: %d of %d sentences are longer than --max-positions %d and are split, which makes "
            "%d windows", split, dataset.num_long, len(parts[0]), self.cfg.max_positions,
            len(dataset),
        )  # fmt: skip
        if not self.cfg.no_shuffle:
            with data_utils.numpy_seed(self.cfg.seed):
                dataset = SortDataset(dataset, sort_order=[np.random.permutation(len(dataset))])
        self.datasets[split] = dataset
        return dataset

    def max_positions(self):
        return self.cfg.max_positions

    @property
    def source_dictionary(self):
        return self.dictionary

    @property
    def target_dictionary(self):
        return self.label_dictionary
