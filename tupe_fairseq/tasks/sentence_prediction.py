"""Fine-tuning on texts and text pairs: classification, regression, multilabel."""

from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig
from omegaconf import II

from tupe_fairseq.options import option, refuse_others
from tupe_fairseq.tasks._labelled import KIND_HELP, LabelledTask

# sentence_prediction's options that have no effect here, each with the only value allowed
FIXED_OPTIONS = {
    "add_prev_output_tokens": False,
    "d2v2_multi": False,
    "init_token": 0,
    "separator_token": 2,
    "shorten_data_split_list": "",
    "shorten_method": "none",
}


@dataclass
class GlueTaskConfig(SentencePredictionConfig):
    init_token: Optional[int] = option(0, "token at the start of each sequence, <s>")
    separator_token: Optional[int] = option(2, "token before the second text, </s>")
    multilabel: bool = option(False, "a row has any number of labels, or none")
    kind: Optional[str] = option(None, KIND_HELP)
    train_subset: str = II("dataset.train_subset")  # checkpoints of earlier versions have it


@register_task("glue_sentence_prediction", dataclass=GlueTaskConfig)
class GlueSentencePredictionTask(LabelledTask):
    """fairseq's sentence_prediction, but it truncates to ``--max-positions``."""

    task_name = "glue_sentence_prediction"

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        refuse_others(cfg, FIXED_OPTIONS, cls.task_name)
        return super().setup_task(cfg, **kwargs)
