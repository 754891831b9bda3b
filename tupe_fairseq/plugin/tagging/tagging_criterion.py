"""Cross-entropy of the tags of words, with metrics over the sentences of the validation set."""

import math
from dataclasses import dataclass, field
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from tupe_fairseq.checkpoint.checked_tensors import TAGGING_HEAD
from tupe_fairseq.labelled.task_description import TAGGING
from tupe_fairseq.plugin.glue.loss_flags import (
    METRICS_HELP,
    WEIGHTS_HELP,
    parse_metrics,
    parse_weights,
)
from tupe_fairseq.plugin.glue.rows_meter import SentencesMeter, log_noted_rows, note_rows


@dataclass
class TokenTaggingCriterionConfig(FairseqDataclass):
    classification_head_name: str = field(
        default=TAGGING_HEAD, metadata={"help": "name of the head to use"}
    )
    metrics: str = field(
        default="accuracy",
        metadata={"help": METRICS_HELP.replace("accuracy,macro_f1", "entity_f1,accuracy")},
    )
    class_weights: Optional[str] = field(default=None, metadata={"help": WEIGHTS_HELP})


@register_criterion("token_tagging", dataclass=TokenTaggingCriterionConfig)
class TokenTaggingCriterion(FairseqCriterion):
    """Cross-entropy of each word's tag, averaged over the words; their number is the sample size.

    With ``--class-weights`` the loss of a word is multiplied by the weight of its tag; it is
    divided by the number of words all the same.  Training logs loss and accuracy.  Validation logs
    the metrics of ``--metrics``, and the accuracy, as unrounded percentages, over whole sentences.

    Args:
        cfg (TokenTaggingCriterionConfig): the options.
        task (TokenTaggingTask): the task.
    Raises:
        ValueError: if a metric or the class weights are not for the task.
    """

    def __init__(self, cfg, task):
        super().__init__(task)
        self.head = cfg.classification_head_name
        self.tags = task.tags
        names = parse_metrics(cfg.metrics, TAGGING, self.tags)
        self.metric_names = list(dict.fromkeys([*names, "accuracy"]))
        self.class_weights = parse_weights(cfg.class_weights, self.tags)

    def forward(self, model, sample, reduce=True):
        """The summed loss of a batch, its number of words, and what is to be logged.

        Raises:
            ValueError: if the batch has no targets.
        """
        if "target" not in sample:
            raise ValueError("the split has no tags; predict on it instead of validating")
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.head
        )
        targets = model.get_targets(sample, [logits])
        words = len(targets)
        weights = None if self.class_weights is None else self.class_weights.to(logits.device)
        lprobs = F.log_softmax(logits, dim=-1, dtype=torch.float32)
        loss = F.nll_loss(lprobs, targets, weights, reduction="sum")
        predictions = logits.argmax(dim=1)
        logging_output = {
            "loss": loss.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": words,
        }
        if self.training:
            logging_output["hits"] = (predictions == targets).sum()
        else:
            counts = sample["net_input"]["word_starts"].sum(1).tolist()
            ids = list(zip(sample["sentence"].tolist(), sample["id"].tolist()))
            rows = [ids, *(self._named(side, counts) for side in (predictions, targets))]
            note_rows(logging_output, self.metric_names, rows, SentencesMeter)
        return loss, words, logging_output

    def _named(self, classes, counts):
        """The tags of each row, as users spell them."""
        return [
            [self.tags[one] for one in row]
            for row in map(torch.Tensor.tolist, classes.split(counts))
        ]

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Log a batch that is spread over all workers."""
        words = sum(log.get("sample_size", 0) for log in logging_outputs)
        loss = sum(log.get("loss", 0) for log in logging_outputs)
        metrics.log_scalar("loss", loss / words / math.log(2), words, round=3)
        log_noted_rows(logging_outputs)
        if any("hits" in log for log in logging_outputs):
            hits = sum(log.get("hits", 0) for log in logging_outputs)
            metrics.log_scalar("accuracy", 100.0 * hits / words, words, round=1)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
