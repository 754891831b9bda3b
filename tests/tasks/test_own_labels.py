"""Labels as files have them: their order, BIO, and what is refused."""

import pytest

from tupe_fairseq.labelled.bio_tags import are_bio, first_break
from tupe_fairseq.labelled.label_values import parse_label, parse_words, sorted_labels
from tupe_fairseq.labelled.own_task import OwnTask
from tupe_fairseq.rows.row_file import BadRow


@pytest.mark.parametrize(
    "labels, expected",
    [
        (["10", "2", "1"], ("1", "2", "10")),
        (["0.5", "-3", "1e2"], ("-3", "0.5", "1e2")),
        (["10", "2", "two"], ("10", "2", "two")),
        (["1", "1.0", "01"], ("01", "1", "1.0")),
        (["good", "bad", "good"], ("bad", "good")),
        (["b", "B", "\u00e9", "a b"], ("B", "a b", "b", "\u00e9")),
    ],
)
def test_order(labels, expected):
    assert sorted_labels(labels) == expected


@pytest.mark.parametrize(
    "tags, place",
    [
        ("O B-x I-x I-x O B-y B-x I-x", None),
        ("B-x I-y", 1),
        ("O I-x", 1),
        ("I-x", 0),
        ("O O X", 2),
        ("B-", 0),
        ("B-x O I-x", 2),
        ("O I-", 1),
        ("", None),
    ],
)
def test_bio(tags, place):
    assert first_break(tags.split()) == place


def test_what_looks_like_bio():
    assert are_bio(["O", "B-x", "I-x"]) and are_bio(["B-x"]) and are_bio(["I-x", "O"])
    assert not are_bio(["O"]) and not are_bio(["NN", "O"]) and not are_bio(["B-x", "S-x"])


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        ("classification", " very good ", "very good"),
        ("regression", " 1e1", "1e1"),
        ("multilabel", "b; a ;b", ("b", "a")),
        ("multilabel", " ", ()),
        ("multilabel", [], ()),
        ("multilabel", ["a;b", " c "], ("a;b", "c")),
        ("tagging", "O  B-x", ("O", "B-x")),
        ("tagging", ["O", "a b"], ("O", "a b")),
    ],
)
def test_read(kind, value, expected):
    assert parse_label(OwnTask("", kind, {}, separator=";"), value) == expected


@pytest.mark.parametrize(
    "kind, value, message",
    [
        ("classification", " ", "there is an empty label"),
        ("classification", ["a"], "the label is a list; --kind multilabel takes these"),
        ("regression", "five", "the score 'five' is not a number"),
        ("regression", "nan", "the score 'nan' is not a number"),
        ("regression", "", "there is an empty label"),
        ("multilabel", "a,,b", "there is an empty label"),
        ("multilabel", ["a", ""], "there is an empty label"),
        ("tagging", ["O", ""], "there is an empty tag"),
    ],
)
def test_refused(kind, value, message):
    with pytest.raises(BadRow, match=message):
        parse_label(OwnTask("", kind, {}), value)


def test_words():
    assert parse_words("a b  c", ("O",) * 3) == parse_words(["a", "b", "c"], None)
    assert parse_words([], None) == ()
    for words, tags, message in (("a b", ("O",), "2 words have 1 tags"), ([], (), "no words")):
        with pytest.raises(BadRow, match=message):
            parse_words(words, tags)
