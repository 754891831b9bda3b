"""Loss and metrics of token_tagging."""

import math
from dataclasses import dataclass, field
from typing import Optional  # omegaconf 2.0 does not know `X | None`

import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from tupe_fairseq.criterions.whole_set import (
    METRICS_HELP,
    WEIGHTS_HELP,
    check_best,
    join_lists,
    log_accuracy,
    log_rows,
    parse_metrics,
    parse_weights,
    reduce_rows,
)


@dataclass
class TokenTaggingCriterionConfig(FairseqDataclass):
    classification_head_name: str = field(
        default="token_tagging_head", metadata={"help": "name of the head"}
    )
    metrics: str = field(
        default="accuracy", metadata={"help": METRICS_HELP.replace("macro_f1", "entity_f1")}
    )
    class_weights: Optional[str] = field(default=None, metadata={"help": WEIGHTS_HELP})


@register_criterion("token_tagging", dataclass=TokenTaggingCriterionConfig)
class TokenTaggingCriterion(FairseqCriterion):
    """Cross-entropy of each word's tag, averaged over words; metrics are of whole sentences."""

    def __init__(self, cfg, task):
        super().__init__(task)
        self.head, self.tags = cfg.classification_head_name, task.tags
        self.metric_names = list(
            dict.fromkeys([*parse_metrics(cfg.metrics, "tagging", self.tags), "accuracy"])
        )
        check_best(cfg, self.metric_names)
        self.class_weights = parse_weights(cfg.class_weights, self.tags)

    def forward(self, model, sample, reduce=True):
        if "target" not in sample:
            raise ValueError("the split has no tags; predict on it instead of validating")
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.head
        )
        targets = model.get_targets(sample, [logits])
        weights = None if self.class_weights is None else self.class_weights.to(logits.device)
        loss = F.nll_loss(F.log_softmax(logits.float(), dim=-1), targets, weights, reduction="sum")
        predictions, words = logits.argmax(dim=1), len(targets)
        output = {
            "loss": loss.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": words,
        }
        if self.training:
            output["num_correct"] = (predictions == targets).sum()
        else:
            counts = sample["net_input"]["word_starts"].sum(1).tolist()
            ids = list(zip(sample["sentence"].tolist(), sample["id"].tolist()))
            columns = [
                [[self.tags[tag] for tag in row.tolist()] for row in side.split(counts)]
                for side in (predictions, targets)
            ]
            log_rows(output, self.metric_names, [ids, *columns, join_lists])
        return loss, words, output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        words = sum(output.get("sample_size", 0) for output in logging_outputs)
        loss = sum(output.get("loss", 0) for output in logging_outputs)
        metrics.log_scalar("loss", loss / words / math.log(2), words, round=3)
        reduce_rows(logging_outputs)
        log_accuracy(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
