"""TUPE's preprocessing: the words that the authors make of a line, before BPE.

Their scripts are a chain of small programs; what each does to a line is done here in one pass, by
sacremoses where theirs is a script of Moses.
"""

import itertools
import re
import string

import regex
import sacremoses

#: the words that stand for a file name, an address, a link: BPE leaves them whole
SYMBOLS = ("<file>", "<email>", "<url>")

_ENDINGS = (
    "pdf mp4 mp3 doc xls docx ppt pptx wav wma csv tsv cpp py bat reg png jpg mov avi gif rtf txt "
    "bmp mid"
)
# In this order.  The class [^$s] is theirs: a site with an s in its name is no link without "www.".
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
_NOT_PRINTING = regex.compile(r"\p{C}")
_EDGES = string.punctuation


class TupeText:
    """Makes lower-case words of English text.

    Runs of dots are set apart, punctuation at the edges of a word stands alone, links, addresses
    and names of files become symbols, words are divided at hyphens; then Moses' tokenizer, which
    leaves the symbols whole, as in their pre-training data.
    """

    def __init__(self):
        self._punctuation = sacremoses.MosesPunctNormalizer("en", perl_parity=True)
        self._moses = sacremoses.MosesTokenizer("en")

    def words(self, line: str) -> list[str]:
        """The words of a line; a word is never empty and has no white space."""
        line = _NOT_PRINTING.sub(" ", self._punctuation.normalize(_tidied(line)))
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
    """Each punctuation mark at the edges, and what is between them, if anything."""
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
