"""Documents within the rows of a batch: where they are, and what is refused."""

import pytest
import torch

from tupe_fairseq.attention import Documents


def documents_of(text):
    """Rows of S (starts a document), x (goes on) and . (padding)."""
    rows = text.split()
    starts, mask = (torch.tensor([[c == what for c in row] for row in rows]) for what in "S.")
    return Documents(starts, mask)


@pytest.mark.parametrize(
    "text, lengths",
    [
        pytest.param("SxxSSxx Sxxxx..", [3, 1, 3, 5], id="padding"),
        pytest.param("SxxSxx SxxSxx", [3, 3, 3, 3], id="all_of_one_length"),
        pytest.param("Sxx", [3], id="one"),
        pytest.param("xxSx xx..", [2, 2, 2], id="rows_that_begin_without_a_mark"),
        pytest.param("SxS ... Sx.", [2, 1, 2], id="a_row_of_padding"),
        pytest.param("SxSS", [2, 1, 1], id="of_one_token"),
    ],
)
def test_where_they_are(text, lengths):
    documents = documents_of(text)
    assert documents.lengths == lengths and documents.packed and documents.any
    assert (documents.batch, documents.seq_len) == (len(lengths), max(lengths))
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    assert documents.spans == list(zip(starts, lengths))
    assert documents.positions.tolist() == [n for length in lengths for n in range(length)]


def test_the_marks_of_padding_do_not_count():
    starts, mask = torch.ones(1, 5, dtype=torch.bool), torch.arange(5)[None] >= 3
    assert Documents(starts, mask).lengths == [1, 1, 1]


def test_packing_is_of_the_batch_as_given():
    documents, x = documents_of("SxxSx SxS.. SxxxS"), torch.randn(3, 5, 2, dtype=torch.float64)
    real = torch.ones(3, 5, dtype=torch.bool)
    real[1, 3:] = False
    tokens = documents.pack(x)
    assert tokens.equal(x[real])
    assert documents.unpack(tokens).equal(x * real[:, :, None])


def test_parts_are_of_similar_length_and_hold_each_token_once():
    lengths = [40, 1, 19, 20, 3, 2, 9, 39]
    documents = documents_of("".join("S" + "x" * (length - 1) for length in lengths))
    seen = []
    for tokens, part in documents.parts:
        assert part.packed and 2 * min(part.lengths) >= max(part.lengths) == part.seq_len
        places = part.unpack(tokens).tolist()
        for row, length in zip(places, part.lengths):
            start = row[0]
            assert row[:length] == list(range(start, start + length))
            assert (start, length) in documents.spans
        seen += tokens.tolist()
    assert sorted(seen) == list(range(sum(lengths)))
    assert [part.lengths for _, part in documents.parts] == [[40, 39, 20], [19], [9], [3, 2], [1]]


def test_padding_must_be_at_the_end():
    with pytest.raises(ValueError, match="only where all padding is at the end.*pad on the right"):
        documents_of("Sx.x")


def test_marks_of_another_shape_or_dtype():
    mask = torch.zeros(2, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"document_starts is \(2, 4\), and the batch is \(2, 3\)"):
        Documents(torch.zeros(2, 4, dtype=torch.bool), mask)
    with pytest.raises(TypeError, match="document_starts is torch.int64, not bool"):
        Documents(torch.zeros(2, 3, dtype=torch.int64), mask)


def test_a_recorded_model_would_fix_them():
    def lengths(x):
        return x + Documents(x > 0, x > 1).seq_len

    with pytest.raises(ValueError, match="documents cannot be isolated where torch.jit.trace"):
        torch.jit.trace(lengths, torch.ones(1, 3))
