"""Loss and metrics of glue_sentence_prediction."""

from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig
from fairseq.dataclass import ChoiceEnum

from tupe_fairseq.criterions.whole_set import (
    METRICS_HELP,
    WEIGHTS_HELP,
    WholeSetCriterion,
)
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
    """The loss of the task's kind, such as cross-entropy for classes.

    ``sample_size`` is the number of rows. Training logs loss and accuracy; validation logs metrics
    over the whole set, in percent.
    """

    def __init__(self, cfg, task):
        kind, labels = task.kind, task.labels
        if bool(cfg.glue_task) == bool(cfg.metrics):
            raise ValueError("give one of --glue-task and --metrics")
        for name in cfg:
            if name.startswith("report_") and cfg[name]:
                raise ValueError(f"{flag(name)} has no effect here; use --glue-task or --metrics")
        if cfg.glue_task:
            glue = GLUE_TASKS[str(cfg.glue_task)]
            if tuple(labels) != glue.labels or kind != glue.kind:
                raise ValueError(
                    f"--glue-task {glue.name} has {', '.join(glue.labels) or 'scores'}, but "
                    f"{task.cfg.data} has {', '.join(labels) or 'scores'} ({kind.name})"
                )
            names = [*glue.metrics, glue.selection]
        else:
            names = cfg.metrics.split(",")
        names += ["accuracy"] * kind.logs_accuracy
        super().__init__(cfg, task, ",".join(dict.fromkeys(names)), kind, labels)

    def forward(self, model, sample, reduce=True):
        logits = self.logits(model, sample)
        targets = model.get_targets(sample, [logits])
        loss, rows = self.kind.loss(logits, targets, self.weights(logits)), len(targets)
        output = self.logged(sample, loss, rows)
        if not self.training:
            columns = self.kind.decide(logits.detach().cpu().numpy()), targets.cpu().numpy()
            self.log_rows(output, sample["id"].tolist(), *map(list, columns))
        elif self.kind.logs_accuracy:
            output["num_correct"] = (logits.argmax(dim=1) == targets).sum()
        return loss, rows, output
