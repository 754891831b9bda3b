"""The comparisons that the README's claims rest on."""

from typing import Callable, List

import torch

from parts.authors import AuthorsCode
from parts.models import SST2_LENGTHS, Trainer, build, infer, masked_batch
from parts.operator_cases import operator_case
from parts.operators import STOCK, Shape
from parts.rows import Case, Row
from parts.timing import compare

TUPE, UNPAD, NO_BIAS, AUTHORS = "tupe", "tupe --unpad", "no position bias", "authors' code"
# what a training step on a GPU is to take at most, of stock RoBERTa's and of the authors' code's
STOCK_TARGET, AUTHORS_TARGET = 0.95, 0.55


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

    def cases(self) -> List[Case]:
        if self.is_cuda:
            operators = [self.operator(32, 512, dropout) for dropout in (0.0, 0.1)]
            trainings = [self.training(32, 512)]
            return [*operators, *self._others(), *trainings]
        operators = [self.operator(4, 512, dropout) for dropout in (0.0, 0.1)]
        return [*operators, *self._others(), self.training(16, 128), self.training(4, 512)]

    def training_cases(self) -> List[Case]:
        """Of a GPU that is tried for the first time."""
        shapes = [(32, 512), (32, 128)] if self.is_cuda else [(2, 512), (2, 128)]
        return [self.training(batch, seq_len) for batch, seq_len in shapes]

    def _others(self) -> List[Case]:
        return [self.fine_tuning(), self.inference(0.0, TUPE), self.inference(0.25, UNPAD)]

    def _compare(self, title, calls):
        self.say(title)
        return compare(calls, self.options.rounds)

    def _build(self, kind, seq_len, **options):
        return build(kind, self.options.size, seq_len, self.device, self.dtype, **options)

    def _length(self, seq_len):
        return min(seq_len, self.options.longest)

    def operator(self, batch: int, seq_len: int, dropout: float) -> Case:
        shape = Shape(batch, self._length(seq_len), dropout, dtype=self.dtype)
        return operator_case(shape, self.device, self.options.rounds, self.say)

    def training(self, batch: int, seq_len: int) -> Case:
        seq_len = self._length(seq_len)
        title = f"training step, {self.options.size}, B{batch} T{seq_len}, dropout 0.1"
        return Case(title, lambda: self._training(title, batch, seq_len))

    def _training(self, title: str, batch: int, seq_len: int) -> List[Row]:
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
        stock, theirs = (STOCK_TARGET, AUTHORS_TARGET) if self.is_cuda else (None, None)
        rows = [Row(title, samples, STOCK, TUPE, target=stock)]
        if authors is not None:
            authors.close()
            pair = {name: samples[name] for name in (AUTHORS, TUPE)}
            rows.append(Row(f"{title}, the same rounds", pair, AUTHORS, TUPE, target=theirs))
        return rows

    def inference(self, padding: float, ours: str) -> Case:
        batch, seq_len = (32 if self.is_cuda else 4), self._length(512)
        padded = f", {padding:.0%} padding" if padding else ", no padding"
        title = f"inference, {self.options.size}, B{batch} T{seq_len}{padded}"
        return Case(title, lambda: self._inference(title, batch, seq_len, padding, ours))

    def _inference(self, title, batch, seq_len, padding, ours) -> List[Row]:
        data = masked_batch(batch, seq_len, padding, self.device)
        models = {STOCK: self._build("stock", seq_len), TUPE: self._build("tupe", seq_len)}
        if padding:
            models[UNPAD] = self._build("tupe", seq_len, unpad=True)
        else:
            models[NO_BIAS] = self._build("no bias", seq_len)
        calls = {name: lambda model=model: infer(model, data) for name, model in models.items()}
        return [Row(title, self._compare(title, calls), STOCK, ours)]

    def fine_tuning(self) -> Case:
        batch = len(SST2_LENGTHS)
        title = f"fine-tuning step, {self.options.size}, B{batch}, lengths of SST-2 (words/s)"
        return Case(title, lambda: self._fine_tuning(title))

    def _fine_tuning(self, title: str) -> List[Row]:
        batch, seq_len = len(SST2_LENGTHS), max(SST2_LENGTHS)
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
        return [Row(title, samples, STOCK, UNPAD, words=data.num_words)]
