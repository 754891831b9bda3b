"""Fine-tuning for extractive question answering; long texts are split into windows."""

import json
import logging
import os
from dataclasses import dataclass

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.tasks import register_task

from tupe_fairseq.data.questions import question_windows
from tupe_fairseq.options import option
from tupe_fairseq.tasks._training import FineTuningTask, Samples
from tupe_fairseq.tasks.tagging import TokenTaggingConfig, TokenTaggingTask

logger = logging.getLogger(__name__)


@dataclass
class QuestionAnsweringConfig(TokenTaggingConfig):
    num_classes: int = option(2, "begin and end; always 2")
    stride: int = option(128, "tokens that two windows share")
    may_lack: bool = option(False, "some questions have no answer")


@register_task("question_answering", dataclass=QuestionAnsweringConfig)
class QuestionAnsweringTask(TokenTaggingTask):
    """Predicts the first and the last token of an answer; ``<s>`` for both if there is none.

    Data: ``input0`` has questions, ``input1`` texts, ``label`` the first and the last token of each
    correct answer in the text; the first answer is trained. For the metrics, ``SPLIT.answers`` has
    the text, the characters of its tokens, and all correct answers.
    """

    def __init__(self, cfg, dictionary):
        FineTuningTask.__init__(self, cfg)
        self.dictionary, self.label_dictionary, self.tags = dictionary, None, ("begin", "end")

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        dictionary = Dictionary.load(os.path.join(cfg.data, "input0", "dict.txt"))
        dictionary.add_symbol("<mask>")
        if cfg.num_classes != 2:
            raise ValueError(f"--num-classes ({cfg.num_classes}) must be 2, for begin and end")
        return cls(cfg, dictionary)

    def load_dataset(self, split, combine=False, **kwargs):
        columns = self.columns(split, ("input0", "input1", "label"), combine)
        path, answers = os.path.join(self.cfg.data, f"{split}.answers"), None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                answers = [json.loads(line) for line in file]
        dataset = WindowedQuestions(
            *columns, answers, self.dictionary, self.cfg.max_positions, self.cfg.stride
        )
        text = "%s: %d windows of %d questions; %d questions are cut to half of --max-positions %d"
        counts = len(dataset), len(columns[0]), dataset.num_cut, self.cfg.max_positions
        logger.info(text, split, *counts)
        return self.keep(split, dataset)


class WindowedQuestions(Samples):
    """Samples ``<s>`` question ``</s> </s>`` window ``</s>``.

    A batch has ``target``, int64 (B, 2), the indices of the answer's first and last token, or 0 if
    the window does not contain all of it. For each sample it has the ``row``, the index ``text`` of
    the window in the sample, its index ``start`` in the text, and the line of ``SPLIT.answers``.
    """

    columns = ("id", "row", "text", "start", "target")

    def __init__(self, questions, contexts, labels, answers, source, max_positions, stride):
        super().__init__()
        self.questions, self.contexts, self.labels = questions, contexts, labels
        self.answers, self.source = answers, source
        lengths = [(np.asarray(x.sizes) - 1).tolist() for x in (questions, contexts)]
        rows, self.num_cut = [], 0
        for row, (question, context) in enumerate(zip(*lengths)):
            kept, windows = question_windows(question, context, max_positions, stride)
            self.num_cut += kept < question
            rows += [(row, kept, *window) for window in windows]
        self.windows = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self.sizes = self.windows[:, 1] + self.windows[:, 3] - self.windows[:, 2] + 4

    def __getitem__(self, index):
        row, kept, start, stop = self.windows[index].tolist()
        question, context = self.questions[row][:kept], self.contexts[row][start:stop]
        bos, eos = (question.new_tensor([x]) for x in (self.source.bos(), self.source.eos()))
        sample = {
            "id": index,
            "row": row,
            "net_input": torch.cat([bos, question, eos, eos, context, eos]),
            "text": kept + 3,
            "start": start,
        }
        if self.labels is not None:
            first, last, *_ = [*self.labels[row][:-1].tolist(), -1, -1]
            is_inside = start <= first and last < stop
            shift = kept + 3 - start
            sample["target"] = [first + shift, last + shift] if is_inside else [0, 0]
        return sample

    def collater(self, samples):
        batch = super().collater(samples)
        if samples and self.answers is not None:
            batch["answers"] = [self.answers[sample["row"]] for sample in samples]
        return batch
