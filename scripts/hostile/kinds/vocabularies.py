"""Dictionaries, lists of labels, SentencePiece models, and the vocabularies of other programs."""

import random
from collections.abc import Iterator
from pathlib import Path

from case import REFUSED, SAME, VALUE, Case, replaced
from damage import cuts, flips, json_fields, no_such_file, no_such_json, thinned

KIND_DICT, KIND_PIECES, KIND_FOREIGN = "dict.txt", "SentencePiece model", "foreign vocabulary"
_OF_DICT = ("encode", "score", "TupeRobertaModel", "export", "plot", "extend")
_SPM = "sentencepiece.bpe.model"


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """All kinds of vocabulary."""
    yield from _dictionaries(scenes, draw)
    yield from _pieces(scenes, draw)
    yield from _foreign(scenes, draw)


def _dictionaries(scenes: Path, draw: random.Random) -> Iterator[Case]:
    sound = (scenes / "pretrained" / "data" / "dict.txt").read_bytes()
    for number, (name, content, right) in enumerate(_odd_dictionaries(sound, draw)):
        change = replaced("data/dict.txt", content)
        readers = (_OF_DICT[number % 3], _OF_DICT[number % len(_OF_DICT)])
        yield Case(KIND_DICT, name, "pretrained", change, tuple(dict.fromkeys(readers)), right)
        if number % 3 == 0:
            yield Case(KIND_DICT, name, "text", change, ("prepare-pretrain",), VALUE)
            yield Case(KIND_DICT, name, "official", change, ("prepare-glue",), VALUE)
    labels = (scenes / "fine-tuned" / "model" / "label" / "dict.txt").read_bytes()
    for number, (name, content, _) in enumerate(_odd_dictionaries(labels, draw)):
        if number % 2 == 0:
            change = replaced("model/label/dict.txt", content)
            yield Case(KIND_DICT, f"labels: {name}", "fine-tuned", change, ("predict",), SAME)


def _odd_dictionaries(sound: bytes, draw: random.Random) -> Iterator[tuple[str, bytes, str]]:
    lines = sound.splitlines(keepends=True)
    first, second, *rest = lines
    word = first.split()[0]
    odd: dict[str, bytes] = {
        "two lines exchanged": b"".join([second, first, *rest]),
        "a line gone": b"".join(lines[1:]),
        "a line more": sound + b"more 1\n",
        "a word twice": sound + word + b" 3\n",
        "a word twice, overwritten": sound + word + b" 3 #fairseq:overwrite\n",
        "a negative count": sound.replace(first, word + b" -1\n"),
        "a count of words": sound.replace(first, word + b" many\n"),
        "a count of 10^30": sound.replace(first, word + b" " + b"9" * 30 + b"\n"),
        "a count of 5000 digits": sound.replace(first, word + b" " + b"9" * 5000 + b"\n"),
        "no count": sound.replace(first, word + b"\n"),
        "Arabic digits": sound.replace(first, word + " ٣\n".encode()),
        "a blank line": first + b"\n" + b"".join([second, *rest]),
        "carriage returns": sound.replace(b"\n", b"\r\n"),
        "in UTF-16": sound.decode().encode("utf-16"),
        "in Latin-1": sound + b"\xe9t\xe9 1\n",
        "a byte order mark": b"\xef\xbb\xbf" + sound,
        "a line separator": sound.replace(first, word + "\u2028".encode() + b" 1\n"),
        "control characters": sound.replace(first, b"\x1b[2J 1\n"),
        "a built-in symbol": sound + b"<pad> 1\n",
        "a line of a megabyte": sound + b"x" * 2**20 + b" 1\n",
        "200,000 lines": sound + b"".join(b"w%d 1\n" % n for n in range(200_000)),
        "200,000 lines, the last twice": sound
        + b"".join(b"w%d 1\n" % (n // 2 * 2 + n % 2 * (n < 199_999)) for n in range(200_000)),
        "zero bytes": sound.replace(first, b"\0 1\n"),
        "without the last newline": sound[:-1],
        "the mask in it": b"<mask> 1\n" + sound,
    }
    same = ("a count of 10^30", "a count of 5000 digits", "without the last newline",
            "carriage returns", "Arabic digits")  # fmt: skip
    for name, content in odd.items():
        yield name, content, SAME if name in same else REFUSED
    for name, content, right in no_such_file(sound):
        yield name, content, right if name != "something before it" else REFUSED
    for name, content in flips(sound, 6, draw):
        # a count is not used; and <unk> stands for a word that is another one
        yield name, content, VALUE
    for name, content in thinned(list(cuts(sound, range(0, len(sound), 97))), 4, draw):
        yield name, content, VALUE if content[-1:].isdigit() else REFUSED


def _pieces(scenes: Path, draw: random.Random) -> Iterator[Case]:
    sound = (scenes / "pretrained" / "data" / _SPM).read_bytes()
    readers = (("encode", "pretrained"), ("score", "pretrained"), ("export", "pretrained"),
               ("prepare-pretrain", "text"), ("prepare-glue", "official"),
               ("prepare-task csv", "rows"))  # fmt: skip
    odd = [
        *((name, content, SAME) for name, content in flips(sound, 24, draw)),
        *(
            (name, content, SAME)
            for name, content in thinned(list(cuts(sound, range(0, len(sound), 61))), 14, draw)
        ),
        *((name, content, SAME) for name, content, _ in no_such_file(sound)),
        ("a length of 2^31", b"\x0a\xff\xff\xff\xff\x07" + sound, SAME),
        ("a length of 2^63", b"\x0a" + b"\xff" * 9 + b"\x01" + sound, SAME),
        ("deep groups", b"\x0b" * 100_000, SAME),
        ("a text", b"this is no model\n" * 50, SAME),
    ]
    for number, (name, content, _) in enumerate(odd):
        reader, scene = readers[number % len(readers)]
        # a flipped bit may change the score of a piece, and so how a word is cut
        right = REFUSED if name in ("empty", "zeros", "a text", "deep groups") else VALUE
        yield Case(KIND_PIECES, name, scene, replaced(f"data/{_SPM}", content), (reader,), right)


def _foreign(scenes: Path, draw: random.Random) -> Iterator[Case]:
    codes = (scenes / "authors" / "bpe-code").read_bytes()
    odd = {
        "no counts": codes.replace(b" 7\n", b"\n"),
        "one word in a line": codes + b"alone\n",
        "four words in a line": codes + b"a b c 7\n",
        "in UTF-16": codes.decode().encode("utf-16"),
        "no UTF-8": codes + b"\xff\xfe 7\n",
        "a pair twice": codes + codes.splitlines()[0] + b"\n",
        "a blank line": b"\n" + codes,
        "zero bytes": codes + b"\0 \0 7\n",
        "empty": b"",
        "a line of a megabyte": codes + b"x" * 2**20 + b" y 7\n",
        "300,000 lines": codes + b"".join(b"x%d y 7\n" % n for n in range(300_000)),
        **dict(flips(codes, 6, draw)),
    }
    for name, content in odd.items():
        change = replaced("bpe-code", content)
        yield Case(KIND_FOREIGN, f"codes: {name}", "authors", change, ("convert",), VALUE)
    theirs = (scenes / "authors" / "theirs.txt").read_bytes()
    for name, content, right in _odd_dictionaries(theirs, draw):
        change = replaced("theirs.txt", content)
        right = VALUE if right != REFUSED or name == "two lines exchanged" else right
        yield Case(KIND_FOREIGN, f"dict: {name}", "authors", change, ("convert",), VALUE)
    numbers = (scenes / "stock" / "encoder.json").read_bytes()
    for name, content, right in no_such_json(numbers):
        change = replaced("encoder.json", content)
        yield Case(KIND_FOREIGN, f"encoder.json: {name}", "stock", change, (
            "convert --untie",), right)  # fmt: skip
    for name, content, _ in thinned(list(json_fields(numbers, draw, 1)), 12, draw):
        change = replaced("encoder.json", content)
        yield Case(KIND_FOREIGN, f"encoder.json: {name}", "stock", change, (
            "convert --untie",), VALUE)  # fmt: skip
    merges = (scenes / "stock" / "vocab.bpe").read_bytes()
    odd = {
        "without a version": merges.split(b"\n", 1)[1], "three parts": merges + b"a b c\n",
        "one part": merges + b"alone\n", "unknown parts": merges + b"zz yy\n", "empty": b"",
        "no UTF-8": merges + b"\xff \xfe\n", "cut": merges[: len(merges) // 2],
    }  # fmt: skip
    for name, content in odd.items():
        change = replaced("vocab.bpe", content)
        yield Case(KIND_FOREIGN, f"vocab.bpe: {name}", "stock", change, ("convert --untie",), VALUE)
