"""fairseq's dictionary: dict.txt lists a word and its count on each line, the first id first."""

import re
from collections import Counter
from collections.abc import Iterable

from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.files import atomic_write

#: the first ids of every dictionary, which dict.txt does not list
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(len(SPECIAL_TOKENS))
#: fairseq's tasks add it at the end if dict.txt does not list it
MASK = "<mask>"
#: fairseq-preprocess pads dict.txt to a multiple of eight words with these
FILLER = re.compile(r"madeupword\d+")

DICTIONARY = "dict.txt"
#: what is in a data folder, and how it was made
REPORT = "report.json"


def read_dictionary(path: str) -> list[str]:
    """The words of dict.txt, in order, without the special tokens."""
    words = []
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rstrip().rpartition(" ")
        if not word or not (count.isascii() and count.isdigit()):
            raise ValueError(
                f"{path}, line {number}: {line[:50]!r} is not a word and its integer count"
            )
        words.append(word)
    twice = [word for word, times in Counter(words).items() if times > 1]
    if twice:
        raise ValueError(f"{path} lists {twice[0][:50]!r} twice")
    return words


def word_ids(path: str) -> dict[str, int]:
    """The id of each word of dict.txt and of the special tokens in fairseq's dictionary."""
    words = read_dictionary(path)
    for word in SPECIAL_TOKENS:
        if word in words:
            raise ValueError(f"{path} lists {word}, which fairseq's dictionary adds itself")
    return {word: number for number, word in enumerate([*SPECIAL_TOKENS, *words])}


def write_dictionary(path: str, words: Iterable[str]) -> None:
    with atomic_write(path) as file:
        file.writelines(f"{word} 1\n" for word in words)
