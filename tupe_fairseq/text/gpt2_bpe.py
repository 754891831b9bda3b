"""GPT-2's byte BPE, with which fairseq's public RoBERTa was trained."""

from collections.abc import Iterable
from typing import Any

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.names import FILLER


class Gpt2Bpe:
    """Text to pieces as fairseq's ``--bpe gpt2`` makes them; dict.txt lists their numbers.

    The code is fairseq's; the files are local ones, so that nothing is downloaded.

    Args:
        encoder_json (str): the pieces and their numbers.
        vocab_bpe (str): the pairs that are joined.
    Raises:
        OSError: if a file cannot be read.
        ValueError: if one is not what its name says.
        ModuleNotFoundError: if fairseq or regex is not installed.
    """

    #: a space belongs to the word after it
    before_word = " "

    def __init__(self, encoder_json: str, vocab_bpe: str):
        import regex  # noqa: F401  # fairseq's code needs it, and hides that it is missing
        from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

        _read_numbers(encoder_json, vocab_bpe)
        self._files = (encoder_json, vocab_bpe)
        self._encoder = get_encoder(encoder_json, vocab_bpe)

    def __reduce__(self):
        # fairseq's encoder holds a module, which cannot be sent to another process
        return type(self), self._files

    def split(self, line: str) -> list[str]:
        """The numbers of the pieces of a line, as text."""
        return list(map(str, self._encoder.encode(line)))

    def join(self, pieces: list[str]) -> str:
        """The text of the pieces; other words, such as ``<mask>``, are left out."""
        return self._encoder.decode([int(piece) for piece in pieces if piece.isdigit()])


def check_numbers(encoder_json: str, vocab_bpe: str, words: Iterable[str]) -> None:
    """Refuse files that do not belong to a dict.txt, whose words must be the pieces' numbers.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if a word is not the number of a piece, or a file is not what its name says.
    """
    numbers = set(map(str, _read_numbers(encoder_json, vocab_bpe).values()))
    unfit = [word for word in words if word not in numbers and not FILLER.fullmatch(word)]
    if unfit:
        raise ValueError(
            f"{encoder_json} does not fit the dictionary: {len(unfit)} words of it are not numbers "
            f"of its {len(numbers)} pieces, such as {', '.join(unfit[:3])}"
        )


def _read_numbers(encoder_json: str, vocab_bpe: str) -> dict[str, int]:
    """The number of each piece; every byte and every joined pair has one."""
    from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

    numbers: Any = read_json(encoder_json)
    alphabet = set(bytes_to_unicode().values())
    if (
        not isinstance(numbers, dict)
        or not all(type(number) is int for number in numbers.values())
        or not alphabet <= set(numbers)
    ):
        raise ValueError(f"{encoder_json} is not GPT-2's encoder.json: a number for each piece")
    with open(vocab_bpe, encoding="utf-8") as file:
        try:
            pairs = [line.split() for line in file.read().split("\n")[1:-1]]
        except UnicodeDecodeError as error:
            raise ValueError(f"{vocab_bpe} is not a text file in UTF-8") from error
    for number, pair in enumerate(pairs, 2):
        if len(pair) != 2 or "".join(pair) not in numbers:
            raise ValueError(
                f"{vocab_bpe}, line {number}: {' '.join(pair)[:80]!r} is not a pair that joins to "
                f"a piece of {encoder_json}"
            )
    return numbers
