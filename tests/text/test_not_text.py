"""Files that are no corpus are refused by what they are; odd text is not."""

import gzip
import io
import json
import lzma
import random
import tarfile

import pytest

from tupe_fairseq.text.not_text import refuse_what_is_no_text

LINES = "".join(f"line {i} of a text\n" for i in range(2000)).encode()
RANDOM = random.Random(3)
NOISE = bytes(RANDOM.randrange(256) for _ in range(5000))


def tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("corpus.txt")
        info.size = len(LINES)
        archive.addfile(info, io.BytesIO(LINES))
    return file.getvalue()


def records(*keys):
    return "\n".join(json.dumps(dict.fromkeys(keys, f"é {i}")) for i in range(50)).encode()


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"PK\x03\x04....", "is a zip archive"),
        ("a.txt", b"\x28\xb5\x2f\xfd....", "is a zstd archive"),
        ("a.zst", LINES, "is a zstd archive"),
        ("a.PARQUET", b"PAR1" + NOISE, "is a parquet file"),
        ("a", tar(), "is a tar archive"),
        ("a.tgz", gzip.compress(tar()), "is a tar archive"),
        ("a.tar.xz", lzma.compress(tar()), "is a tar archive"),
        ("a.gz", gzip.compress(gzip.compress(LINES)), "is compressed twice"),
        ("a.pdf", b"%PDF-1.7\n", "is a PDF document"),
        ("a.txt", "wörter\n".encode("utf-16"), "in UTF-16 or UTF-32; convert it first"),
        ("a.txt", "wörter\n".encode("utf-32"), "in UTF-16 or UTF-32"),
        ("a.gz", gzip.compress("wörter\n".encode("utf-16")), "in UTF-16 or UTF-32"),
        ("a.txt", "plain words\n".encode("utf-16-le"), "has many zero bytes"),
        ("a.txt", bytes(3000), "has many zero bytes"),
        ("a.bin", NOISE, "% of its first bytes are control characters"),
        ("a.gz", gzip.compress(NOISE), "% of its first bytes are control characters"),
        ("a.txt", LINES.replace(b"\n", b"\r"), "carriage returns alone"),
        ("a.txt", b"one\rtwo", "carriage returns alone"),
        ("a.jsonl", records("text"), "holds JSON objects"),
        ("a.txt", b"\xef\xbb\xbf" + records("id", "text") + b"\n\n", "holds JSON objects"),
        ("a.jsonl.gz", gzip.compress((records("t") + b"\n") * 2000), "holds JSON objects"),
        ("a.json", b"[\n" + records("text").replace(b"\n", b",\n") + b"\n]\n", "JSON objects"),
        ("a.json", json.dumps([{"text": "one"}, {"text": "two"}]).encode(), "JSON objects"),
    ],
    # not by their contents: compressed ones hold the time
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_refused(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        refuse_what_is_no_text(str(path))
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"\xef\xbb\xbfa byte order mark\r\n",
        b"no end of the line",
        b"no end but\r",
        b"one {\n",
        records("text") + b"\nand one line of text\n",
        b"[1]\n[2] references\n",
        b"[1]\n",
        b"{" * 100_000 + b"\n",
        b"a zero \0 and a bell \x07 now and then" + LINES,
        b"\x1b[1mcolours\x1b[0m\n",
        b"caf\xe9\n" * 2000,
        "中文\u2028 🏖️\x0c\n".encode() * 2000,
    ],
    ids=range(14),
)
def test_taken(content, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    refuse_what_is_no_text(str(path))
