"""Pre-training: fairseq's masked_lm with isolated documents, and whole-word masking that works."""

import numpy as np
import torch
from fairseq.data import SortDataset, data_utils
from fairseq.data.encoders.utils import get_whole_word_mask
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.utils import split_paths
from omegaconf import OmegaConf

from tupe_fairseq.data.tokenizer import SENTENCEPIECE_MODEL, find_record, recorded_files
from tupe_fairseq.options import refuse_others
from tupe_fairseq.tasks._training import Samples, TrainingTask, numpy_long

# masked_lm's options that have no effect here, each with the only value allowed
_FIXED_OPTIONS = {
    "d2v2_multi": False,
    "include_target_tokens": False,
    "mask_multiple_length": 1,
    "mask_stdev": 0.0,
    "skip_masking": False,
}

# the options of --bpe for the files of a vocabulary
_FILES_OF_BPE = {
    "gpt2": ("gpt2_encoder_json", "gpt2_vocab_bpe"),
    "sentencepiece": ("sentencepiece_model",),
}


@register_task("tupe_masked_lm", dataclass=MaskedLMConfig)
class TupeMaskedLMTask(TrainingTask, MaskedLMTask):
    """fairseq's masked_lm; the model's ``--isolate-documents`` needs this task.

    An empty line of the text separates documents. In the data it is a single ``</s>``. In a sample
    it is replaced with the ``<s>`` of the next document, so that no length changes.
    """

    has_isolated_documents = True
    _isolates = False

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        refuse_others(cfg, _FIXED_OPTIONS, "tupe_masked_lm")
        kept, random = cfg.leave_unmasked_prob, cfg.random_token_prob
        if not 0 < cfg.mask_prob < 1:
            raise ValueError(f"--mask-prob ({cfg.mask_prob}) must be above 0 and below 1")
        if min(kept, random) < 0 or kept + random > 1:
            raise ValueError(
                f"--leave-unmasked-prob ({kept}) and --random-token-prob ({random}) must be 0 or "
                "more, with a sum of at most 1"
            )
        return super().setup_task(cfg, **kwargs)

    def build_model(self, cfg, from_checkpoint=False):
        model = super().build_model(cfg, from_checkpoint)
        self._isolates = getattr(model.args, "isolate_documents", False)
        mode = str(self.cfg.sample_break_mode)
        if self._isolates and mode in ("complete_doc", "eos"):
            raise ValueError(
                f"--isolate-documents has no effect with --sample-break-mode {mode}, because its "
                "samples have one document; drop it, or use none or complete"
            )
        return model

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        with numpy_long():
            dataset = self._load_dataset_split(split, epoch, combine)
        if self._isolates:
            lines = dataset.dataset.dataset  # before samples are cut and <s> is added
            if split == "train" and 1 not in lines.sizes:
                raise ValueError(
                    f"--isolate-documents: the train split of {self.cfg.data} has no empty lines, "
                    "which separate documents; prepare it from a text with empty lines, or drop "
                    "the flag"
                )
        listed = {*self.dictionary.count[self.dictionary.nspecial : self.mask_idx]} - {0}
        if split == "train" and self.cfg.freq_weighted_replacement and len(listed) < 2:
            raise ValueError(
                "--freq-weighted-replacement has no effect: all tokens in dict.txt have the same "
                "count, as written by tupe-prepare-pretrain; drop it"
            )
        begins = None
        if self.cfg.mask_whole_words:
            begins = get_whole_word_mask(self._vocabulary(), self.dictionary).numpy() == 1
        options = self.dictionary, self.mask_idx, self.cfg, begins, self._isolates
        samples = MaskedSamples(dataset, *options)
        with data_utils.numpy_seed(self.cfg.seed):
            shuffled = np.random.permutation(len(samples))
        self.datasets[split] = SortDataset(samples, sort_order=[shuffled, samples.sizes])

    def _vocabulary(self):
        """The options of ``--bpe``, from the files in the data folder."""
        data = split_paths(self.cfg.data)[0]
        folder, record = find_record([data])
        if folder is None:
            raise FileNotFoundError(
                "--mask-whole-words needs a vocabulary that marks where words begin, but there is "
                f"no {SENTENCEPIECE_MODEL} in {data}; copy it there"
            )
        files = zip(_FILES_OF_BPE[record["kind"]], recorded_files(folder, record))
        return OmegaConf.create({"_name": record["kind"], **dict(files)})


def mark_documents(tokens: np.ndarray, bos: int, eos: int) -> np.ndarray:
    """Replace each empty line, a ``</s>`` after ``</s>`` or ``<s>``, with ``<s>``."""
    is_end = tokens == eos
    is_empty = is_end[1:] & (is_end[:-1] | (tokens[:-1] == bos))
    return np.where(np.append(False, is_empty), bos, tokens)


class MaskedSamples(Samples):
    """Masks the same tokens as fairseq's ``MaskTokensDataset``, in a quarter of the time.

    That is the one of fairseq's main branch (0.12.3); the official 0.12.2 draws other random
    numbers. ``begins`` says for each token of the vocabulary whether it begins a word, to mask
    whole words. With ``isolates`` empty lines become ``<s>``, and no ``<s>`` but the first of a
    sample is masked or predicted. Batches have the indices (n,) of the masked tokens among
    the B * L, and the rows' lengths.
    """

    def __init__(self, dataset, dictionary, mask: int, cfg, begins=None, isolates=False):
        self.dataset, self.sizes, self.source, self.mask = dataset, dataset.sizes, dictionary, mask
        self.begins, self.isolates = begins, isolates
        # in shared memory: fairseq keeps its worker processes, which would stay in the first epoch
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        # once, because each lookup in omegaconf takes 40 microseconds
        self.seed, self.mask_prob = cfg.seed, cfg.mask_prob
        self.changed = cfg.random_token_prob + cfg.leave_unmasked_prob
        self.kept_of_changed = cfg.leave_unmasked_prob / (self.changed or 1)
        weights = np.array(
            dictionary.count if cfg.freq_weighted_replacement else [1.0] * len(dictionary)
        )
        weights[: dictionary.nspecial] = 0
        self.cumulative = (weights / weights.sum()).cumsum()
        self.cumulative /= self.cumulative[-1]

    def set_epoch(self, epoch):
        super().set_epoch(epoch)
        self.epoch.fill_(epoch)

    def __getitem__(self, index):
        tokens, bos = self.dataset[index].numpy(), self.source.bos()
        if self.isolates:
            tokens = mark_documents(tokens, bos, self.source.eos())
        if self.mask in tokens:
            raise ValueError(f"sample {index} contains <mask>, which the text must not contain")
        # the index of each token's word, or of the token itself
        unit = np.arange(len(tokens)) if self.begins is None else self.begins[tokens].cumsum() - 1
        count = int(unit[-1]) + 1
        # fairseq's seed, and its random draws in the same order
        seed = int(hash((self.seed, self.epoch.item(), index)) % 1e6)
        rng = np.random.default_rng(seed)
        predicted = np.zeros(count, bool)
        number = int(self.mask_prob * count + rng.random())
        predicted[rng.choice(count, number, replace=False)] = True
        kept = randomized = np.zeros(count, bool)
        if self.changed > 0:
            changed, share = predicted & (rng.random(count) < self.changed), self.kept_of_changed
            kept = changed & ((rng.random(count) if 0 < share < 1 else 0.5) < share)
            randomized = changed & ~kept
        source = np.where((predicted & ~kept)[unit], self.mask, tokens)
        places = randomized[unit].nonzero()[0]
        source[places] = self.cumulative.searchsorted(rng.random(len(places)), side="right")
        is_target = predicted[unit]
        if self.isolates:
            starts = tokens == bos
            starts[0] = False
            source[starts], is_target = tokens[starts], is_target & ~starts
        target = np.where(is_target, tokens, self.source.pad())
        source, target = map(torch.from_numpy, (source, target))
        return {"id": index, "net_input": source, "target": target}

    def collater(self, samples):
        batch = super().collater(samples)
        if batch:
            inputs, pad = batch["net_input"], self.source.pad()
            inputs["lengths"] = inputs["src_lengths"].tolist()  # stays on the host
            targets = [sample["target"] for sample in samples]
            batch["target"] = data_utils.collate_tokens(targets, pad)
            is_masked = batch["target"].ne(pad).flatten()
            if not is_masked.any():  # fairseq's masked_lm then predicts all
                is_masked.fill_(True)
            inputs["masked_positions"] = is_masked.nonzero().squeeze(1)
        return batch
