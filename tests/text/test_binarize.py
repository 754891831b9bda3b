"""Binarizing in parts gives the bytes of one fairseq-preprocess."""

import pytest

from tupe_fairseq.text.binarize import binarize
from tupe_fairseq.text.mmap_index import count, join


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two splits of numbered words, the one of many lines, blank ones among them."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(50)))
    lines = [" ".join(f"w{(7 * i + j) % 50}" for j in range(i % 9)) for i in range(1000)]
    (folder / "train.spm").write_text("\n".join(lines) + "\n")
    (folder / "valid.spm").write_text("w1 w2\nw3\n")
    return folder


def make(texts, folder, **options):
    paths = {split: str(texts / f"{split}.spm") for split in ("train", "valid")}
    expected = {"train": 1000, "valid": 2}
    binarize(str(texts / "dict.txt"), paths, str(folder), expected, **options)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(texts, tmp_path_factory):
    return make(texts, tmp_path_factory.mktemp("whole"))


def test_in_parts(texts, whole, tmp_path):
    parts = make(texts, tmp_path, workers=2, lines_per_part=300)
    assert sorted(whole) == ["dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"]
    assert parts == whole
    assert count(str(tmp_path / "train")) == (1000, 1000 + sum(i % 9 for i in range(1000)))


def test_lost_lines_are_noticed(texts, tmp_path):
    paths = {"train": str(texts / "train.spm")}
    with pytest.raises(ValueError, match="wrote 1000 of 1001 sentences of train; is"):
        binarize(str(texts / "dict.txt"), paths, str(tmp_path / "data"), {"train": 1001})
    assert not (tmp_path / "data").exists()


def test_a_failing_part_stops_it(texts, tmp_path):
    paths = {"train": str(texts / "train.spm")}
    with pytest.raises(ValueError, match="fairseq-preprocess failed: .*absent"):
        binarize(str(texts / "absent"), paths, str(tmp_path / "data"), {"train": 1000}, 2, 300)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_what_is_cut_short_is_refused(ending, whole, tmp_path):
    for name, content in whole.items():
        cut = name == f"valid.{ending}"
        (tmp_path / name).write_bytes(content[:-1] if cut else content)
    with pytest.raises(ValueError, match="is cut short"):
        join([str(tmp_path / "train"), str(tmp_path / "valid")], str(tmp_path / "both"))
    assert not (tmp_path / "both.bin").exists()
