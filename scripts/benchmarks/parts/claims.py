"""The comparisons that the README's claims rest on."""

from typing import Callable, Iterator

import torch

from parts.authors import AuthorsCode
from parts.models import SST2_LENGTHS, Trainer, build, infer, masked_batch
from parts.rows import Row
from parts.timing import compare

STOCK, TUPE, UNPAD = "stock RoBERTa", "tupe", "tupe --unpad"
NO_BIAS, AUTHORS = "no position bias", "authors' code"


class Claims:
    """Makes the rows, one after the other.

    Args:
        options (Namespace): of the command line: device, dtype, rounds, threads, size,
            longest, reference_repo.
        say (callable): called with what is being measured.
    """

    def __init__(self, options, say: Callable[[str], None]):
        self.options = options
        self.device = torch.device(options.device)
        self.is_cuda = self.device.type == "cuda"
        self.dtype = torch.bfloat16 if self.is_cuda else torch.float32
        self.say = say

    def rows(self) -> Iterator[Row]:
        yield self.fine_tuning()
        yield self.inference(0.0, TUPE)
        yield self.inference(0.25, UNPAD)
        for batch, seq_len in [(32, 512)] if self.is_cuda else [(16, 128), (4, 512)]:
            yield from self.training(batch, seq_len)

    def _compare(self, title, calls):
        self.say(title)
        return compare(calls, self.options.rounds)

    def _build(self, kind, seq_len, **options):
        return build(kind, self.options.size, seq_len, self.device, self.dtype, **options)

    def _length(self, seq_len):
        return min(seq_len, self.options.longest)

    def training(self, batch: int, seq_len: int) -> Iterator[Row]:
        seq_len = self._length(seq_len)
        title = f"training step, {self.options.size}, B{batch} T{seq_len}, dropout 0.1"
        data = masked_batch(batch, seq_len, 0.0, self.device)
        kinds = {STOCK: "stock", TUPE: "tupe", NO_BIAS: "no bias"}
        calls = {}
        for name, kind in kinds.items():
            trainer = Trainer(self._build(kind, seq_len))
            calls[name] = lambda trainer=trainer: trainer.masked_lm(data)
        authors = None
        if self.options.reference_repo:
            threads = torch.get_num_threads()
            authors = AuthorsCode(
                self.options.reference_repo, batch, seq_len, threads, self.device.type
            )
            calls[AUTHORS] = authors
        samples = self._compare(title, calls)
        yield Row(title, samples, STOCK, TUPE)
        if authors is not None:
            authors.close()
            pair = {name: samples[name] for name in (AUTHORS, TUPE)}
            yield Row(f"{title}, the same rounds", pair, AUTHORS, TUPE)

    def inference(self, padding: float, ours: str) -> Row:
        batch, seq_len = (32 if self.is_cuda else 4), self._length(512)
        padded = f", {padding:.0%} padding" if padding else ", no padding"
        title = f"inference, {self.options.size}, B{batch} T{seq_len}{padded}"
        data = masked_batch(batch, seq_len, padding, self.device)
        models = {STOCK: self._build("stock", seq_len), TUPE: self._build("tupe", seq_len)}
        if padding:
            models[UNPAD] = self._build("tupe", seq_len, unpad=True)
        else:
            models[NO_BIAS] = self._build("no bias", seq_len)
        calls = {name: lambda model=model: infer(model, data) for name, model in models.items()}
        return Row(title, self._compare(title, calls), STOCK, ours)

    def fine_tuning(self) -> Row:
        batch, seq_len = len(SST2_LENGTHS), max(SST2_LENGTHS)
        title = f"fine-tuning step, {self.options.size}, B{batch}, lengths of SST-2 (words/s)"
        data = masked_batch(batch, seq_len, 0.0, self.device, lengths=SST2_LENGTHS)
        calls = {}
        for name, kind, options in (
            (STOCK, "stock", {}),
            (TUPE, "tupe", {}),
            (UNPAD, "tupe", {"unpad": True}),
        ):
            model = self._build(kind, 64, **options)
            model.register_classification_head("benchmark", num_classes=2)
            trainer = Trainer(model.to(self.device, self.dtype))
            calls[name] = lambda trainer=trainer: trainer.classify(data)
        samples = self._compare(title, calls)
        return Row(title, samples, STOCK, UNPAD, words=data.num_words)
