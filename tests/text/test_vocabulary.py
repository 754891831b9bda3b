"""The sample that the vocabulary is learned from, and the model itself."""

import pytest
import sentencepiece

from helpers import raw_text
from tupe_fairseq.text.vocabulary import sample_lines, train_model

LINES = [line for lines in raw_text.documents(60) for line in lines]


@pytest.fixture
def paths(tmp_path):
    """Two files of lines of the same length, some of them blank."""
    found = []
    for name in "ab":
        path = tmp_path / name
        lines = ["" if n % 9 == 8 else f"{name}{n:08d}" for n in range(1000)]
        path.write_text("\n".join(lines) + "\n")
        found.append(str(path))
    return found


def test_all_lines_if_they_are_few_enough(paths):
    found = list(sample_lines(paths, 10**6))
    assert len(found) == 1778 and found[0] == "a00000000" and found[-1] == "b00000999"


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_sample_is_spread_evenly(paths, share):
    size = 2 * (889 * 10 + 111)  # bytes
    found = list(sample_lines(paths, int(share * size)))
    assert abs(len(found) - 1778 * share) < 0.15 * 1778 * share
    of_parts = [
        sum(line[0] == name and start <= int(line[1:]) < start + 250 for line in found)
        for name in "ab"
        for start in range(0, 1000, 250)
    ]
    assert min(of_parts) > 0.7 * max(of_parts) > 0


def test_blank_lines_at_the_distance_of_the_sample(tmp_path):
    path = tmp_path / "text"
    lines = ["" if n % 10 == 9 else f"{n:09d}" for n in range(1000)]
    path.write_text("\n".join(lines) + "\n")
    found = list(sample_lines([str(path)], path.stat().st_size // 10))
    assert 80 < len(found) < 100


def model(**options):
    options = {"vocab_size": 100, "model_type": "unigram", "character_coverage": 1.0, **options}
    content = train_model(LINES, lowercase=options.pop("lowercase", False), **options)
    return sentencepiece.SentencePieceProcessor(model_proto=content)


def test_lower_case_is_in_the_model():
    """Which users of the file alone depend on."""
    lower, cased = model(lowercase=True), model()
    assert lower.encode("BA QUA Be") == lower.encode("ba qua be")
    assert cased.encode("BA QUA Be") != cased.encode("ba qua be")


def test_ids_are_those_of_fairseqs_dictionary():
    found = model()
    assert [found.id_to_piece(i) for i in range(5)] == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert len(found) == 100
