"""The sentences of a split, in windows that fit the model, with the tags of their words."""

from typing import Any, Dict, List, Sequence

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils

from tupe_fairseq.labelled.windows import windows


class WindowedSentences(FairseqDataset):
    """A dataset of windows, each ``<s>`` pieces ``</s>``; see :func:`windows`.

    Its batches have the number of each window (``id``) and of its sentence (``sentence``), and
    besides what fairseq's have: ``net_input.word_starts``, bool (B, L), the first pieces of the
    words that are predicted in the window; ``target``, their tags as int64 (words), row by row,
    unless the split has none.

    Args:
        pieces (FairseqDataset): the sentences, each with ``</s>`` at its end.
        tags (FairseqDataset): a symbol for each piece: the tag on the first one of each word, or
            ``<unk>`` if nobody knows it, ``<pad>`` on the others; and ``</s>``.
        source (Dictionary): of the pieces.
        labels (Dictionary): of the tags.
        num_classes (int): how many tags there are.
        max_positions (int): the longest sequence of the model.
        name (str): the split, for messages.
    Raises:
        ValueError: if the two differ in their number of rows or in a row's length, if the first
            piece of a sentence begins no word, if a tag is unknown, or some are ``<unk>`` and
            others not; the message names the row.
        ValueError: if there is no room for a piece.
    """

    def __init__(self, pieces, tags, source, labels, num_classes, max_positions, name):
        super().__init__()
        self._pieces, self._tags, self._source = pieces, tags, source
        self._first_tag, self._no_word = labels.nspecial, labels.pad()
        self._unknown = labels.unk()
        room = max_positions - 2
        if room < 1:
            raise ValueError(
                f"--max-positions {max_positions} leaves no room for a piece between <s> and </s>"
            )
        if len(pieces) != len(tags):
            raise ValueError(
                f"{name} has missing rows: {len(pieces)} in input0, {len(tags)} in label; prepare "
                "it again"
            )
        self.num_sentences, self.num_long = len(pieces), 0
        known, rows = set(), []
        for sentence in range(len(pieces)):
            symbols = tags[sentence].numpy()[:-1]
            self._check(symbols, sentence, num_classes, known, name)
            found = windows(np.flatnonzero(symbols != self._no_word), len(symbols), room)
            rows += [(sentence, *window) for window in found]
            self.num_long += len(symbols) > room
        self._windows = np.array(rows, dtype=np.int64).reshape(-1, 5)
        #: whether there are targets
        self.has_tags = known != {False}
        self.sizes = self._windows[:, 2] - self._windows[:, 1] + 2

    def _check(self, symbols, sentence, num_classes, known, name):
        row = f"row {sentence + 1} of {name}"
        expected = int(self._pieces.sizes[sentence]) - 1
        if len(symbols) != expected:
            raise ValueError(
                f"{row} has {expected} pieces, but {len(symbols)} tags; prepare it again"
            )
        if len(symbols) and symbols[0] == self._no_word:
            raise ValueError(
                f"{row}: its first piece begins no word (<pad> in label); prepare it again"
            )
        tags = symbols[symbols != self._no_word]
        unknown = tags == self._unknown
        if ((tags < self._first_tag) & ~unknown | (tags >= self._first_tag + num_classes)).any():
            raise ValueError(f"{row} has a tag that label/dict.txt does not list")
        known.update((~unknown).tolist())
        if len(known) > 1:
            raise ValueError(
                f"{row}: some words of the split have a tag and others have not (<unk>); a split "
                "has all of them, or none"
            )

    def __getitem__(self, index) -> Dict[str, Any]:
        sentence, start, stop, first, last = self._windows[index].tolist()
        whole = self._pieces[sentence]
        ends = whole.new_tensor([self._source.bos()]), whole.new_tensor([self._source.eos()])
        tags = self._tags[sentence][:-1]
        begins = tags.ne(self._no_word).nonzero().flatten()[first:last]
        return {
            "id": index,
            "sentence": sentence,
            "tokens": torch.cat([ends[0], whole[start:stop], ends[1]]),
            "word_starts": begins - start + 1,
            "target": tags[begins] - self._first_tag,
        }

    def collater(self, samples: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
        """A batch; nothing for no samples."""
        if not samples:
            return {}
        tokens = [sample["tokens"] for sample in samples]
        src_tokens = data_utils.collate_tokens(tokens, self._source.pad())
        word_starts = torch.zeros(src_tokens.shape, dtype=torch.bool)
        for row, sample in enumerate(samples):
            word_starts[row, sample["word_starts"]] = True
        batch = {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "sentence": torch.tensor([sample["sentence"] for sample in samples]),
            "net_input": {
                "src_tokens": src_tokens,
                "src_lengths": torch.tensor(list(map(len, tokens))),
                "word_starts": word_starts,
            },
            "nsentences": len(samples),
            "ntokens": sum(map(len, tokens)),
        }
        if self.has_tags:
            batch["target"] = torch.cat([sample["target"] for sample in samples])
        return batch

    def joined(self, values: Sequence[np.ndarray]) -> List[np.ndarray]:
        """What each window has of its words, as what each sentence has.

        Args:
            values (sequence of np.ndarray): int64 (words) of each window, in order.
        """
        parts: List[List[np.ndarray]] = [[] for _ in range(self.num_sentences)]
        for (sentence, *_), value in zip(self._windows.tolist(), values):
            parts[sentence].append(value)
        nothing = np.empty(0, dtype=np.int64)
        return [np.concatenate([nothing, *part]) for part in parts]

    def __len__(self):
        return len(self._windows)

    def num_tokens(self, index):
        return self.sizes[index]

    def num_tokens_vec(self, indices):
        return self.sizes[indices]

    def size(self, index):
        return self.sizes[index]
