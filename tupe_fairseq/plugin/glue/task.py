"""fairseq's sentence_prediction task: truncates pairs, has labels, and refuses wrong settings."""

import logging
import math
import os
import re
from dataclasses import dataclass, field
from typing import List, Optional

import numpy as np
from fairseq.data import (
    ConcatSentencesDataset,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    NumSamplesDataset,
    PrependTokenDataset,
    RawLabelDataset,
    RightPadDataset,
    SortDataset,
    data_utils,
)
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq.utils import safe_getattr
from omegaconf import II

from tupe_fairseq.files.names import DICTIONARY, MASK
from tupe_fairseq.labelled.labels import label_of
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION
from tupe_fairseq.plugin.glue.fine_tuning_task import FineTuningTask
from tupe_fairseq.plugin.glue.truncate_pair import shorten

logger = logging.getLogger(__name__)

# sentence_prediction's options that have no effect here, each with the only value allowed
FIXED_OPTIONS = {
    "add_prev_output_tokens": False,
    "d2v2_multi": False,
    "shorten_data_split_list": "",
    "shorten_method": "none",
}


@dataclass
class GlueTaskConfig(SentencePredictionConfig):
    init_token: Optional[int] = field(
        default=0, metadata={"help": "token at the beginning of each sequence, <s>"}
    )
    separator_token: Optional[int] = field(
        default=2, metadata={"help": "token before the second sentence, </s>"}
    )
    multilabel: bool = field(
        default=False,
        metadata={"help": "a row has any number of the labels, also none, instead of one"},
    )
    train_subset: str = II("dataset.train_subset")


def class_names(label_dictionary) -> List[str]:
    """The labels in the order of the classes, without the symbols that fairseq adds."""
    names = label_dictionary.symbols[label_dictionary.nspecial :]
    found = [name for name in names if name != MASK and not re.match(r"madeupword\d+$", name)]
    return list(map(label_of, found))


def kind_of(cfg) -> str:
    """The kind of task that glue_sentence_prediction's or sentence_prediction's options say."""
    if safe_getattr(cfg, "multilabel", False):
        return MULTILABEL
    return REGRESSION if cfg.regression_target else CLASSIFICATION


@register_task("glue_sentence_prediction", dataclass=GlueTaskConfig)
class GlueSentencePredictionTask(FineTuningTask, SentencePredictionTask):
    """Classification of, regression on, or labels of a sentence or a pair of sentences.

    Reads the folders that sentence_prediction reads.  A row that is longer than
    ``--max-positions`` loses words from the end of its longer sentence, one by one.  With
    ``--multilabel`` the targets are bool (N, C).
    """

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        """Load the dictionaries.

        Raises:
            ValueError: if an option of ``FIXED_OPTIONS`` has another value.
            ValueError: if ``--regression-target`` or ``--num-classes`` does not fit the labels, or
                ``--multilabel`` was given, too.
            ValueError: if the two sentences have different dictionaries.
            FileNotFoundError: if the folder has no labels' dictionary.
        """
        for name, only in FIXED_OPTIONS.items():
            value = safe_getattr(cfg, name, only)
            if value != only:
                raise ValueError(
                    f"--{name.replace('_', '-')} ({value}) has no effect on "
                    "glue_sentence_prediction, which truncates to --max-positions "
                    "itself; drop it"
                )
        if cfg.regression_target and safe_getattr(cfg, "multilabel", False):
            raise ValueError("--regression-target has scores and --multilabel labels; drop one")
        _check_kind_of_labels(cfg)
        task = super().setup_task(cfg, **kwargs)
        classes = [] if cfg.regression_target else class_names(task.label_dictionary)
        if cfg.num_classes != (len(classes) or 1):
            raise ValueError(
                f"--num-classes is {cfg.num_classes}; the labels in {cfg.data} need "
                f"{len(classes) or 1} ({', '.join(classes) or 'a score each'})"
            )
        second = os.path.join(cfg.data, "input1", DICTIONARY)
        if os.path.exists(second) and cls.load_dictionary(second) != task.dictionary:
            raise ValueError(
                f"{second} is not the dictionary of input0; make both with the same --srcdict"
            )
        return task

    def load_dataset(self, split, combine=False, **kwargs):
        """Load a split; without labels it has no targets.

        Raises:
            FileNotFoundError: if the sentences are missing.
            ValueError: if sentences and labels differ in number, or a label is unknown.
        """
        keys = ["input0"]
        if os.path.isdir(os.path.join(self.cfg.data, "input1")):
            keys.append("input1")
        inputs = [self._load(key, split, combine) for key in keys]
        targets = self._load_targets(split, combine)
        rows = {key: len(dataset) for key, dataset in zip(keys, inputs)}
        if targets is not None:
            rows["label"] = len(targets)
        if len(set(rows.values())) > 1:
            counts = ", ".join(f"{n} in {key}" for key, n in rows.items())
            raise ValueError(
                f"split {split} of {self.cfg.data} has missing rows: {counts}; prepare it again"
            )

        src_tokens = self._joined(inputs, split)
        dataset = {
            "id": IdDataset(),
            "net_input": {
                "src_tokens": RightPadDataset(src_tokens, pad_idx=self.source_dictionary.pad()),
                "src_lengths": NumelDataset(src_tokens, reduce=False),
            },
            "nsentences": NumSamplesDataset(),
            "ntokens": NumelDataset(src_tokens, reduce=True),
        }
        if targets is not None:
            dataset["target"] = RawLabelDataset(targets)
        dataset = NestedDictionaryDataset(dataset, sizes=[src_tokens.sizes])
        if not self.cfg.no_shuffle:
            with data_utils.numpy_seed(self.cfg.seed):
                dataset = SortDataset(dataset, sort_order=[np.random.permutation(len(dataset))])
        self.datasets[split] = dataset
        return dataset

    def _load(self, key, split, combine):
        path = os.path.join(self.cfg.data, key, split)
        dictionary = self.label_dictionary if key == "label" else self.source_dictionary
        dataset = data_utils.load_indexed_dataset(path, dictionary, combine=combine)
        if dataset is None and key != "label":
            raise FileNotFoundError(f"{path}.bin is missing; the folder has no split {split}")
        return dataset

    def _load_targets(self, split, combine):
        if self.cfg.regression_target:
            return _read_scores(os.path.join(self.cfg.data, "label", f"{split}.label"))
        labels = self._load("label", split, combine)
        if labels is None:
            return None
        eos, first = self.label_dictionary.eos(), self.label_dictionary.nspecial
        targets = []
        for row, symbols in enumerate(labels, start=1):
            classes = [symbol - first for symbol in symbols.tolist() if symbol != eos]
            if not all(0 <= one < self.cfg.num_classes for one in classes):
                raise ValueError(
                    f"row {row} of split {split} has a label that is not one of "
                    f"{', '.join(class_names(self.label_dictionary))}; prepare {self.cfg.data} "
                    "again"
                )
            if self.cfg.multilabel:
                targets.append([one in classes for one in range(self.cfg.num_classes)])
            elif len(classes) == 1:
                targets.append(classes[0])
            else:
                raise ValueError(
                    f"row {row} of split {split} of {self.cfg.data} has {len(classes)} labels, not "
                    "one; pass --multilabel if rows may have any number"
                )
        return targets

    def _joined(self, inputs, split):
        """The sequences: <s> first </s> </s> second </s>, shortened."""
        before = [self.cfg.init_token, self.cfg.separator_token][: len(inputs)]
        limit = self.cfg.max_positions - sum(token is not None for token in before)
        inputs, too_long = shorten(inputs, limit)
        logger.info(
            "%s: %d of %d sequences are longer than --max-positions %d and are truncated",
            split,
            too_long.sum(),
            len(too_long),
            self.cfg.max_positions,
        )
        inputs = [PrependTokenDataset(*pair) for pair in zip(inputs, before)]
        return inputs[0] if len(inputs) == 1 else ConcatSentencesDataset(*inputs)


def _check_kind_of_labels(cfg):
    folder = os.path.join(cfg.data, "label")
    has_classes = os.path.exists(os.path.join(folder, DICTIONARY))
    if cfg.regression_target and has_classes:
        raise ValueError(
            f"--regression-target was given, but {folder} holds classes (dict.txt); drop the flag"
        )
    if not cfg.regression_target and not has_classes:
        if os.path.exists(os.path.join(folder, "train.label")):
            raise ValueError(
                f"{folder} holds scores (train.label), not classes; pass --regression-target and "
                "--num-classes 1"
            )
        raise FileNotFoundError(f"there is no {folder}/dict.txt; make the folder first")


def _read_scores(path):
    if not os.path.exists(path):
        return None
    scores = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                scores.append([float(line)])
            except ValueError:
                scores.append([math.nan])
            if not math.isfinite(scores[-1][0]):
                raise ValueError(
                    f"line {number} of {path} is {line.strip()!r}, which is not a score"
                )
    return scores
