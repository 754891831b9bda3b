"""What our tasks for labelled data share: the setup, and batches of samples."""

import contextlib
import itertools
import logging
import os

import numpy as np
import torch
from fairseq.data import Dictionary, SortDataset, data_utils
from fairseq.utils import safe_getattr
from omegaconf import OmegaConf, open_dict

from tupe_fairseq.data.dictionary import DICTIONARY, MASK
from tupe_fairseq.kinds import kind_of_options, switches
from tupe_fairseq.labelled.task import read_labels
from tupe_fairseq.labelled.task_folder import read_texts
from tupe_fairseq.tasks._training import Samples, TrainingTask

logger = logging.getLogger(__name__)

KIND_HELP = "a kind of tasks that the --user-dir registers"


class LabelledTask(TrainingTask):
    """A task of a kind, with its labels; a row becomes samples as in predictions.

    Data: ``input0``, optionally ``input1``, and ``label`` with ``dict.txt`` or ``SPLIT.label``
    (scores).
    """

    task_name = ""  # as registered

    def __init__(self, cfg, dictionary, kind, labels):
        super().__init__(cfg)
        self.dictionary, self.kind, self.labels = dictionary, kind, labels

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        # omegaconf 2.0 raises on a missing option
        options = {name: safe_getattr(cfg, name) for name in switches()}
        kind = kind_of_options({**options, "task": cls.task_name})
        path = os.path.join(cfg.data, "label", DICTIONARY)
        if kind.has_labels != os.path.isfile(path):
            problem = "is missing; for scores pass" if kind.has_labels else "exists; drop"
            raise ValueError(f"{path} {problem} --regression-target")
        labels = read_labels(path) if kind.has_labels else []
        outputs = len(labels) or 1
        if cfg.num_classes not in (-1, outputs):
            raise ValueError(
                f"--num-classes ({cfg.num_classes}) must be {outputs} for the labels of {cfg.data} "
                f"({', '.join(labels) or 'scores'})"
            )
        cfg.num_classes = outputs
        dictionary = Dictionary.load(os.path.join(cfg.data, "input0", DICTIONARY))
        dictionary.add_symbol(MASK)
        task = cls(cfg, dictionary, kind, labels)
        # as in fairseq's sentence_prediction, for programs that read the labels from it
        task.label_dictionary = Dictionary.load(path) if kind.has_labels else dictionary
        return task

    def build_model(self, cfg, from_checkpoint=False):
        own, pooling = (safe_getattr(cfg, name) for name in ("max_positions", "pooling"))
        if own not in (None, self.cfg.max_positions):
            raise ValueError(
                f"model.max_positions ({own}) must be task.max_positions "
                f"({self.cfg.max_positions}); set both to the checkpoint's"
            )
        if self.kind.of_words and pooling not in (None, "cls"):
            raise ValueError(
                f"--pooling {pooling} makes one vector for a text, but this task needs one for "
                "each word; drop it"
            )
        with open_dict(cfg) if OmegaConf.is_config(cfg) else contextlib.nullcontext():
            cfg.max_positions = self.cfg.max_positions
        model = super().build_model(cfg, from_checkpoint)
        of_words, of_texts = model.register_tagging_head, model.register_classification_head
        add_head = of_words if self.kind.of_words else of_texts
        add_head(self.cfg.classification_head_name, num_classes=self.cfg.num_classes)
        return model

    def begin_training(self, cfg):
        for split, dataset in self.datasets.items():
            if len(dataset) and "target" not in dataset.collater([dataset[0]]):
                raise ValueError(
                    f"split {split} of {self.cfg.data} has no labels; drop it from --valid-subset"
                )
        super().begin_training(cfg)

    def load_dataset(self, split, combine=False, **kwargs):
        """Load a split, and with ``combine`` also SPLIT1, SPLIT2 and so on.

        It is shuffled with the seed unless ``--no-shuffle`` is given.
        """
        cfg, parts = self.cfg, [split]
        while combine and os.path.exists(f"{cfg.data}/input0/{split}{len(parts)}.idx"):
            parts.append(f"{split}{len(parts)}")
        labels = [os.path.join(cfg.data, "label", part) for part in parts]
        try:
            texts = [read_texts(cfg.data, part, self.kind.of_words) for part in parts]
            targets = [self.kind.read_targets(path, cfg.num_classes) for path in labels]
            is_known = all(part is not None for part in targets)
            targets = [*itertools.chain(*targets)] if is_known else None
            rows = itertools.chain(*texts), targets
            dataset = LabelledRows(self.kind, cfg.max_positions, *rows, self.dictionary)
        except ValueError as error:
            raise ValueError(f"split {split} of {cfg.data}: {error}") from None
        text = "%s: %d of %d rows are longer than --max-positions %d; %d samples"
        counts = dataset.num_long, dataset.num_rows, cfg.max_positions, len(dataset)
        logger.info(text, split, *counts)
        if not cfg.no_shuffle:
            with data_utils.numpy_seed(cfg.seed):
                order = np.random.permutation(len(dataset))
            dataset = SortDataset(dataset, sort_order=[order])
        self.datasets[split] = dataset
        return dataset

    def max_positions(self):
        return self.cfg.max_positions

    @property
    def source_dictionary(self):
        return self.dictionary

    @property
    def target_dictionary(self):
        return self.dictionary


class LabelledRows(Samples):
    """The samples of labelled rows.

    A batch also has ``row``, the number of each sample's row; for words ``net_input.word_starts``,
    bool (B, L), True = first token of a word that is predicted in this sample; and if labels are
    known, ``target``: (B, ...), or for words int64 (words), sample by sample.
    """

    def __init__(self, kind, max_positions, texts, targets, source):
        super().__init__()
        self.of_words, self.targets, self.source = kind.of_words, targets, source
        self.samples, self.num_rows, self.num_long = [], 0, 0
        for row, texts_of_row in enumerate(texts):
            samples = kind.samples(texts_of_row, max_positions)
            # arrays take less memory
            arrays = (x._replace(tokens=np.array(x.tokens, np.int32)) for x in samples)
            self.samples += ((row, sample) for sample in arrays)
            self.num_rows += 1
            self.num_long += not all(sample.is_whole for sample in samples)
        if targets is not None and len(targets) != self.num_rows:
            raise ValueError(f"{self.num_rows} rows, but {len(targets)} labels; prepare it again")
        self.sizes = np.array([len(sample.tokens) for _, sample in self.samples], np.int64)

    def __getitem__(self, index):
        row, (tokens, _, starts, first) = self.samples[index]
        target = None if self.targets is None else self.targets[row]
        if self.of_words and target is not None:
            target = target[first : first + len(starts)]
        tokens = torch.from_numpy(tokens).long()
        return {"id": index, "row": row, "net_input": tokens, "starts": starts, "target": target}

    def collater(self, samples):
        batch = super().collater(samples)
        if not samples:
            return batch
        batch["row"] = torch.tensor([sample["row"] for sample in samples])
        if self.of_words:
            word_starts = torch.zeros(batch["net_input"]["src_tokens"].shape, dtype=torch.bool)
            for place, sample in enumerate(samples):
                word_starts[place, sample["starts"]] = True
            batch["net_input"]["word_starts"] = word_starts
        if self.targets is not None:
            targets = [sample["target"] for sample in samples]
            targets = np.concatenate(targets) if self.of_words else np.array(targets)
            batch["target"] = torch.tensor(targets.tolist())
        return batch
