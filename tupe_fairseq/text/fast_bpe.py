"""fastBPE's pieces of the words that the TUPE authors' preprocessing makes."""

import io
import re
from collections.abc import Iterable

from tupe_fairseq.files.names import FILLER

_END = "</w>"
_CONTINUED = "@@"
# words whose pieces are remembered; those of a large corpus would fill the memory
_REMEMBERED = 1 << 20
# A file of codes from another training shares most pieces, never all but a few.
_MOST_UNFIT = 0.01


class FastBpe:
    """Text to pieces as the authors made them: :class:`AuthorsText`, then BPE by fastBPE's codes.

    The codes are applied by subword-nmt, with the same result: fastBPE itself cannot be built on
    Python 3.11.

    Args:
        codes (str): the file of codes, "left right count" on each line.
    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not a file of codes.
        ModuleNotFoundError: if sacremoses or subword-nmt is not installed.
    """

    #: whether a piece does not itself say that a space is before it
    words_apart = True
    before_word = ""

    def __init__(self, codes: str):
        pairs = read_codes(codes)
        from subword_nmt.apply_bpe import BPE

        from tupe_fairseq.data.tupe_text import SYMBOLS
        from tupe_fairseq.data.tupe_text import TupeText as AuthorsText

        lines = "".join(f"{left} {right}\n" for left, right in pairs)
        # of version 0.2 of subword-nmt's format are codes that mark a word's end as fastBPE's do
        self._bpe = BPE(io.StringIO(f"#version: 0.2\n{lines}"))
        self._text = AuthorsText()
        # their fastBPE leaves these whole, the public one does not
        self._whole = {*SYMBOLS, "<unk>"}

    def split(self, line: str) -> list[str]:
        """The pieces of a line; "@@" ends a piece within a word."""
        if len(self._bpe.cache) > _REMEMBERED:
            self._bpe.cache.clear()
        pieces: list[str] = []
        for word in self._text.words(line):
            pieces += [word] if word in self._whole else self._bpe.segment_tokens([word])
        return pieces

    def join(self, pieces: list[str]) -> str:
        """The words that the pieces make, lower case and tokenized."""
        return f"{' '.join(pieces)} ".replace(f"{_CONTINUED} ", "").rstrip(" ")


def check_codes(codes: str, words: Iterable[str]) -> None:
    """Refuse codes that cannot make the words of a dict.txt.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not a file of codes, or more than a few of the words are not pieces
            that it makes.
    """
    made = {left + right for left, right in read_codes(codes)}
    # a word with brackets of its own is a symbol, which has no pieces
    words = [word for word in words if not re.fullmatch("<.*>", word)]
    unfit = [word for word in words if not (_is_made(word, made) or FILLER.fullmatch(word))]
    if len(unfit) > _MOST_UNFIT * len(words):
        raise ValueError(
            f"{codes} does not fit the dictionary: {len(unfit)} of its {len(words)} words are not "
            f"pieces that these codes make, such as {', '.join(unfit[:3])}; give the codes that "
            "the training data was made with"
        )


def _is_made(word: str, made) -> bool:
    if word.endswith(_CONTINUED) and len(word) > len(_CONTINUED):
        piece = end = word[: -len(_CONTINUED)]
    else:
        piece, end = word, word + _END
    return len(piece) == 1 or end in made


def read_codes(path: str) -> list[tuple[str, str]]:
    """The pairs that fastBPE's codes join, the first first.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not a file of codes.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        try:
            lines = [line.rstrip("\n").split(" ") for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not a text file in UTF-8") from error
    for number, fields in enumerate(lines, 1):
        if len(fields) != 3 or not all(fields) or not fields[2].isdigit():
            raise ValueError(
                f"{path}, line {number}: {' '.join(fields)[:80]!r} is not 'left right count', "
                "so these are not codes of fastBPE"
            )
    if not lines:
        raise ValueError(f"{path} is empty")
    return [(left, right) for left, right, _ in lines]
