"""Loss and metrics of question_answering."""

import functools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from tupe_fairseq.criterions.whole_set import METRICS_HELP, WholeSetCriterion
from tupe_fairseq.data.questions import best_of_windows, best_span
from tupe_fairseq.options import option


@dataclass
class QuestionAnsweringCriterionConfig(FairseqDataclass):
    classification_head_name: str = option("question_answering_head", "name of the head")
    metrics: str = option("exact_match,answer_f1", METRICS_HELP.format("exact_match,answer_f1"))


@register_criterion("question_answering", dataclass=QuestionAnsweringCriterionConfig)
class QuestionAnsweringCriterion(WholeSetCriterion):
    """Mean cross-entropy of the answer's begin and its end, over ``<s>`` and the window's tokens.

    ``sample_size`` is the number of windows; metrics are computed on whole texts.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task, cfg.metrics, "qa", [])
        self.may_lack = task.cfg.may_lack

    def forward(self, model, sample, reduce=True):
        logits = self.logits(model, sample)
        lengths = sample["net_input"]["src_lengths"]
        places = torch.arange(logits.size(1), device=logits.device)
        is_text = (places >= sample["text"][:, None]) & (places < lengths[:, None] - 1)
        hidden = ~(is_text | (places == 0))[:, :, None]
        logits = logits.masked_fill(hidden, -math.inf)
        loss = F.cross_entropy(logits, sample["target"], reduction="sum") / 2
        windows = len(logits)
        output = self.logged(sample, loss, windows)
        if not self.training:
            names = ("row", "id", "text", "start")
            rows = list(zip(*(sample[name].tolist() for name in names)))
            spans = [
                best_span(x[:length].cpu().numpy(), text, start)
                for x, length, (_, _, text, start) in zip(logits, lengths.tolist(), rows)
            ]
            join = functools.partial(join_windows, self.may_lack)
            ids = [row[:2] for row in rows]
            self.log_rows(output, ids, spans, sample["answers"], join)
        return loss, windows, output


def join_windows(may_lack, spans, answers):
    """The predicted answer, from all windows of a text, and the correct answers."""
    best, about = best_of_windows(spans, may_lack), answers[0]
    if best is None:
        return "", tuple(about["answers"])
    (begin, _), (_, end) = (about["spans"][place] for place in (best.first, best.last))
    return about["context"][begin:end], tuple(about["answers"])
