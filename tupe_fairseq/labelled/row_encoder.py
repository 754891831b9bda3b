"""Encodes rows of a task, some thousand at a time, so that several processes can share the work."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS
from tupe_fairseq.labelled.labels import label_ids
from tupe_fairseq.labelled.task_description import TAGGING, Task
from tupe_fairseq.text.mmap_writer import Sentences, ended, item_type
from tupe_fairseq.text.piece_numbers import in_a_row, piece_numbers
from tupe_fairseq.text.pretrain_dir import PretrainDir
from tupe_fairseq.text.treatment import one_line
from tupe_fairseq.text.word_pieces import differs_from_line, word_pieces

_PAD, _UNKNOWN = map(BUILT_IN_SYMBOLS.index, ("<pad>", "<unk>"))


class RowBatch(NamedTuple):
    """Some rows.

    Args:
        texts (sequence): strings; of tagging, the words of each sentence.
        tags (sequence, optional): of tagging, the tag of each word, if the rows are labelled.
    """

    texts: Sequence[Any]
    tags: Sequence[Sequence[str]] | None = None


class EncodedBatch(NamedTuple):
    """The sentences of some rows, of tagging their tags, and counts of them."""

    texts: Sentences
    tags: Sentences | None
    unknown: int
    words_apart: int


class RowEncoder:
    """Encodes batches of rows.

    Args:
        task (Task): the task.
        pretrained (PretrainDir): vocabulary and text treatment.
    Raises:
        OSError, ValueError: if dict.txt cannot be read, or is not a dictionary.

    Attributes:
        dtype, tag_type (dtype): of the tokens, and of the tags.
    """

    def __init__(self, task: Task, pretrained: PretrainDir):
        self._pieces, self._treatment = pretrained.pieces, pretrained.treatment
        self._numbers = piece_numbers(pretrained.pieces, pretrained.dictionary)
        self._is_tagging = task.kind == TAGGING
        self._tags = label_ids(task.labels)
        self.dtype = self._numbers.dtype
        self.tag_type = item_type(len(BUILT_IN_SYMBOLS) + len(self._tags))

    def __call__(self, batch: RowBatch) -> EncodedBatch:
        """Encode rows; one without any piece is a sentence, too."""
        words_apart, tags = 0, None
        if self._is_tagging:
            split = word_pieces(self._pieces, self._treatment, batch.texts)
            for words, found in zip(batch.texts, split):
                words_apart += differs_from_line(self._pieces, self._treatment, words, found)
            tags = self._tags_of(split, batch.tags)
            rows = [[i for ids in found for i in ids] for found in split]
        else:
            lines = [self._treatment.apply(one_line(text)) for text in batch.texts]
            rows = self._pieces.encode(lines)
        ids, lengths = in_a_row(rows)
        unknown = int(np.count_nonzero(ids == self._pieces.unknown_id))
        return EncodedBatch(ended(self._numbers[ids], lengths), tags, unknown, words_apart)

    def _tags_of(self, split, tags) -> Sentences:
        """The tag of a word stands on its first piece, and ``<pad>`` on its others.

        Without tags ``<unk>`` stands there, since it says where words begin.
        """
        rows = []
        for number, found in enumerate(split):
            signs = [_UNKNOWN] * len(found)
            if tags is not None:
                signs = [self._tags.get(tag, _UNKNOWN) for tag in tags[number]]
            of_words = ([sign, *[_PAD] * (len(ids) - 1)] for sign, ids in zip(signs, found))
            rows.append([sign for of_word in of_words for sign in of_word])
        ids, lengths = in_a_row(rows)
        return ended(ids.astype(self.tag_type), lengths)
