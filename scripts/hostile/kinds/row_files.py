"""Files of rows: TSV, CSV, JSON lines, CoNLL, parquet, and GLUE's own."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

from case import REFUSED, VALUE, Case, replaced
from damage import DEEP, cuts, flips, thinned

KIND = "rows"
_READERS = {
    "csv": (("rows", "prepare-task csv", "in.csv"), ("fine-tuned", "predict", "in.csv")),
    "tsv": (("rows", "prepare-task tsv", "in.tsv"), ("fine-tuned", "predict rows", "in.tsv")),
    "jsonl": (("rows", "prepare-task jsonl", "in.jsonl"),),
    "conll": (("rows", "prepare-task conll", "in.conll"),),
}


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """Odd lines in the middle, other encodings, cuts, bits; and what is of no such format."""
    for ending, readers in _READERS.items():
        for scene, reader, place in readers:
            sound = (scenes / scene / place).read_bytes()
            odd = {
                **_any_text(sound),
                **_ODD[ending](sound),
                **dict(flips(sound, 5, draw)),
                **dict(thinned(list(cuts(sound, range(0, len(sound), 331))), 3, draw)),
            }
            for name, content in odd.items():
                right = REFUSED if name in _NEVER else VALUE
                change = replaced(place, content)
                yield Case(KIND, f"{ending}: {name}", scene, change, (reader,), right)
    yield from _parquet(scenes, draw)
    yield from _official(scenes, draw)


# compression shows in the first bytes, whatever the name
_NEVER = ("empty", "in UTF-16", "no UTF-8", "only a header")


def _any_text(sound: bytes) -> dict[str, bytes]:
    half = sound.index(b"\n", len(sound) // 2) + 1
    before, after = sound[:half], sound[half:]
    return {
        "empty": b"",
        "newlines alone": b"\n" * 1000,
        "in UTF-16": sound.decode().encode("utf-16"),
        "no UTF-8": before + b"\xff\xfe\xfd\n" + after,
        "a byte order mark": b"\xef\xbb\xbf" + sound,
        "zero bytes": before + b"\0\0\0\n" + after,
        "a terminal's escapes": before + b"\x1b[2J\x1b]0;x\x07\n" + after,
        "carriage returns": sound.replace(b"\n", b"\r\n"),
        "carriage returns alone": sound.replace(b"\n", b"\r"),
        "Unicode's line ends": sound.replace(b" ", "\u2028\u0085".encode(), 3),
        "a line of 5 MB": before + b"x" * 5_000_000 + b"\n" + after,
        "a text of 100,000 words": sound.replace(b" ", b" word" * 100_000 + b" ", 1),
        "50,000 columns": before + b"x\t" * 50_000 + b"\n" + after,
        "50,000 commas": before + b"," * 50_000 + b"\n" + after,
        "a blank line": before + b"\n" + after,
        "compressed, but not named so": gzip.compress(sound),
        "without the last newline": sound.rstrip(b"\n"),
        "only a header": sound.split(b"\n")[0] + b"\n",
    }


def _delimited(sign: bytes):
    def odd(sound: bytes) -> dict[str, bytes]:
        lines = sound.splitlines(keepends=True)
        head, body = lines[0], lines[1:]
        names = head.strip().split(sign)
        return {
            "a quote that is not closed": head + b'"open' + sign + b"yes\n" + b"".join(body),
            "a quote in the middle": head + b'a "b" c' + sign + b"yes\n" + b"".join(body),
            "a column too many": head + body[0].rstrip() + sign + b"x\n" + b"".join(body),
            "a column too few": head + b"x\n" + b"".join(body),
            "a name twice": sign.join([names[0], names[0]]) + b"\n" + b"".join(body),
            "a name that is empty": sign.join([b"", names[1]]) + b"\n" + b"".join(body),
            "no header": b"".join(body),
            "a header of 200,000 names": head.rstrip()
            + b"".join(sign + b"c%d" % n for n in range(200_000))
            + b"\n"
            + b"".join(body),
            "rows of 200,000 columns": head.rstrip()
            + b"".join(sign + b"c%d" % n for n in range(200_000))
            + (b"\nx" + sign + b"yes" + sign * 200_000)
            + b"\n",
            "a formula": head + b"=1+1" + sign + b"=2\n" + b"".join(body),
            "a label of spaces": head + b"x" + sign + b"   \n" + b"".join(body),
            "a label NaN": head + b"x" + sign + b"nan\n" + b"".join(body),
            "a label of infinity": head + b"x" + sign + b"1e999\n" + b"".join(body),
            "a label of 10,000 letters": head + b"x" + sign + b"y" * 10_000 + b"\n"
            + b"".join(body),
            "a label of fairseq": head + b"x" + sign + b"#fairseq:overwrite\n" + b"".join(body),
            "a label that is a path": head + b"x" + sign + b"../../x\n" + b"".join(body),
            "every row another label": head
            + b"".join(b"x" + sign + b"l%d\n" % n for n in range(3000)),
        }  # fmt: skip

    return odd


def _json_lines(sound: bytes) -> dict[str, bytes]:
    lines = sound.splitlines(keepends=True)
    head, body = lines[0], b"".join(lines[1:])
    values = (None, 1, True, [], {}, ["a", 1], [["a"]], "\x1b[2J", "../x", float("nan"), "\ud800")
    odd = {
        f"a {part} {value!r}": head
        + json.dumps({"text": "x", "label": ["a"], part: value}).encode() + b"\n" + body
        for part in ("text", "label") for value in values
    }  # fmt: skip
    return {
        **odd,
        "deep": head + DEEP.encode() + b"\n" + body,
        "a number of 10,000 digits": head + b'{"text": ' + b"9" * 10_000 + b', "label": []}\n',
        "a name twice": head + b'{"text": "a", "text": "b", "label": []}\n' + body,
        "no label": head + b'{"text": "a"}\n' + body,
        "a list": head + b"[1, 2]\n" + body,
        "null": head + b"null\n" + body,
        "one array": b"[" + b",".join(line.strip() for line in lines) + b"]",
        "cut in a line": sound[:-8],
    }


def _conll(sound: bytes) -> dict[str, bytes]:
    return {
        "a word alone": sound + b"\nalone\n",
        "three columns": sound + b"\na\tb\tO\n",
        "spaces for tabs": sound.replace(b"\t", b" "),
        "I without B": sound + b"\na\tI-who\nb\tO\n",
        "a tag of no kind": sound + b"\na\tX-who\n",
        "a tag of 10,000 letters": sound + b"\na\tB-" + b"x" * 10_000 + b"\n",
        "a sentence of 20,000 words": sound + b"\n" + b"a\tO\n" * 20_000,
        "no blank lines": sound.replace(b"\n\n", b"\n"),
        "comments": b"# a\n-DOCSTART- -X- O\n" + sound,
        "a word of spaces": sound + b"\n \tO\n",
    }


_ODD = {
    "csv": _delimited(b","), "tsv": _delimited(b"\t"), "jsonl": _json_lines, "conll": _conll,
}  # fmt: skip


def _parquet(scenes: Path, draw: random.Random) -> Iterator[Case]:
    sound = (scenes / "rows" / "in.parquet").read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    found = [
        *((name, content, REFUSED) for name, content in cuts(sound, (4, footer, len(sound) - 8))),
        *((name, content, VALUE) for name, content in flips(sound, 14, draw)),
        *(
            (f"in the footer, {name}", sound[:footer] + content, VALUE)
            for name, content in flips(sound[footer:], 14, draw)
        ),
        ("empty", b"", REFUSED),
        ("a footer of 2^31", sound[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1", REFUSED),
        ("zeros", bytes(len(sound)), REFUSED),
        ("a text", b"text,label\nx,y\n", REFUSED),
    ]
    for name, content, right in found:
        change = replaced("in.parquet", content)
        yield Case(KIND, f"parquet: {name}", "rows", change, ("prepare-task parquet",), right)


def _official(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """GLUE's files, which have no quotes, and broken lines that are dropped and counted."""
    for place in ("glue/CoLA/train.tsv", "glue/CoLA/test.tsv", "glue/STS-B/dev.tsv"):
        sound = (scenes / "official" / place).read_bytes()
        odd = {
            **_any_text(sound),
            **dict(flips(sound, 5, draw)),
            "tabs too many": sound.replace(b"\t", b"\t\t"),
            "a score NaN": sound.replace(b"\t0.200\n", b"\tnan\n"),
            "an index twice": sound + sound.splitlines()[-1] + b"\n",
        }
        for name, content in odd.items():
            right = REFUSED if name in ("empty", "in UTF-16") else VALUE
            change = replaced(place, content)
            yield Case(KIND, f"{place}: {name}", "official", change, ("prepare-glue",), right)
