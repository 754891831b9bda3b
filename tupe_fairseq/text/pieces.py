"""Splits text with a SentencePiece model, and writes the fairseq dictionary that matches it."""

from collections.abc import Iterable, Sequence

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, FILLER, MASK


class Pieces:
    """A SentencePiece model.

    Args:
        path (str): the model file.
    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not a SentencePiece model.
        ModuleNotFoundError: if sentencepiece is not installed.
    """

    #: what must be put before a word, unless it is the first of a line, for the pieces that it has
    #: within the line
    before_word = ""

    def __init__(self, path: str):
        import sentencepiece

        with open(path, "rb") as file:
            content = file.read()
        try:
            if not content:  # of which it would make a processor without any piece
                raise ValueError("it is empty")
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=content)
            size = self._processor.get_piece_size()
            self.unknown_id = self._processor.unk_id()
            self._pieces = [self._processor.id_to_piece(i) for i in range(size)]
        except (RuntimeError, ValueError) as error:  # ValueError: pieces that are not UTF-8
            raise ValueError(f"{path} is not a SentencePiece model") from error
        # fairseq's name for it, even if this model has another
        self._pieces[self.unknown_id] = "<unk>"

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of the pieces of each line."""
        # one thread; for more, run several processes
        return self._processor.encode(list(lines), out_type=int, num_threads=1)

    def split(self, line: str) -> list[str]:
        """The pieces of a line as text."""
        return [self._pieces[i] for i in self.encode([line])[0]]

    def join(self, pieces: list[str]) -> str:
        """The text that the pieces make, as fairseq's encoding of SentencePiece joins them."""
        return "".join(pieces).replace("\u2581", " ").strip()

    def numbers(self, ids: dict[str, int]) -> list[int]:
        """The number of each id in fairseq's dictionary; that of ``<unk>`` if it lacks the piece.

        Args:
            ids (dict): of the dictionary, from :func:`dictionary_ids`.
        """
        return [ids.get(piece, ids[BUILT_IN_SYMBOLS[-1]]) for piece in self._pieces]

    def to_text(self, ids: Sequence[int]) -> str:
        """Pieces separated by spaces, as fairseq's dictionary reads them."""
        return " ".join(map(self._pieces.__getitem__, ids))

    def words(self) -> Iterable[str]:
        """The content of dict.txt: all pieces but fairseq's built-in symbols and the mask."""
        for i, piece in enumerate(self._pieces):
            if not (self._processor.is_control(i) or piece in BUILT_IN_SYMBOLS or piece == MASK):
                yield piece

    def write_dictionary(self, path: str) -> None:
        """Write dict.txt.  masked_lm and sentence_prediction add the mask at its end."""
        with atomic_write(path) as file:
            file.writelines(f"{word} 1\n" for word in self.words())


def check_pieces(model: str, words: Iterable[str]) -> None:
    """Refuse a model that has not the words of a dict.txt, which may list fewer than it has.

    Raises:
        OSError, ValueError: as :class:`Pieces`.
        ValueError: if a word is not one of its pieces.
    """
    pieces = set(Pieces(model).words())
    unfit = [word for word in words if word not in pieces and not FILLER.fullmatch(word)]
    if unfit:
        raise ValueError(
            f"{model} does not fit the dictionary: {len(unfit)} words of it are not among its "
            f"{len(pieces)} pieces, such as {', '.join(unfit[:3])}"
        )
