#!/usr/bin/env python3
"""Make a tagging set of any English text: which small word has been dropped before a word?

Articles, prepositions and "and" are removed from each sentence, and the word after each is tagged
with it (B-the, B-of, ...; all others O), much like correcting what learners write.

    python dropped_words.py train.txt train.conll --sentences 4000
    python dropped_words.py valid.txt valid.conll --sentences 1000
"""

import argparse
import lzma
import os
import random
import re

DROPPED = "the a an of to in and for on with at by from".split()
# roughly a sentence: from a capital letter to a full stop
SENTENCE = re.compile(r"(?<![^\s.])[A-Z][^.!?]*[.!?](?=\s|$)")
WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def sentences(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            for sentence in SENTENCE.findall(line):
                words = WORD.findall(sentence)
                if 5 <= len(words) <= 40:
                    yield words


def tagged(words):
    """The remaining words with their tags; if several in a row are dropped, the last one counts."""
    dropped = None
    for word in words:
        if word.lower() in DROPPED:
            dropped = word.lower()
        else:
            yield word, f"B-{dropped}" if dropped else "O"
            dropped = None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="plain text, or .xz")
    parser.add_argument("conll", help="the file to write: a word and its tag on each line")
    parser.add_argument("--sentences", type=int, default=4000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which sentences")
    args = parser.parse_args()
    if os.path.realpath(args.text) == os.path.realpath(args.conll):
        parser.error(f"{args.conll} is the text itself; name another file")
    found = list(sentences(args.text))
    if len(found) < args.sentences:
        parser.error(f"{args.text} has {len(found)} sentences; --sentences is {args.sentences}")
    found = random.Random(args.seed).sample(found, args.sentences)
    with open(args.conll, "w", encoding="utf-8") as file:
        for words in found:
            file.writelines(f"{word}\t{tag}\n" for word, tag in tagged(words))
            file.write("\n")


if __name__ == "__main__":
    main()
