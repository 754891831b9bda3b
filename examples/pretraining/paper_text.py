"""Text as in the paper: a sentence a line, short ones joined with the next of their document.

    pip install sentence-splitter
    python examples/pretraining/paper_text.py train.txt > sentences.txt

Without FILE it reads the standard input. A document ends at a blank line.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator

from sentence_splitter import SentenceSplitter


def sentences(
    lines: Iterable[str], split: Callable[[str], list[str]], shortest: int
) -> Iterator[str]:
    """Lines of at least ``shortest`` characters, but for the last one of a document."""
    line = ""
    for paragraph in lines:
        for sentence in filter(None, split(paragraph.strip())):
            if line and len(line) >= shortest:
                yield line
                line = ""
            line = f"{line} {sentence}" if line else sentence
        if not paragraph.strip():
            yield from [line, ""] if line else [""]
            line = ""
    if line:
        yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="UTF-8 text")
    parser.add_argument("--language", default="en", help="its two letters, default en")
    parser.add_argument("--join-short", type=int, default=200, metavar="N", help="join a line of "
        "fewer characters with the next, default 200; 0: never")  # fmt: skip
    args = parser.parse_args()
    split = SentenceSplitter(language=args.language).split
    sys.stdin.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8")
    for path in args.files or ["-"]:
        with sys.stdin if path == "-" else open(path, encoding="utf-8") as lines:
            for line in sentences(lines, split, args.join_short):
                print(line)
            print()


if __name__ == "__main__":
    main()
