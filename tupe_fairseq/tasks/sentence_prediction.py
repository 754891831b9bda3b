"""Fine-tuning on texts and text pairs: classification, regression, multilabel."""

import logging
import os
from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

import numpy as np
import torch
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq.utils import safe_getattr
from omegaconf import II

from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.data.truncation import pair_lengths
from tupe_fairseq.kinds import kind_of_options, switches
from tupe_fairseq.kinds.base import is_number
from tupe_fairseq.labelled.task import labels_of
from tupe_fairseq.options import option, refuse_others
from tupe_fairseq.tasks._training import FineTuningTask, Samples

logger = logging.getLogger(__name__)

# sentence_prediction's options that have no effect here, each with the only value allowed
FIXED_OPTIONS = {
    "add_prev_output_tokens": False,
    "d2v2_multi": False,
    "init_token": 0,
    "separator_token": 2,
    "shorten_data_split_list": "",
    "shorten_method": "none",
}


KIND_HELP = "a kind of tasks that the --user-dir registers"


def class_names(label_dictionary) -> list[str]:
    """The labels in the order of the classes, without the symbols that fairseq adds."""
    return labels_of(label_dictionary.symbols[label_dictionary.nspecial :])


@dataclass
class GlueTaskConfig(SentencePredictionConfig):
    init_token: Optional[int] = option(0, "token at the start of each sequence, <s>")
    separator_token: Optional[int] = option(2, "token before the second text, </s>")
    multilabel: bool = option(False, "a row has any number of labels, or none")
    kind: Optional[str] = option(None, KIND_HELP)
    train_subset: str = II("dataset.train_subset")  # checkpoints of earlier versions have it


@register_task("glue_sentence_prediction", dataclass=GlueTaskConfig)
class GlueSentencePredictionTask(FineTuningTask, SentencePredictionTask):
    """fairseq's sentence_prediction, but it truncates to ``--max-positions``.

    The longer text of a pair is truncated first.

    Data: ``input0``, optionally ``input1``, and ``label`` with ``dict.txt`` (classes, labels) or
    ``SPLIT.label`` (scores).
    """

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        refuse_others(cfg, FIXED_OPTIONS, "glue_sentence_prediction")
        labels = os.path.join(cfg.data, "label", "dict.txt")
        # omegaconf 2.0 raises on a missing option
        options = {name: safe_getattr(cfg, name) for name in switches()}
        kind = kind_of_options({**options, "task": "glue_sentence_prediction"})
        if kind.has_labels != os.path.isfile(labels):
            problem = "is missing; for scores pass" if kind.has_labels else "exists; drop"
            raise ValueError(f"{labels} {problem} --regression-target")
        task = super().setup_task(cfg, **kwargs)
        names = class_names(task.label_dictionary) if kind.has_labels else []
        task.kind, task.labels = kind, names
        if cfg.num_classes != (len(names) or 1):
            raise ValueError(
                f"--num-classes ({cfg.num_classes}) must be {len(names) or 1} for the labels of "
                f"{cfg.data} ({', '.join(names) or 'scores'})"
            )
        return task

    def load_dataset(self, split, combine=False, **kwargs):
        cfg, keys = self.cfg, ["input0"]
        if os.path.isdir(os.path.join(cfg.data, "input1")):
            keys.append("input1")
        *texts, labels = self.columns(split, [*keys, "label"], combine)
        if not self.kind.has_labels:
            targets = read_scores(os.path.join(cfg.data, "label", f"{split}.label"), len(texts[0]))
        else:
            targets = None if labels is None else self._classes(split, labels)
        dataset = TruncatedRows(texts, targets, self.source_dictionary, cfg.max_positions)
        text = "%s: %d of %d rows are longer than --max-positions %d and are truncated"
        logger.info(text, split, dataset.num_long, len(dataset), cfg.max_positions)
        return self.keep(split, dataset)

    def _classes(self, split, labels):
        """The target of each row."""
        eos, first = self.label_dictionary.eos(), self.label_dictionary.nspecial
        targets = []
        for row, symbols in enumerate(labels, start=1):
            classes = [symbol - first for symbol in symbols.tolist() if symbol != eos]
            try:
                targets.append(self.kind.target(classes, self.cfg.num_classes))
            except ValueError as error:
                raise ValueError(f"row {row} of split {split} of {self.cfg.data} {error}") from None
        return targets


def read_scores(path: str, number: int) -> list[float] | None:
    """The score of each row; None if there is no such file."""
    if not os.path.exists(path):
        return None
    lines = list(map(str.strip, read_lines(path)))
    if len(lines) != number or not all(map(is_number, lines)):
        raise ValueError(f"{path} does not have {number} finite scores, one for each row")
    return list(map(float, lines))


class TruncatedRows(Samples):
    """Samples ``<s>`` text ``</s>``, or ``<s>`` text ``</s> </s>`` text ``</s>``.

    At most ``max_positions`` tokens are kept, see :func:`pair_lengths` for two texts; ``num_long``
    rows are cut.
    """

    def __init__(self, texts: list, targets, source, max_positions):
        super().__init__()
        self.texts, self.targets, self.source = texts, targets, source
        room = max_positions - 2 * len(texts)
        if room < 0:
            raise ValueError(f"--max-positions {max_positions} leaves no room for a token")
        lengths = [np.asarray(text.sizes) - 1 for text in texts]
        self.kept = pair_lengths(*lengths, room) if len(texts) == 2 else [lengths[0].clip(max=room)]
        self.sizes = sum(self.kept) + 2 * len(texts)
        self.num_long = int((sum(lengths) > room).sum())

    def __getitem__(self, index):
        parts = []
        for text, kept, start in zip(self.texts, self.kept, (0, 2)):  # <s>, </s>
            tokens = text[index]
            parts += [tokens.new_tensor([start]), tokens[: kept[index]], tokens[-1:]]
        sample = {"id": index, "net_input": torch.cat(parts)}
        if self.targets is not None:
            sample["target"] = self.targets[index]
        return sample
