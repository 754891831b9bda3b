"""The TUPE authors' checkpoints with a vocabulary of real text, converted."""

import collections

from running import run

from tupe_fairseq.data.tupe_text import TupeText

MERGES = 10  # their vocabularies have 41 and 61 words, most of which letters take
LABELS = "yes 3\nno 2\nmaybe 1\n"


def convert_authors(goldens, name, lines, out):
    """OUT/model.pt with a vocabulary of fastBPE's kind, learned from real text.

    The files of their code that are at hand have made-up words; the same number of real pieces
    takes their place.

    Args:
        goldens (Path): the folder with NAME.pt and NAME.dict.txt.
        lines (list of str): English text to learn the codes from.
        out (Path): the folder to write.
    """
    out.mkdir(parents=True)
    their_words = (goldens / f"{name}.dict.txt").read_text().splitlines()
    codes, pieces = learn(lines, MERGES)
    room = len(their_words) - 1  # the last is <mask>
    dictionary = [f"{piece} {count}" for piece, count in pieces[:room]]
    (out / "theirs.txt").write_text("\n".join([*dictionary, their_words[-1]]) + "\n")
    (out / "codes").write_text("".join(f"{left} {right} 1\n" for left, right in codes))
    (out / "labels.txt").write_text(LABELS)
    labels = ["--label-dict", out / "labels.txt"] if name.endswith("finetuned") else []
    run(
        "tupe-convert", "--checkpoint", goldens / f"{name}.pt", "--dict", out / "theirs.txt",
        "--bpe-codes", out / "codes", *labels, "--output-dir", out,
    )  # fmt: skip


def learn(lines, merges):
    """Codes of byte pair encoding, and the pieces that they make with how often.

    Returns:
        tuple: a list of pairs as fastBPE writes them, and a list of (piece, count), most frequent
        first.
    """
    text = TupeText()
    words = collections.Counter(word for line in lines for word in text.words(line))
    split = {word: (*word[:-1], word[-1] + "</w>") for word in words}
    codes = []
    for _ in range(merges):
        pairs = collections.Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        codes.append(best)
        split = {word: merged(parts, best) for word, parts in split.items()}
    pieces = collections.Counter()
    for word, parts in split.items():
        for part in parts:
            at_end = part.endswith("</w>")
            pieces[part[: -len("</w>")] if at_end else part + "@@"] += words[word]
    return codes, sorted(pieces.items(), key=lambda item: (-item[1], item[0]))


def merged(parts, pair):
    """The parts of a word with every occurrence of the pair joined, from the left."""
    out = []
    for part in parts:
        if out and (out[-1], part) == pair and not out[-1].endswith("</w>"):
            out[-1] += part
        else:
            out.append(part)
    return tuple(out)
