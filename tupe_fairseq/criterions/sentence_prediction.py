"""Loss and metrics of glue_sentence_prediction."""

from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig
from fairseq.dataclass import ChoiceEnum
from fairseq.utils import safe_getattr

from tupe_fairseq.criterions.whole_set import (
    METRICS_HELP,
    WEIGHTS_HELP,
    WholeSetCriterion,
)
from tupe_fairseq.data.glue import GLUE_TASKS
from tupe_fairseq.data.task import trained_kind
from tupe_fairseq.options import flag, option
from tupe_fairseq.tasks.sentence_prediction import class_names

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
    """Cross-entropy for classes, squared error for scores, mean binary cross-entropy for labels.

    ``sample_size`` is the number of rows. Training logs loss and accuracy; validation logs metrics
    over the whole set, in percent.
    """

    def __init__(self, cfg, task):
        # omegaconf 2.0 raises on a missing option
        switches = ("multilabel", "regression_target")
        kind = trained_kind({name: safe_getattr(task.cfg, name) for name in switches})
        labels = [] if kind == "regression" else class_names(task.label_dictionary)
        if bool(cfg.glue_task) == bool(cfg.metrics):
            raise ValueError("give one of --glue-task and --metrics")
        for name in cfg:
            if name.startswith("report_") and cfg[name]:
                raise ValueError(f"{flag(name)} has no effect here; use --glue-task or --metrics")
        if cfg.glue_task:
            glue = GLUE_TASKS[str(cfg.glue_task)]
            if tuple(labels) != glue.labels or kind == "multilabel":
                raise ValueError(
                    f"--glue-task {glue.name} has {', '.join(glue.labels) or 'scores'}, but "
                    f"{task.cfg.data} has {', '.join(labels) or 'scores'} ({kind})"
                )
            names = [*glue.metrics, glue.selection]
        else:
            names = cfg.metrics.split(",")
        names += ["accuracy"] * (kind == "classification")
        super().__init__(cfg, task, ",".join(dict.fromkeys(names)), kind, labels)
        self.kind = kind

    def forward(self, model, sample, reduce=True):
        logits = self.logits(model, sample)
        targets = model.get_targets(sample, [logits])
        weights = self.weights(logits)
        if self.kind == "regression":
            predictions, targets = logits.view(-1).float(), targets.view(-1)
            loss = F.mse_loss(predictions, targets.float(), reduction="sum")
        elif self.kind == "multilabel":
            predictions = logits > 0
            loss = F.binary_cross_entropy_with_logits(
                logits, targets.float(), pos_weight=weights, reduction="sum"
            )
            loss = loss / logits.size(1)
        else:
            predictions, targets = logits.argmax(dim=1), targets.view(-1)
            loss = F.nll_loss(F.log_softmax(logits, dim=-1), targets, weights, reduction="sum")
        rows = len(targets)
        output = self.logged(sample, loss, rows)
        if not self.training:
            columns = [list(side.cpu().numpy()) for side in (predictions, targets)]
            self.log_rows(output, sample["id"].tolist(), *columns)
        elif self.kind == "classification":
            output["num_correct"] = (predictions == targets).sum()
        return loss, rows, output
