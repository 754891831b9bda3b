"""Padding: lengths and spans, and packing tokens and unpacking them."""

import pytest
import torch

from helpers.attention_cases import mask_of
from tupe_fairseq.attention import Padding
from tupe_fairseq.attention.padding import batch_spans

SEQ_LEN = 5
LENGTHS = [3, 5, 0, 1]


def padding_of(text, pack=False):
    """Sequences of x (a token) and . (padding)."""
    return Padding(torch.tensor([[c == "." for c in row] for row in text.split()]), pack)


@pytest.mark.parametrize(
    "text, lengths, any_padding, begins",
    [
        pytest.param("xxx xxx", [3, 3], False, False, id="none"),
        pytest.param("xxx xx. x..", [3, 2, 1], True, False, id="at_end"),
        pytest.param("xxx ...", [3, 0], True, False, id="an_empty_sequence"),
        pytest.param("... ...", [0, 0], True, False, id="nothing_but_padding"),
        pytest.param("xxx .xx", None, True, True, id="at_beginning"),
        pytest.param("x.x xxx", None, True, False, id="in_the_middle"),
        pytest.param("x.x ...", None, True, False, id="in_the_middle-and-an_empty_sequence"),
        pytest.param("x.. .xx", None, True, True, id="both_ends"),
        pytest.param("...x .xxx", None, True, True, id="all_at_beginning"),
        pytest.param("x", [1], False, False, id="one_token"),
        pytest.param(".", [0], True, False, id="one_padded_token"),
    ],
)
def test_where_padding_is(text, lengths, any_padding, begins):
    padding = padding_of(text)
    assert padding.lengths == lengths
    assert padding.any is any_padding
    assert padding.begins_with_padding is begins
    assert (padding.batch, padding.seq_len) == (len(text.split()), len(text.split()[0]))
    assert padding.real.tolist() == [i for i, c in enumerate(text.replace(" ", "")) if c == "x"]


@pytest.mark.parametrize(
    "text, pack, packed",
    [
        ("xxx xx.", True, True),
        ("xxx ...", True, True),
        ("xxx xx.", False, False),
        ("xxx xxx", True, False),
        ("xxx x.x", True, False),
        ("xxx .xx", True, False),
    ],
)
def test_packed_only_where_asked_for_and_of_use_and_possible(text, pack, packed):
    assert padding_of(text, pack).packed is packed


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int64])
def test_a_mask_that_is_not_bool_is_refused(dtype):
    with pytest.raises(TypeError, match=f"{dtype}, not bool; True marks padding"):
        Padding(torch.zeros(2, 3, dtype=dtype))


def test_spans():
    mask = mask_of(LENGTHS, SEQ_LEN)
    assert Padding(mask).spans == [(0, 3), (5, 5), (10, 0), (15, 1)]
    assert Padding(mask, pack=True).spans == [(0, 3), (3, 5), (8, 0), (8, 1)]


@pytest.mark.parametrize("pack", [False, True], ids=["padded", "packed"])
def test_spans_for_a_device(pack):
    padding = Padding(mask_of(LENGTHS, SEQ_LEN), pack)
    spans = padding.device_spans
    assert spans.dtype == torch.int32 and spans.tolist() == [list(span) for span in padding.spans]
    assert padding.device_spans is spans


def test_spans_of_a_batch_without_padding():
    q = torch.empty(3, SEQ_LEN, 2, 4)
    assert batch_spans(q, None) == [(0, 5), (5, 5), (10, 5)]
    assert batch_spans(q, Padding(mask_of([5, 2, 4], SEQ_LEN))) == [(0, 5), (5, 2), (10, 4)]


def test_spans_say_where_packed_tokens_are():
    mask = mask_of(LENGTHS, SEQ_LEN)
    x = torch.randn(4, SEQ_LEN, 2, 3)
    padded, packed = Padding(mask), Padding(mask, pack=True)
    for b, ((start, length), (there, same)) in enumerate(zip(packed.spans, padded.spans)):
        assert length == same == LENGTHS[b]
        assert packed.pack(x)[start : start + length].equal(x[b, :length])
        assert x.flatten(0, 1)[there : there + length].equal(x[b, :length])


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)], ids=["scalars", "vectors", "heads"])
def test_packing_there_and_back(shape):
    mask = mask_of(LENGTHS, SEQ_LEN)
    padding = Padding(mask, pack=True)
    x = torch.randn(4, SEQ_LEN, *shape, dtype=torch.float64)
    tokens = padding.pack(x)
    assert tokens.shape == (9, *shape) and tokens.equal(x[~mask])
    back = padding.unpack(tokens)
    assert back.shape == x.shape and back.dtype == x.dtype
    assert back[~mask].equal(x[~mask]) and not back[mask].any()
    assert padding.pack(back).equal(tokens)


def test_packing_a_view_of_a_projection():
    mask = mask_of(LENGTHS, SEQ_LEN)
    x = torch.randn(SEQ_LEN, 4, 3, 2).transpose(0, 1)
    assert Padding(mask, pack=True).pack(x).equal(x[~mask])


def test_packing_by_a_mask_that_is_a_view():
    """As of fairseq's T x B tokens."""
    mask = mask_of(LENGTHS, SEQ_LEN)
    transposed = mask.t().contiguous().t()
    assert not transposed.is_contiguous()
    x = torch.randn(4, SEQ_LEN, 2)
    padding = Padding(transposed, pack=True)
    assert padding.packed and padding.pack(x).equal(x[~mask])
    assert padding.unpack(padding.pack(x)).equal(x.masked_fill(mask[..., None], 0))


def test_gradients_of_packing():
    padding = Padding(mask_of(LENGTHS, SEQ_LEN), pack=True)
    x = torch.randn(4, SEQ_LEN, 2, dtype=torch.float64, requires_grad=True)
    tokens = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(padding.pack, x)
    assert torch.autograd.gradcheck(padding.unpack, tokens)
    padding.unpack(3 * padding.pack(x)).sum().backward()
    assert x.grad.equal(3.0 * (~padding.mask)[:, :, None].expand_as(x))


def test_nothing_to_pack():
    padding = Padding(mask_of([0, 0], SEQ_LEN), pack=True)
    tokens = padding.pack(torch.randn(2, SEQ_LEN, 3))
    assert tokens.shape == (0, 3)
    assert padding.unpack(tokens).equal(torch.zeros(2, SEQ_LEN, 3))
