"""From clean text to lines of pieces, as fairseq-preprocess reads them."""

from typing import Any, Dict, NamedTuple

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.text.documents import DocumentWriter, Lines, collapse
from tupe_fairseq.text.parallel import ordered_map
from tupe_fairseq.text.reading import TextFile


class EncodedBlock(NamedTuple):
    """Lines of pieces, and counts of them."""

    lines: Lines
    counts: Dict[str, int]


class PieceEncoder:
    """Encodes blocks of lines.

    Args:
        pieces (Pieces or ListedPieces): the vocabulary.
        max_pieces (int): longer lines are split.
    """

    def __init__(self, pieces: Any, max_pieces: int):
        self.pieces = pieces
        self.max_pieces = max_pieces

    def __call__(self, block: bytes) -> EncodedBlock:
        """Encode whole lines; blank ones are kept."""
        lines = block.decode().split("\n")[:-1]
        to_bytes, unknown_id, limit = self.pieces.to_bytes, self.pieces.unknown_id, self.max_pieces
        found = []
        written = tokens = unknown = cut = no_pieces = 0
        for line, ids in zip(lines, self.pieces.encode(lines)):
            if not ids:
                # SentencePiece's normalization can reduce a line to nothing; as a
                # blank line it would end the document
                if line:
                    no_pieces += 1
                else:
                    found.append(b"")
                continue
            tokens += len(ids)
            unknown += ids.count(unknown_id)
            if len(ids) <= limit:
                found.append(to_bytes(ids))
                written += 1
                continue
            starts = range(0, len(ids), limit)
            found += [to_bytes(ids[start : start + limit]) for start in starts]
            written += len(starts)
            cut += len(starts) - 1
        counts = {
            "lines": written,
            "tokens": tokens,
            "unknown": unknown,
            "cut": cut,
            "no_pieces": no_pieces,
        }
        return EncodedBlock(collapse(found), counts)


def encode_file(path: str, encoder: PieceEncoder, output: str, workers: int, bar) -> Dict[str, int]:
    """Encode a file of cleaned lines.

    Args:
        path (str): clean text.
        encoder (PieceEncoder): encodes each block.
        output (str): file to write: one line of pieces for each line, blank lines kept.
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
    with atomic_write(output, "wb") as file:
        writer = DocumentWriter(file)
        for block in ordered_map(encoder, source.blocks(), workers):
            writer.write(block.lines)
            for name, count in block.counts.items():
                counts[name] += count
            bar.update(before + source.bytes_read - bar.n)
    counts["documents"] = writer.documents
    return counts
