"""Fine-tuning on texts or pairs of texts: classes, scores, or any number of labels a row."""

import logging
import math
import os
import re
from dataclasses import dataclass, field
from typing import Optional  # omegaconf 2.0 does not know `X | None`

import numpy as np
import torch
from fairseq.data import (
    BaseWrapperDataset,
    ConcatSentencesDataset,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    NumSamplesDataset,
    PrependTokenDataset,
    RawLabelDataset,
    RightPadDataset,
    data_utils,
)
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq.utils import safe_getattr
from omegaconf import II

from tupe_fairseq.data.task import CLASSIFICATION, MULTILABEL, REGRESSION, label_of
from tupe_fairseq.data.truncation import pair_lengths
from tupe_fairseq.options import refuse_others
from tupe_fairseq.tasks._training import FineTuningTask

logger = logging.getLogger(__name__)

# sentence_prediction's options that have no effect here, each with the only value allowed
FIXED_OPTIONS = {
    "add_prev_output_tokens": False,
    "d2v2_multi": False,
    "shorten_data_split_list": "",
    "shorten_method": "none",
}


def class_names(label_dictionary) -> list[str]:
    """The labels in the order of the classes, without what fairseq adds to a dictionary."""
    symbols = label_dictionary.symbols[label_dictionary.nspecial :]
    return [label_of(s) for s in symbols if s != "<mask>" and not re.fullmatch(r"madeupword\d+", s)]


def kind_of(cfg) -> str:
    """Multi-label, regression or classification, by the options of a task."""
    if safe_getattr(cfg, "multilabel", False):
        return MULTILABEL
    return REGRESSION if cfg.regression_target else CLASSIFICATION


@dataclass
class GlueTaskConfig(SentencePredictionConfig):
    init_token: Optional[int] = field(
        default=0, metadata={"help": "token at the start of each sequence, <s>"}
    )
    separator_token: Optional[int] = field(
        default=2, metadata={"help": "token before the second text, </s>"}
    )
    multilabel: bool = field(
        default=False, metadata={"help": "a row has any number of labels, also none"}
    )
    train_subset: str = II("dataset.train_subset")


@register_task("glue_sentence_prediction", dataclass=GlueTaskConfig)
class GlueSentencePredictionTask(FineTuningTask, SentencePredictionTask):
    """sentence_prediction that truncates to ``--max-positions``, a pair from its longer text first.

    Data: ``input0``, perhaps ``input1``, and ``label`` with ``dict.txt`` (classes, labels) or
    ``SPLIT.label`` (scores).
    """

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        refuse_others(cfg, FIXED_OPTIONS, "glue_sentence_prediction")
        if cfg.regression_target and cfg.multilabel:
            raise ValueError("--regression-target is for scores, --multilabel for labels; drop one")
        labels = os.path.join(cfg.data, "label")
        has_classes = os.path.isfile(os.path.join(labels, "dict.txt"))
        if cfg.regression_target and has_classes:
            raise ValueError(
                f"--regression-target is given, and {labels} has classes (dict.txt); drop the flag"
            )
        if not cfg.regression_target and not has_classes:
            raise FileNotFoundError(
                f"{labels}/dict.txt is missing; for scores pass --regression-target"
            )
        task = super().setup_task(cfg, **kwargs)
        names = [] if cfg.regression_target else class_names(task.label_dictionary)
        if cfg.num_classes != (len(names) or 1):
            raise ValueError(
                f"--num-classes ({cfg.num_classes}) must be {len(names) or 1} for the labels of "
                f"{cfg.data} ({', '.join(names) or 'scores'})"
            )
        second = os.path.join(cfg.data, "input1", "dict.txt")
        if os.path.exists(second) and cls.load_dictionary(second) != task.dictionary:
            raise ValueError(
                f"{second} is not the dictionary of input0; prepare both with the same one"
            )
        return task

    def load_dataset(self, split, combine=False, **kwargs):
        cfg = self.cfg
        keys = [f"input{n}" for n in range(self._most_texts())]
        keys = [key for key in keys if os.path.isdir(os.path.join(cfg.data, key))]
        texts = [self._load(key, split, combine) for key in keys]
        targets = self._load_targets(split, combine)
        rows = {len(column) for column in (*texts, targets) if column is not None}
        if None in texts or len(rows) > 1:
            raise ValueError(
                f"split {split} of {cfg.data} is missing or has missing rows; prepare it again"
            )
        samples = [self._samples(part, split) for part in self._parts(texts)]
        dataset = {
            "id": IdDataset(),
            "nsentences": NumSamplesDataset(),
            "ntokens": NumelDataset(samples[0], reduce=True),
        }
        for name, tokens in zip(self._inputs(), samples):
            dataset[name] = {
                "src_tokens": RightPadDataset(tokens, pad_idx=self.source_dictionary.pad()),
                "src_lengths": NumelDataset(tokens, reduce=False),
            }
        if targets is not None:
            dataset["target"] = RawLabelDataset(targets)
        sizes = np.maximum.reduce([np.asarray(tokens.sizes) for tokens in samples])
        self.datasets[split] = self.shuffled(NestedDictionaryDataset(dataset, sizes=[sizes]))
        return self.datasets[split]

    def _most_texts(self):
        return 2

    def _parts(self, texts):
        """The text or the texts of each sample of a row."""
        return [texts]

    def _inputs(self):
        return ["net_input"]

    def _samples(self, texts, split):
        cfg = self.cfg
        starts = [cfg.init_token, cfg.separator_token][: len(texts)]
        room = cfg.max_positions - sum(token is not None for token in starts)
        texts, num_long = truncate(texts, room)
        logger.info(
            "%s: %d of %d rows are longer than --max-positions %d and are truncated",
            split,
            num_long,
            len(texts[0]),
            cfg.max_positions,
        )
        texts = [PrependTokenDataset(text, start) for text, start in zip(texts, starts)]
        return texts[0] if len(texts) == 1 else ConcatSentencesDataset(*texts)

    def _load(self, key, split, combine):
        dictionary = self.label_dictionary if key == "label" else self.source_dictionary
        path = os.path.join(self.cfg.data, key, split)
        return data_utils.load_indexed_dataset(path, dictionary, combine=combine)

    def _load_targets(self, split, combine):
        """A list of class ids, of lists of bool, or of [score]; None for a split without labels."""
        cfg = self.cfg
        if cfg.regression_target:
            return read_scores(os.path.join(cfg.data, "label", f"{split}.label"))
        labels = self._load("label", split, combine)
        if labels is None:
            return None
        eos, first = self.label_dictionary.eos(), self.label_dictionary.nspecial
        targets = []
        for row, symbols in enumerate(labels, start=1):
            classes = [symbol - first for symbol in symbols.tolist() if symbol != eos]
            if not all(0 <= one < cfg.num_classes for one in classes):
                raise ValueError(
                    f"row {row} of split {split} of {cfg.data} has a label that dict.txt does not "
                    "list"
                )
            if not cfg.multilabel and len(classes) != 1:
                raise ValueError(
                    f"row {row} of split {split} of {cfg.data} has {len(classes)} labels; pass "
                    "--multilabel if rows may have any number"
                )
            has_label = [one in classes for one in range(cfg.num_classes)]
            targets.append(has_label if cfg.multilabel else classes[0])
        return targets


def read_scores(path: str) -> list[list[float]] | None:
    """The score of each line, [[score], ...]; None if there is no such file."""
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
                raise ValueError(f"line {number} of {path} is {line.strip()!r}, which is no score")
    return scores


class TruncatedDataset(BaseWrapperDataset):
    """Texts cut to the given sizes; each keeps its first tokens and its last one, ``</s>``."""

    def __init__(self, dataset, sizes: np.ndarray):
        super().__init__(dataset)
        self._sizes = sizes

    def __getitem__(self, index):
        item, size = self.dataset[index], self._sizes[index]
        return item if len(item) <= size else torch.cat([item[: size - 1], item[-1:]])

    @property
    def sizes(self):
        return self._sizes

    def num_tokens(self, index):
        return self._sizes[index]

    size = num_tokens


def truncate(texts: list, limit: int) -> tuple[list, int]:
    """Cut the one or two texts of each row to ``limit`` tokens together, from the longer one first.

    Returns the texts, and how many rows were cut.
    """
    room = limit - len(texts)  # without the </s> of each
    if room < 0:
        raise ValueError(f"--max-positions leaves {limit} tokens for {len(texts)} texts; raise it")
    lengths = [np.asarray(text.sizes) - 1 for text in texts]
    kept = pair_lengths(*lengths, room) if len(texts) == 2 else [np.minimum(lengths[0], room)]
    num_long = int((sum(lengths) > room).sum())
    return [TruncatedDataset(text, n + 1) for text, n in zip(texts, kept)], num_long
