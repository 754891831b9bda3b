"""Loss and metrics of token_tagging."""

from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

import numpy as np
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from tupe_fairseq.criterions.whole_set import METRICS_HELP, WEIGHTS_HELP, WholeSetCriterion
from tupe_fairseq.options import option


@dataclass
class TokenTaggingCriterionConfig(FairseqDataclass):
    classification_head_name: str = option("token_tagging_head", "name of the head")
    metrics: str = option("accuracy", METRICS_HELP.format("accuracy,entity_f1"))
    class_weights: Optional[str] = option(None, WEIGHTS_HELP)


@register_criterion("token_tagging", dataclass=TokenTaggingCriterionConfig)
class TokenTaggingCriterion(WholeSetCriterion):
    """Cross-entropy of each word's tag, averaged over words; metrics are of whole sentences."""

    def __init__(self, cfg, task):
        names = cfg.metrics if "accuracy" in cfg.metrics else f"{cfg.metrics},accuracy"
        super().__init__(cfg, task, names, task.kind, task.tags)
        self.tags = task.tags

    def forward(self, model, sample, reduce=True):
        logits = self.logits(model, sample)
        targets = model.get_targets(sample, [logits])
        loss, words = self.kind.loss(logits, targets, self.weights(logits)), len(targets)
        output = self.logged(sample, loss, words)
        if self.training:
            output["num_correct"] = (logits.argmax(dim=1) == targets).sum()
        else:
            ends = sample["net_input"]["word_starts"].sum(1).cumsum(0).tolist()[:-1]
            ids = list(zip(sample["sentence"].tolist(), sample["id"].tolist()))
            columns = [
                [[self.tags[tag] for tag in row.tolist()] for row in np.split(side, ends)]
                for side in (self.kind.decide(logits.detach().cpu().numpy()), targets.cpu().numpy())
            ]
            self.log_rows(output, ids, *columns, join_lists)
        return loss, words, output


def join_lists(predictions, targets):
    """Concatenate the tags of all windows of a sentence."""
    return sum(predictions, []), sum(targets, [])
