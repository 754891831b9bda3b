"""What data/tokenizer.py will be, by today's classes."""

import itertools
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.text.dictionary_file import dictionary_ids
from tupe_fairseq.text.parallel import ordered_map
from tupe_fairseq.text.piece_numbers import piece_numbers
from tupe_fairseq.text.pretrain_dir import PretrainDir
from tupe_fairseq.text.treatment import one_line
from tupe_fairseq.text.word_pieces import word_pieces


class Tokenizer:
    def __init__(self, pretrained: PretrainDir):
        self._old = pretrained
        self._numbers = piece_numbers(pretrained.pieces, pretrained.dictionary).tolist()
        self.tokens_per_sample = pretrained.tokens_per_sample

    @classmethod
    def load(cls, folder: str) -> "Tokenizer":
        return cls(PretrainDir(folder))

    def __len__(self) -> int:
        return len(dictionary_ids(self._old.dictionary))

    def _ids(self, rows):
        numbers = self._numbers
        return [[numbers[i] for i in row] for row in rows]

    def _batch(self, lines: Sequence[str]) -> list[list[int]]:
        treat = self._old.treatment.apply
        return self._ids(self._old.pieces.encode([treat(one_line(line)) for line in lines]))

    def encode(self, text: str) -> list[int]:
        return self._batch([text])[0]

    def encode_lines(self, lines: Iterable[str], workers: int = 1) -> Iterator[list[int]]:
        lines = iter(lines)
        batches = iter(lambda: list(itertools.islice(lines, 10_000)), [])
        for rows in ordered_map(self._batch, batches, workers):
            yield from rows

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        return self._ids(word_pieces(self._old.pieces, self._old.treatment, [words])[0])

    def copy_to(self, folder: str) -> None:
        for path in (self._old.dictionary, *self._old.files.values()):
            shutil.copy(path, os.path.join(folder, os.path.basename(path)))

    def fingerprints(self) -> dict[str, str]:
        from tupe_fairseq.files.fingerprint import file_sha256

        files = {DICTIONARY: self._old.dictionary, **self._old.files}
        return {name: file_sha256(path) for name, path in files.items()}

    def record(self) -> dict[str, Any]:
        return {
            "text_treatment": self._old.treatment.to_dict(),
            "vocabulary": self._old.vocabulary,
            "vocabulary_kind": self._old.kind,
        }
