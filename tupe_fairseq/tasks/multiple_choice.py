"""Fine-tuning on a question and candidates, one of which is right."""

from dataclasses import dataclass

from fairseq.tasks import register_task

from tupe_fairseq.options import refuse_others
from tupe_fairseq.tasks.sentence_prediction import GlueSentencePredictionTask, GlueTaskConfig


@dataclass
class MultipleChoiceConfig(GlueTaskConfig):
    pass


@register_task("multiple_choice", dataclass=MultipleChoiceConfig)
class MultipleChoiceTask(GlueSentencePredictionTask):
    """A score for each candidate; the batches are those of fairseq's sentence_ranking.

    Data: ``input0`` has questions, ``input1`` and so on the candidates, ``--num-classes`` of them,
    ``label`` the name of the right one. A sample is ``<s>`` question ``</s> </s>`` candidate
    ``</s>``.
    """

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        refuse_others(cfg, {"regression_target": False, "multilabel": False}, "multiple_choice")
        return super().setup_task(cfg, **kwargs)

    def build_model(self, cfg, from_checkpoint=False):
        model = super().build_model(cfg, from_checkpoint)
        model.register_classification_head(self.cfg.classification_head_name, num_classes=1)
        return model

    def _inputs(self, texts):
        return {f"net_input{n}": [texts[0], text] for n, text in enumerate(texts[1:], 1)}
