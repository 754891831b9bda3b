"""Loss and metrics of token_tagging."""

from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

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
    """``sample_size`` is the number of words; metrics are of whole sentences."""

    def __init__(self, cfg, task):
        super().__init__(cfg, task, cfg.metrics)
