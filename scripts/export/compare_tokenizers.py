#!/usr/bin/env python3
"""Compare the ids of an exported tokenizer with those of fairseq's hub interface, line by line.

Usage: compare_tokenizers.py FOLDER VOCABULARY FILE [FILE ...] [--lines N] [--show N]

FOLDER has a tokenizer.json.  VOCABULARY has dict.txt, and sentencepiece.bpe.model or what
tupe-convert recorded.  Each FILE is text, or compressed with xz.  Exit code 1 if a line differs.
"""

import argparse
import itertools
import json
import lzma
import os
import sys

from fairseq.data import Dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from tokenizers import Tokenizer

from tupe_fairseq.files.names import DICTIONARY, MASK, SENTENCEPIECE_MODEL
from tupe_fairseq.inference.hub import recorded_bpe

BATCH = 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="with a tokenizer.json")
    parser.add_argument("vocabulary", help="with dict.txt and the files of the vocabulary")
    parser.add_argument("file", nargs="+", help="text, or text compressed with xz")
    parser.add_argument("--lines", type=int, help="of each file, at most")
    parser.add_argument("--show", type=int, default=5, help="differing lines to show")
    args = parser.parse_args()

    dictionary = Dictionary.load(os.path.join(args.vocabulary, DICTIONARY))
    dictionary.add_symbol(MASK)
    encode = hub_encoding(args.vocabulary)
    tokenizer = Tokenizer.from_file(os.path.join(args.folder, "tokenizer.json"))
    size = len(dictionary)
    differing = 0
    for path in args.file:
        count = wrong = 0
        with open_text(path) as file:
            lines = (line.rstrip("\n") for line in itertools.islice(file, args.lines))
            for batch in iter(lambda lines=lines: list(itertools.islice(lines, BATCH)), []):
                for line, encoded in zip(batch, tokenizer.encode_batch(batch)):
                    expected = hub_ids(dictionary, encode, line)
                    # the ids after the dictionary's are of pieces that it lacks
                    found = [id_ if id_ < size else dictionary.unk() for id_ in encoded.ids]
                    count += 1
                    if found != expected:
                        wrong += 1
                        if differing + wrong <= args.show:
                            show(path, count, line, expected, found, dictionary)
        print(f"{path}: {count} lines, {wrong} differ", flush=True)
        differing += wrong
    return int(differing > 0)


def hub_encoding(folder):
    """What the hub interface splits a line with."""
    recorded = recorded_bpe(folder, folder)
    if recorded is None:
        model = os.path.join(folder, SENTENCEPIECE_MODEL)
        recorded = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=model))
    return recorded.encode


def hub_ids(dictionary, encode, line):
    """As RobertaHubInterface.encode, for which a whole model would have to be loaded."""
    line = f"<s> {encode(line)} </s>"
    return dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).tolist()


def open_text(path):
    if path.endswith(".xz"):
        return lzma.open(path, "rt", encoding="utf-8", newline="\n")
    return open(path, encoding="utf-8", newline="\n")


def show(path, number, line, expected, found, dictionary):
    first = next(
        (place for place, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]),
        min(len(expected), len(found)),
    )
    around = slice(max(0, first - 2), first + 6)
    print(f"{path}, line {number}: {json.dumps(line[:200])}")
    for name, ids in (("fairseq", expected), ("tokenizer", found)):
        print(f"  {name:9} ... {' '.join(map(dictionary.__getitem__, ids[around]))} ...")


if __name__ == "__main__":
    sys.exit(main())
