"""Documents survive processing in blocks, and are distributed without loss."""

import io
import random

import pytest

from tupe_fairseq.text import splitting
from tupe_fairseq.text.cleaning import line_hash
from tupe_fairseq.text.documents import DocumentWriter, collapse
from tupe_fairseq.text.splitting import ByHash, ByPosition, Part, deal, read_parts


def test_blocks_are_put_together_as_if_they_were_one():
    random_ = random.Random(4)
    for _ in range(200):
        lines = [random_.choice([b"", b"", b"a", b"bc"]) for _ in range(random_.randint(1, 12))]
        whole = b"\n".join(lines).strip(b"\n")
        while b"\n\n\n" in whole:
            whole = whole.replace(b"\n\n\n", b"\n\n")
        cuts = sorted(random_.choices(range(len(lines) + 1), k=3))
        blocks = [lines[a:b] for a, b in zip([0, *cuts], [*cuts, len(lines)])]
        file = io.BytesIO()
        writer = DocumentWriter(file)
        for block in blocks:
            writer.write(collapse(block))
        assert file.getvalue() == (whole + b"\n" if whole else b"")
        assert writer.documents == (whole.count(b"\n\n") + 1 if whole else 0)


@pytest.fixture
def cleaned(tmp_path):
    """Two cleaned files of documents: [a b] [c] and [d a e f g]; the second a is a duplicate."""

    def write(name, text):
        (tmp_path / f"{name}.txt").write_text(text)
        lines = [line.encode() for line in text.split("\n") if line]
        (tmp_path / f"{name}.hash").write_bytes(b"".join(map(line_hash, lines)))
        return str(tmp_path / name)

    (tmp_path / "marks").write_bytes(bytes([0, 0, 0, 0, 1, 0, 0, 0]))
    return [write("one", "a\nb\n\nc\n"), write("two", "d\na\ne\nf\ng\n")]


def test_parts(cleaned, tmp_path, monkeypatch):
    monkeypatch.setattr(splitting, "PART_LINES", 2)
    parts = list(read_parts(cleaned, str(tmp_path / "marks")))
    assert [part.lines for part in parts] == [[b"a", b"b"], [b"c"], [b"d", b"e"], [b"f", b"g"]]
    assert [(part.document, part.number) for part in parts][0:2] == [(0, 0), (1, 0)]
    assert parts[2].document == parts[3].document and parts[3].number == 1
    assert [part.key for part in parts] == [
        int.from_bytes(line_hash(line), "little") for line in (b"a", b"c", b"d", b"f")
    ]
    second = list(read_parts(cleaned[1:], str(tmp_path / "marks"), first_line=3))
    assert [part.lines for part in second] == [[b"d", b"e"], [b"f", b"g"]]


def parts_of(*documents):
    return [
        Part(0, document, number, [line.encode() for line in lines])
        for document, parts in enumerate(documents)
        for number, lines in enumerate(parts)
    ]


def texts(folder, *names):
    return [(folder / name).read_text() for name in names]


def test_shards_keep_documents_together(tmp_path):
    parts = parts_of(["ab", "cd", "e"], ["fg"], ["h"], ["i"])
    paths = {"train": [str(tmp_path / "0"), str(tmp_path / "1")]}
    counts = deal(parts, lambda part, line: {"train": part.lines}, paths, 0, 100)
    # the parts ab and e are not neighbours, so a blank line stands between them
    assert texts(tmp_path, "0", "1") == ["a\nb\n\ne\n\nh\n", "c\nd\n\nf\ng\n\ni\n"]
    assert counts == {"train": {"documents": 4, "parts": 6, "lines": 9, "joined": 0}}


def test_parts_of_one_document_follow_without_a_gap(tmp_path):
    deal(
        parts_of(["ab", "cd"], ["e"]), lambda part, line: {"train": part.lines},
        {"train": [str(tmp_path / "0")]}, 0, 100,
    )  # fmt: skip
    assert texts(tmp_path, "0") == ["a\nb\nc\nd\n\ne\n"]


def test_joining(tmp_path):
    lines = [["aa", "\u00e9\u00e9", "cccccc", "d"], ["e", "f" * 9, "g"]]
    counts = deal(
        parts_of([lines[0]], [lines[1]]), lambda part, line: {"train": part.lines},
        {"train": [str(tmp_path / "0")]}, join_short=4, max_chars=10,
    )  # fmt: skip
    # joined while shorter than 4 characters, never beyond 10, nor across documents
    assert texts(tmp_path, "0") == ["aa \u00e9\u00e9\ncccccc\nd\n\ne\nfffffffff\ng\n"]
    assert counts["train"]["joined"] == 1


def test_by_hash():
    choose = ByHash({"valid": 0.25, "test": 0.5})
    keys = {0: "valid", 2**62 - 1: "valid", 2**62: "test", 3 * 2**62: "train", 2**64 - 1: "train"}
    for key, split in keys.items():
        assert choose(Part(key, 0, 0, [b"x"]), 0) == {split: [b"x"]}


def test_by_position_gives_the_last_lines(tmp_path):
    parts = parts_of(["abcde"], ["fgh", "ij"])
    paths = {split: [str(tmp_path / split)] for split in ("train", "valid", "test")}
    deal(parts, ByPosition({"valid": 0.2, "test": 0.01}, 10), paths, 0, 100)
    assert texts(tmp_path, "train", "test", "valid") == ["a\nb\nc\nd\ne\n\nf\ng\n", "h\n", "i\nj\n"]
