"""Splits lines into sentences as sentence_splitter does, asking that library for little of each."""

import functools
import os
import re

import sentence_splitter

# A word is what spaces separate.  The library breaks a line only behind a word with one of .?!, and
# looks no further than to the next word that has a letter, a digit or an underscore and none of
# these marks: its patterns begin at a mark, and cannot go beyond such a character.
_AROUND_MARKS = re.compile(
    r"(?<![^ ])[^ .?!]*[.?!][^ ]*"
    r"(?: (?:[^ .?!]*[.?!][^ ]*|[^\w ]+)(?![^ ]))*"
    r"(?: [^ ]+)?"
)
# parts of lines, such as "Mr. X", whose sentences are remembered, and their longest
_REMEMBERED, _LONGEST = 1 << 14, 40


class LineSentences:
    """Splits by the rules of a language.

    Args:
        language (str): two letters.
    Raises:
        ValueError: if there are no rules for the language.
    """

    def __init__(self, language: str):
        if language not in split_languages():
            raise ValueError(
                f"no rules to split sentences of language {language!r}; "
                f"--split-sentences knows {', '.join(split_languages())}"
            )
        self._language = language
        self._whole = sentence_splitter.SentenceSplitter(language=language).split
        self._remembered = functools.lru_cache(_REMEMBERED)(self._split_part)

    def __reduce__(self):
        # what is remembered cannot be sent to another process
        return type(self), (self._language,)

    def split(self, line: str) -> list[str]:
        """The sentences of a line, without empty ones."""
        if " ".join(line.split()) != line:  # where it matters what is white space
            return list(filter(None, self._whole(line)))
        return list(filter(None, _AROUND_MARKS.sub(self._part, line).split("\n")))

    def _part(self, match) -> str:
        text = match.group()
        if " " not in text:  # the last word of the line
            return text
        return self._remembered(text) if len(text) <= _LONGEST else self._split_part(text)

    def _split_part(self, text: str) -> str:
        return "\n".join(self._whole(text))


def split_languages() -> list[str]:
    """The languages that sentences can be split in, as sentence_splitter has a file for each."""
    files = os.listdir(
        os.path.join(os.path.dirname(sentence_splitter.__file__), "non_breaking_prefixes")
    )
    return sorted(name[: -len(".txt")] for name in files if name.endswith(".txt"))
