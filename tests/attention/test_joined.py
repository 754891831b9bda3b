"""Short sequences of a packed batch, attended to in one call."""

import pytest
import torch
import torch.nn.functional as F
from tupe_fairseq.attention.joined import JOINED_TOKENS, joined, one_by_one

from helpers.attention_cases import HEADS, Request, assert_near, skip_if_refused

LENGTHS = [30, 34, 1, 0, 70, 3, 2, 59, 1]
SPANS = [(sum(LENGTHS[:i]), length) for i, length in enumerate(LENGTHS)]


def corners_of(bias):
    return lambda length: bias[:, :length, :length]


def test_as_many_sequences_as_fit_share_a_call():
    calls = joined(SPANS, lambda length: None, torch.empty(0))
    of_calls = [(call.start, call.length) for call in calls]
    assert of_calls == [(0, 64), (64, 1), (65, 70), (135, 64), (199, 1)]
    assert JOINED_TOKENS == 64


def test_their_mask_keeps_them_apart():
    bias = torch.randn(HEADS, 70, 70)
    mask = joined([(5, 2), (7, 0), (7, 3)], corners_of(bias), bias)[0].mask
    assert mask[:, :2, :2].equal(bias[:, :2, :2]) and mask[:, 2:, 2:].equal(bias[:, :3, :3])
    apart = torch.cat([mask[:, :2, 2:].flatten(), mask[:, 2:, :2].flatten()])
    assert apart.unique().tolist() == [torch.finfo(torch.float32).min / 2]
    assert torch.softmax(mask, dim=-1)[:, 0, 2:].eq(0).all()


def test_a_long_sequence_takes_its_corner_of_the_bias_without_a_copy():
    bias = torch.randn(HEADS, 70, 70)
    (call,) = joined([(0, 70)], corners_of(bias), bias)
    assert call.mask.data_ptr() == bias.data_ptr()
    a, b = one_by_one([(0, 9), (9, 9)], corners_of(bias))
    assert a.mask is b.mask


@pytest.mark.parametrize("bias", [False, True], ids=["no_bias", "bias"])
def test_outputs_and_gradients_are_eagers(bias):
    request = Request(70, LENGTHS, batch=len(LENGTHS), packed=True, bias=bias)
    expected = request.answer("eager")
    qkv, _ = request.leaves()
    out = request.attend("sdpa", qkv, request.bias)  # a bias without a gradient
    (out * request.weights).sum().backward()
    assert_near((out.detach(), qkv.grad), expected, 1e-13)


def test_one_mask_for_all_layers(monkeypatch):
    request = Request(70, LENGTHS, batch=len(LENGTHS), packed=True)
    skip_if_refused("sdpa", request.qkv, request.bias, request.padding)
    calls = []
    attend = F.scaled_dot_product_attention

    def counted(*args, attn_mask, **options):
        calls.append(attn_mask)
        return attend(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    for _ in range(2):
        request.attend("sdpa", request.qkv, request.bias)
    assert len(calls) == 2 * 5
    assert [mask.data_ptr() for mask in calls[:5]] == [mask.data_ptr() for mask in calls[5:]]
