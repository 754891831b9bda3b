"""Which columns are taken for text and label, and what is said about it."""

import pytest

from tupe_fairseq.rows.guessed_columns import guess_columns
from tupe_fairseq.rows.open_rows import open_rows


def guessed(folder, columns, name="a.tsv", header=True):
    (folder / name).write_text("\t".join(columns) + "\n" + "\t".join("x" for _ in columns))
    return guess_columns(open_rows(str(folder / name), header), "--text-column", "--label-column")


@pytest.mark.parametrize(
    "columns, expected",
    [
        (["text", "label"], ("text", None, "label")),
        (["idx", "Sentence", "Label"], ("Sentence", None, "Label")),
        (["sentence1", "sentence2", "score"], ("sentence1", "sentence2", "score")),
        (["label", "hypothesis", "premise"], ("premise", "hypothesis", "label")),
        (["question", "sentence", "label"], ("question", "sentence", "label")),
        (["question", "label"], ("question", None, "label")),
        (["id", "tokens", "pos_tags", "ner_tags"], ("tokens", None, "ner_tags")),
        (["text", "label", "label_text"], ("text", None, "label")),
        (["", "tweet", "target"], ("tweet", None, "target")),
        (["text"], ("text", None, None)),
        (["anything"], ("anything", None, None)),
    ],
)
def test_guessed(columns, expected, tmp_path):
    found = guessed(tmp_path, columns)
    assert found[:3] == expected
    for name in filter(None, expected):
        assert f"is column {name!r}" in found.said
    assert "second" in found.said if expected[1] else "second" not in found.said
    assert found.said.endswith("(by their names; --text-column and --label-column take others)")


def test_sentence(tmp_path):
    assert guessed(tmp_path, ["text1", "text2"]).said == (
        f"{tmp_path / 'a.tsv'}: text is column 'text1', second text is column 'text2' (by their "
        "names; --text-column and --label-column take others)"
    )


def test_conll_by_order(tmp_path):
    found = guessed(tmp_path, ["EU", "NNP", "B-ORG"], "a.conll")
    assert found[:3] == ("1", None, "3") and "(by their order; --text-column" in found.said


def test_not_guessed(tmp_path):
    with pytest.raises(
        ValueError, match="says that it is the text; give --text-column: 'a', 'b', "
    ):
        guessed(tmp_path, ["a", "b", "label"])
    with pytest.raises(ValueError, match="no names of columns; give --text-column and --label-col"):
        guessed(tmp_path, ["text", "label"], header=False)


def test_what_is_given_is_not_guessed(tmp_path):
    (tmp_path / "a.tsv").write_text("review\tverdict\ttext\tlabel\n1\t2\t3\t4\n")
    file = open_rows(str(tmp_path / "a.tsv"))
    found = guess_columns(file, "--text", "--label", text="review")
    assert found[:3] == ("review", None, "label") and "text is" not in found.said
    found = guess_columns(file, "--text", "--label", label="text")
    assert found[:3] == ("review", None, "text") and "label is" not in found.said
