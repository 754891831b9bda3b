"""The TUPE authors' treatment of text as rules of the ``tokenizers`` library.

:class:`AuthorsText` is the reference.  Here each of its steps is a replacement by a constant, in
the same order, and what Moses' tokenizer sets apart is set apart by regular expressions that see
one word at a time.  In it, as in the authors' scripts, a mark that has the right neighbours can
lose one to the mark before it; that is followed for the first marks of a row.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import sacremoses

from tupe_fairseq.data.tupe_text import PATTERNS, SYMBOLS
from tupe_fairseq.export.tokenizer.tokenizer_files import replace, replace_string

#: what stands for each symbol until it has its id: no text has private characters at that point
STAND_INS = dict(zip(SYMBOLS, "\ue000\ue001\ue002"))

_WHITE_SPACE = "[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
_ENDS = replace(r"\A +| +\z", "")
_MARK = r"[!-/:-@\[-`{-~]"
# passes that each set one mark at the begin of a word apart
_MARKS_BEFORE = 6
_LETTER = "[a-zA-Z]"

# Of the substitutions of sacremoses, those that keep a part of what they match
_KEEPING = {
    r"\) ([.!:?;,])": [replace(r"(?<=\)) (?=[.!:?;,])", "")],
    r"(\d) %": [replace(r"(?<=\d) (?=%)", "")],
    f"({_LETTER})‘({_LETTER})": [],  # the next rules have the same result
    # neither of two around one letter: the first takes the letter
    f"({_LETTER})’({_LETTER})": [
        replace(
            f"(?<={_LETTER})(?:(?<!{_LETTER}’{_LETTER})|(?<={_LETTER}’{_LETTER}’{_LETTER}))’"
            f"(?={_LETTER})",
            "'",
        )
    ],
    r'"([,.]+)': [
        replace('"' + marks.replace(".", r"\.") + "(?![,.])", marks + '"')
        for length in (4, 3, 2, 1)
        for marks in map("".join, itertools.product(",.", repeat=length))
    ],
}


def authors_normalizers() -> list[dict[str, Any]]:
    """From a line to its words with spaces between them, but for what Moses sets apart."""
    steps = [replace(_WHITE_SPACE, " "), _ENDS, replace(r"\.{4,}", "...")]
    steps += [replace_string("<<", "«"), replace_string(">>", "»")]
    steps += [replace_string(",,", ","), replace_string(",.", ".")]
    steps += [replace(r"(?<= )\*(?=\S)", ""), replace(" +", " "), _ENDS]
    for pattern, content in sacremoses.MosesPunctNormalizer("en", perl_parity=True).substitutions:
        if "\u00a0" in pattern:  # a space by now
            continue
        steps += _KEEPING[pattern] if "\\g" in content else [replace(pattern, content)]
    steps += [_ENDS, replace(r"\p{C}", " ")]
    # the library makes one character after another lower case, and this depends on its place
    steps += [replace(r"(?<=\p{L})Σ(?!\p{L})", "ς"), {"type": "Lowercase"}]
    steps += [replace_string("\\", " "), replace(r"\.(?=\.)|(?<=\.)\.", " . ")]
    steps.append(replace(rf"(?<=[^ ])(?={_MARK}+(?: |\z))", " "))
    steps += [replace(rf"(?<=\A{_MARK}| {_MARK})(?=[^ ])", " ")] * _MARKS_BEFORE
    for symbol, pattern in PATTERNS:
        pattern = pattern.replace("[^$s]", "[^$s ]")
        steps.append(replace(f"(?<![^ ])(?:{pattern})(?![^ ])", STAND_INS[symbol]))
    return [*steps, replace_string("-", " - ")]


def authors_pre_tokenizers() -> list[dict[str, Any]]:
    """What Moses' tokenizer sets apart in the words."""
    moses = sacremoses.MosesTokenizer("en")
    alpha, number = _ranges(moses.IsAlpha), _ranges(moses.IsN)
    short = "|".join(
        word.replace(".", r"\.")
        for word in moses.NONBREAKING_PREFIXES
        if word.islower() and " " not in word
    )
    return [
        {"type": "WhitespaceSplit"},
        _split(rf"[^{_ranges(moses.IsAlnum)}.'`,\-]"),
        _split(f"(?<![{number}]),|,(?![{number}])"),
        _split(f"(?<![{alpha}{number}])'|'(?![{alpha}])"),
        _split(
            f"(?<=[{alpha}])(?<![{alpha}]'[{alpha}])'(?=[{alpha}])|(?<=[{number}])'(?=s)",
            "MergedWithNext",
        ),
        # a full stop, but for abbreviations
        _split(rf"\A(?!(?:{short})\.\z)[^.]+\K\.\z|\A[^{alpha}]+\K\.\z"),
    ]


def _split(pattern: str, behavior: str = "Isolated") -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _ranges(characters: Iterable[str]) -> str:
    """The inside of a character class."""
    found: list[list[int]] = []
    for code in sorted(set(map(ord, characters))):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in found)
