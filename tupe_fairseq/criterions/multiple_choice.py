"""Loss and accuracy of multiple_choice."""

from dataclasses import dataclass, field

from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_ranking import SentenceRankingCriterion
from fairseq.dataclass import FairseqDataclass

from tupe_fairseq.criterions.whole_set import METRICS_HELP, parse_metrics
from tupe_fairseq.tasks.sentence_prediction import class_names


@dataclass
class MultipleChoiceCriterionConfig(FairseqDataclass):
    classification_head_name: str = field(
        default="sentence_classification_head", metadata={"help": "name of the head"}
    )
    metrics: str = field(default="accuracy", metadata={"help": METRICS_HELP})
    regression_target: bool = field(default=False, metadata={"help": "must be off"})


@register_criterion("multiple_choice", dataclass=MultipleChoiceCriterionConfig)
class MultipleChoiceCriterion(SentenceRankingCriterion):
    """fairseq's sentence_ranking: cross-entropy of the right candidate, by one score of each."""

    def __init__(self, cfg, task):
        super().__init__(task, cfg.classification_head_name, None, task.cfg.num_classes)
        parse_metrics(cfg, cfg.metrics, "choice", class_names(task.label_dictionary))

    @classmethod
    def add_args(cls, parser):
        super(SentenceRankingCriterion, cls).add_args(parser)  # not sentence_ranking's
