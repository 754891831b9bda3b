"""The TUPE authors' vocabulary: how they split a line into words, and fastBPE's codes.

Their preprocessing is a chain of small scripts. Here it is one pass over each line, with sacremoses
in place of the scripts of Moses.
"""

import io
import itertools
import re
import string
from collections.abc import Iterable, Sequence

from tupe_fairseq.data.text_files import read_lines

_CONTINUED = "@@"
# size of the cache, in words
_MOST_CACHED = 1 << 20
#: placeholders for file names, e-mail addresses and links; BPE does not split them
SYMBOLS = ("<file>", "<email>", "<url>")

_ENDINGS = (
    "pdf mp4 mp3 doc xls docx ppt pptx wav wma csv tsv cpp py bat reg png jpg mov avi gif rtf txt "
    "bmp mid"
)
# Tried in this order. [^$s] is the authors' own: without "www.", a site with an s is not a link.
PATTERNS = (
    ("<url>", r"(?:(?:https?|ftp)://|www\.)[-a-z0-9+&@#/%?=~_|!:,.;]*[-a-z0-9+&@#/%=~_|]"),
    ("<url>", r"[^$s]{3}[^$s]*\.(?:com|net|org|edu|gov)"),
    (
        "<email>",
        r"[a-z0-9_\-.]+@(?:\[[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.|(?:[a-z0-9\-]+\.)+)"
        r"(?:[a-z]{2,4}|[0-9]{1,3})\]?",
    ),
    ("<file>", rf"[a-z_-][a-z0-9_-]{{4}}[a-z0-9_-]*\.(?:{'|'.join(_ENDINGS.split())})"),
)
_SYMBOL_OF = [(symbol, re.compile(pattern)) for symbol, pattern in PATTERNS]
_EDGES = string.punctuation


class TupeText:
    """Splits English text into lower-case words, as in the authors' pre-training data.

    It separates runs of dots and punctuation at the edges of words, replaces links, e-mail
    addresses and file names by placeholders, and splits words at hyphens. Moses' tokenizer then
    splits everything but the placeholders.
    """

    def __init__(self):
        import regex
        import sacremoses

        self._not_printing = regex.compile(r"\p{C}")
        self._punctuation = sacremoses.MosesPunctNormalizer("en", perl_parity=True)
        self._moses = sacremoses.MosesTokenizer("en")

    def words(self, line: str) -> list[str]:
        """The words of a line; a word is never empty and has no white space."""
        line = self._not_printing.sub(" ", self._punctuation.normalize(_tidied(line)))
        line = line.lower().replace("\\", " ")
        line = re.sub(r"\.{2,}", lambda dots: f" {dots.group()} ", line)
        parts = itertools.chain.from_iterable(map(_edges_apart, line.split()))
        parts = list(itertools.chain.from_iterable(map(_symbol_or_parts, parts)))
        words: list[str] = []
        for is_symbol, group in itertools.groupby(parts, SYMBOLS.__contains__):
            between = list(group)
            if not is_symbol:
                between = self._moses.tokenize(" ".join(between), escape=False)
            words += between
        return words


def _tidied(line: str) -> str:
    line = re.sub(r"\.{4,}", "...", " ".join(line.split()))
    line = line.replace("<<", "«").replace(">>", "»")
    line = line.replace(",,", ",").replace(",.", ".")
    line = re.sub(r" \*(\S)", r" \1", line)
    return " ".join(line.split())


def _edges_apart(word: str) -> list[str]:
    """The punctuation marks at the edges one by one, and what is between them, if anything."""
    without_left = word.lstrip(_EDGES)
    middle = without_left.rstrip(_EDGES)
    left = word[: len(word) - len(without_left)]
    right = without_left[len(middle) :]
    return [*left, *([middle] if middle else []), *right]


def _symbol_or_parts(word: str) -> list[str]:
    for symbol, pattern in _SYMBOL_OF:
        if pattern.fullmatch(word):
            return [symbol]
    return [part for part in re.split("(-)", word) if part]


class FastBpe:
    """The TUPE authors' preprocessing (:class:`TupeText`), then BPE with fastBPE's codes.

    subword-nmt applies the codes, with the same result, as fastBPE does not build on Python 3.11.
    """

    before_word = ""

    def __init__(self, codes: str):
        from subword_nmt.apply_bpe import BPE

        self.merges = read_codes(codes)
        lines = "".join(f"{left} {right}\n" for left, right in self.merges)
        # version 0.2 of subword-nmt's format marks the end of a word as fastBPE does
        self.bpe = BPE(io.StringIO(f"#version: 0.2\n{lines}"))
        self.text = TupeText()
        # the authors' fastBPE does not split these
        self.whole = {*SYMBOLS, "<unk>"}

    def split(self, line: str) -> list[str]:
        """The subwords of a line; those that do not end their word end in "@@"."""
        if len(self.bpe.cache) > _MOST_CACHED:
            self.bpe.cache.clear()
        subwords: list[str] = []
        for word in self.text.words(line):
            subwords += [word] if word in self.whole else self.bpe.segment_tokens([word])
        return subwords

    def join(self, subwords: Sequence[str]) -> str:
        """The text, tokenized and in lower case."""
        return f"{' '.join(subwords)} ".replace(f"{_CONTINUED} ", "").rstrip(" ")

    def unfit(self, words: Iterable[str]) -> list[str]:
        """The words that the codes do not produce; [] up to 1%, as other codes produce most."""
        merged = {left + right for left, right in self.merges}
        words = [word for word in words if not re.fullmatch("<.*>", word)]
        unfit = [word for word in words if not self._is_merged(word, merged)]
        return unfit if len(unfit) > 0.01 * len(words) else []

    @staticmethod
    def _is_merged(word: str, merged: set[str]) -> bool:
        if word.endswith(_CONTINUED) and word != _CONTINUED:
            word = word.removesuffix(_CONTINUED)
            return len(word) == 1 or word in merged
        return len(word) == 1 or f"{word}</w>" in merged


def read_codes(path: str) -> list[tuple[str, str]]:
    """The merges of fastBPE's codes, in order."""
    lines = [line.split(" ") for line in read_lines(path)]
    for number, fields in enumerate(lines, 1):
        if len(fields) != 3 or not all(fields) or not fields[2].isdigit():
            raise ValueError(
                f"{path}, line {number}: {' '.join(fields)[:80]!r} is not 'left right count', "
                "so this is not a file of fastBPE codes"
            )
    return [(left, right) for left, right, _ in lines]
