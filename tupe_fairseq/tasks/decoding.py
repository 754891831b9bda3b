"""fairseq's language_modeling and translation, with our checks of the checkpoint to load."""

from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from tupe_fairseq.tasks._training import TrainingTask, numpy_long


@register_task("tupe_language_modeling", dataclass=LanguageModelingConfig)
class TupeLanguageModelingTask(TrainingTask, LanguageModelingTask):
    """fairseq's language_modeling with the checks of ``TrainingTask``."""

    def __init__(self, args, *others, **kwargs):
        super().__init__(args, *others, **kwargs)
        self.cfg = args

    def build_dataset_for_inference(self, *args, **kwargs):
        with numpy_long():
            return super().build_dataset_for_inference(*args, **kwargs)


@register_task("tupe_translation", dataclass=TranslationConfig)
class TupeTranslationTask(TrainingTask, TranslationTask):
    """fairseq's translation with the checks of ``TrainingTask``."""
