"""fairseq's language_modeling and translation, with the checks of a training's checkpoint."""

from dataclasses import dataclass

import numpy as np
from fairseq.data import (
    AppendTokenDataset,
    IdDataset,
    ListDataset,
    NestedDictionaryDataset,
    NumelDataset,
    PadDataset,
    PrependTokenDataset,
    StripTokenDataset,
)
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from tupe_fairseq.tasks._training import TrainingTask


@dataclass
class TupeLanguageModelingConfig(LanguageModelingConfig):
    pass


@register_task("tupe_language_modeling", dataclass=TupeLanguageModelingConfig)
class TupeLanguageModelingTask(TrainingTask, LanguageModelingTask):
    """language_modeling; its texts to go on from need no function that numpy 2 lacks."""

    def __init__(self, args, *others, **kwargs):
        super().__init__(args, *others, **kwargs)
        self.cfg = args

    def build_dataset_for_inference(self, src_tokens, src_lengths, **kwargs):
        dictionary, pad = self.source_dictionary, self.source_dictionary.pad()
        first = dictionary.bos() if self.args.add_bos_token else dictionary.eos()
        texts = StripTokenDataset(ListDataset(src_tokens, src_lengths), dictionary.eos())
        inputs = PrependTokenDataset(texts, first)
        return NestedDictionaryDataset(
            {
                "id": IdDataset(),
                "net_input": {
                    "src_tokens": PadDataset(inputs, pad, left_pad=False),
                    "src_lengths": NumelDataset(inputs, reduce=False),
                },
                "target": PadDataset(AppendTokenDataset(texts, pad), pad, left_pad=False),
            },
            sizes=[np.array(src_lengths)],
        )


@dataclass
class TupeTranslationConfig(TranslationConfig):
    pass


@register_task("tupe_translation", dataclass=TupeTranslationConfig)
class TupeTranslationTask(TrainingTask, TranslationTask):
    """translation."""
