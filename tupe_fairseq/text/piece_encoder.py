"""From clean text to fairseq's files: the numbers of the pieces of every line."""

from typing import Any, NamedTuple

import numpy as np

from tupe_fairseq.text.mmap_writer import Sentences, SentenceWriter, ended, sentence_writer
from tupe_fairseq.text.parallel import ordered_map
from tupe_fairseq.text.piece_numbers import in_a_row, piece_numbers
from tupe_fairseq.text.reading import TextFile

# the length of the sentence that separates documents: </s> alone
_BLANK = 1


class EncodedBlock(NamedTuple):
    """Sentences, no two blank ones in a row, and counts of them."""

    sentences: Sentences
    counts: dict[str, int]


class PieceEncoder:
    """Encodes blocks of lines.

    Args:
        pieces (Pieces or ListedPieces): the vocabulary.
        dictionary (str): the dict.txt.
        max_pieces (int): longer lines are split.
    Raises:
        OSError, ValueError: if dict.txt cannot be read, or is not a dictionary.

    Attributes:
        dtype (dtype): of the tokens.
    """

    def __init__(self, pieces: Any, dictionary: str, max_pieces: int):
        self.pieces = pieces
        self.max_pieces = max_pieces
        self._numbers = piece_numbers(pieces, dictionary)
        self.dtype = self._numbers.dtype

    def __call__(self, block: bytes) -> EncodedBlock:
        """Encode whole lines; blank ones are kept, as sentences without pieces."""
        lines = block.decode().split("\n")[:-1]
        limit = self.max_pieces
        ids, found = in_a_row(self.pieces.encode(lines))
        lengths: list[int] = []
        written = cut = no_pieces = 0
        for line, length in zip(lines, found.tolist()):
            if length:
                while length > limit:
                    lengths.append(limit)
                    length -= limit
                    written += 1
                    cut += 1
                lengths.append(length)
                written += 1
            elif line:
                # SentencePiece's normalization can reduce a line to nothing; as a
                # blank line it would end the document
                no_pieces += 1
            elif not lengths or lengths[-1]:
                lengths.append(0)
        counts = {
            "lines": written,
            "tokens": len(ids),
            "unknown": int(np.count_nonzero(ids == self.pieces.unknown_id)),
            "cut": cut,
            "no_pieces": no_pieces,
        }
        return EncodedBlock(ended(self._numbers[ids], np.array(lengths, np.int64)), counts)


class _Documents:
    """Writes blocks of sentences with exactly one blank one between two documents.

    Args:
        writer (SentenceWriter): where to.
    """

    def __init__(self, writer: SentenceWriter):
        self._writer = writer
        self._is_between = True
        self.documents = 0

    def write(self, sentences: Sentences) -> None:
        tokens, lengths = sentences
        if len(lengths) and lengths[0] == _BLANK:
            self._is_between = True
            tokens, lengths = tokens[1:], lengths[1:]
        if not len(lengths):
            return
        # the blank one at its end is the first of what is written next
        ends = lengths[-1] == _BLANK
        if ends:
            tokens, lengths = tokens[:-1], lengths[:-1]
        if self._is_between:
            if self.documents:
                self._writer.write(ended(tokens[:0], np.zeros(1, np.int64)))
            self.documents += 1
        self.documents += int(np.count_nonzero(lengths == _BLANK))
        self._writer.write(Sentences(tokens, lengths))
        self._is_between = bool(ends)


def encode_file(path: str, encoder: PieceEncoder, prefix: str, workers: int, bar) -> dict[str, int]:
    """Encode a file of cleaned lines into PREFIX.bin and PREFIX.idx.

    Args:
        path (str): clean text.
        encoder (PieceEncoder): encodes each block.
        prefix (str): of the files to write: a sentence for each line, a blank one, which is
            ``</s>`` alone, between two documents.
        workers (int): processes.
        bar (tqdm): advanced by the bytes read.
    Returns:
        dict: lines, tokens (pieces, without the </s> of each line), unknown pieces, lines added
        by splitting long ones, lines without any piece, documents.
    Raises:
        OSError: if there is no space left.
    """
    source = TextFile(path)
    counts = {"lines": 0, "tokens": 0, "unknown": 0, "cut": 0, "no_pieces": 0}
    before = bar.n
    with sentence_writer(prefix, encoder.dtype) as writer:
        documents = _Documents(writer)
        for block in ordered_map(encoder, source.blocks(), workers):
            documents.write(block.sentences)
            for name, count in block.counts.items():
                counts[name] += count
            bar.update(before + source.bytes_read - bar.n)
    counts["documents"] = documents.documents
    return counts
