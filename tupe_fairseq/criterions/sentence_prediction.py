"""Loss and metrics of glue_sentence_prediction."""

from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig
from fairseq.dataclass import ChoiceEnum

from tupe_fairseq.criterions.whole_set import METRICS_HELP, WEIGHTS_HELP, WholeSetCriterion
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.options import flag, option

_HELP = METRICS_HELP.format("accuracy,macro_f1")


@dataclass
class GlueCriterionConfig(SentencePredictionConfig):
    glue_task: Optional[ChoiceEnum(list(GLUE_TASKS))] = option(
        None, "the GLUE task whose metrics and labels are used"
    )
    metrics: Optional[str] = option(None, f"in place of --glue-task: {_HELP}")
    class_weights: Optional[str] = option(None, WEIGHTS_HELP)


@register_criterion("glue_sentence_prediction", dataclass=GlueCriterionConfig)
class GlueSentencePredictionCriterion(WholeSetCriterion):
    """``sample_size`` is the number of rows."""

    def __init__(self, cfg, task):
        if bool(cfg.glue_task) == bool(cfg.metrics):
            raise ValueError("give one of --glue-task and --metrics")
        for name in cfg:
            if name.startswith("report_") and cfg[name]:
                raise ValueError(f"{flag(name)} has no effect here; use --glue-task or --metrics")
        names = cfg.metrics
        if cfg.glue_task:
            glue = GLUE_TASKS[str(cfg.glue_task)]
            if tuple(task.labels) != glue.labels or task.kind != glue.kind:
                raise ValueError(
                    f"--glue-task {glue.name} has {', '.join(glue.labels) or 'scores'}, but "
                    f"{task.cfg.data} has {', '.join(task.labels) or 'scores'} ({task.kind.name})"
                )
            names = ",".join([*glue.metrics, glue.selection])
        super().__init__(cfg, task, names)
