"""Pre-training: fairseq's masked_lm with isolated documents, and whole-word masking that works."""

import os
from dataclasses import dataclass

import torch
from fairseq.data import BaseWrapperDataset
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.utils import split_paths
from omegaconf import OmegaConf
from torch import Tensor

from tupe_fairseq.tasks._training import TrainingTask

# by which a vocabulary says where words begin: --bpe, its options, and their files in a data folder
_WORD_BEGINNINGS = {
    "sentencepiece": {"sentencepiece_model": "sentencepiece.bpe.model"},
    "gpt2": {"gpt2_encoder_json": "encoder.json", "gpt2_vocab_bpe": "vocab.bpe"},
}


@dataclass
class TupeMaskedLMConfig(MaskedLMConfig):
    pass


@register_task("tupe_masked_lm", dataclass=TupeMaskedLMConfig)
class TupeMaskedLMTask(TrainingTask, MaskedLMTask):
    """masked_lm; the model's ``--isolate-documents`` needs this task.

    An empty line of the text, a ``</s>`` of its own in the data, separates documents. In a sample
    it becomes the ``<s>`` of the next document, at the same place, so that no length changes.
    """

    has_isolated_documents = True
    _isolates = False

    def build_model(self, cfg, from_checkpoint=False):
        model = super().build_model(cfg, from_checkpoint)
        self._isolates = getattr(model.args, "isolate_documents", False)
        mode = str(self.cfg.sample_break_mode)
        if self._isolates and mode in ("complete_doc", "eos"):
            raise ValueError(
                f"--isolate-documents has no effect with --sample-break-mode {mode}, by which a "
                "sample has one document; drop it, or use none or complete"
            )
        return model

    def reduce_metrics(self, logging_outputs, criterion):
        super().reduce_metrics(logging_outputs, criterion)
        if criterion.training and self.peak_flops and self.training_flops:
            metrics.log_derived("mfu", self._utilization, priority=91)  # after wps

    def _utilization(self, meters):
        """See ``tupe_fairseq.flops``; fairseq's words a second are tokens without padding."""
        seq_len = meters["wpb"].avg / meters["bsz"].avg
        flops = self.training_flops(seq_len, self.cfg.mask_prob)
        return round(float(meters["wps"].avg * flops / self.peak_flops), 3)

    def _load_dataset_split(self, split, epoch, combine):
        dataset = super()._load_dataset_split(split, epoch, combine)
        if not self._isolates:
            return dataset
        lines = dataset.dataset.dataset  # below <s> and the cutting into samples
        if split == "train" and 1 not in lines.sizes:
            raise ValueError(
                f"--isolate-documents: the train split of {self.cfg.data} has no empty line, which "
                "separates documents; prepare it from a text with empty lines, or drop the flag"
            )
        return DocumentStarts(dataset, self.dictionary.bos(), self.dictionary.eos())

    def load_dataset(self, split, *args, **kwargs):
        if self.cfg.mask_whole_words:
            self.args = self._vocabulary()  # fairseq's code reads them, and forgets to set them
        super().load_dataset(split, *args, **kwargs)
        bos = self.dictionary.bos() if self._isolates else None
        self.datasets[split] = MaskedSamples(self.datasets[split], self.dictionary.pad(), bos)

    def _vocabulary(self):
        """Options of ``--bpe``, which need not be given."""
        folder = split_paths(self.cfg.data)[0]
        for bpe, files in _WORD_BEGINNINGS.items():
            paths = {option: os.path.join(folder, name) for option, name in files.items()}
            if all(map(os.path.isfile, paths.values())):
                return OmegaConf.create({"_name": bpe, **paths})
        raise FileNotFoundError(
            "--mask-whole-words needs a vocabulary that says where words begin, and there is no "
            f"sentencepiece.bpe.model in {folder}; copy it there"
        )


class DocumentStarts(BaseWrapperDataset):
    """Samples whose empty lines (a ``</s>`` after another, or after ``<s>``) are ``<s>``."""

    def __init__(self, dataset, bos: int, eos: int):
        super().__init__(dataset)
        self.bos, self.eos = bos, eos

    def __getitem__(self, index) -> Tensor:
        tokens = self.dataset[index]
        is_end = tokens == self.eos
        after = torch.zeros_like(is_end)
        after[1:] = is_end[:-1] | (tokens[:-1] == self.bos)
        return tokens.masked_fill(is_end & after, self.bos)


class MaskedSamples(BaseWrapperDataset):
    """Batches with the indices (n,) of the masked tokens among the B * L, and the rows' lengths.

    Every ``<s>`` of a sample but the first is restored and not predicted, if ``bos`` is given.
    """

    def __init__(self, dataset, pad: int, bos: int | None):
        super().__init__(dataset)
        self.pad, self.bos = pad, bos

    def __getitem__(self, index):
        sample = self.dataset[index]
        if self.bos is None:
            return sample
        source, target = sample["net_input.src_tokens"], sample["target"]
        is_start = torch.where(target == self.pad, source, target) == self.bos
        is_start[:1] = False
        return {
            **sample,
            "net_input.src_tokens": source.masked_fill(is_start, self.bos),
            "target": target.masked_fill(is_start, self.pad),
        }

    def collater(self, samples):
        batch = super().collater(samples)
        if batch:
            is_masked = batch["target"].ne(self.pad).flatten()
            if not is_masked.any():  # fairseq's masked_lm then asks for all
                is_masked.fill_(True)
            batch["net_input"]["masked_positions"] = is_masked.nonzero().squeeze(1)
            is_token = batch["net_input"]["src_tokens"].ne(self.pad)
            batch["net_input"]["lengths"] = is_token.sum(dim=1).tolist()  # stays on the host
        return batch
