"""Every implementation against the eager one, whose code is the equation."""

import pytest
import torch

from helpers.attention_cases import (
    BATCH,
    HEADS,
    NOT_EAGER,
    SCALING,
    Request,
    as_bias,
    assert_near,
    lengths_of,
    skip_if_refused,
)
from tupe_fairseq.attention import IMPLEMENTATIONS, Padding, split_qkv

LENGTHS = [1, 17, 64, 500, 512]
LAYOUTS = [("none", False), ("mixed", False), ("mixed", True), ("empty", False), ("empty", True)]
LAYOUT_IDS = [f"{pattern}-{'packed' if packed else 'padded'}" for pattern, packed in LAYOUTS]
# A float32 rounds at 6e-8, and a sum over 512 keys or tokens adds up some tens of that.
FLOAT32 = 2e-6
FLOAT64 = 1e-13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("pattern, packed", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("seq_len", LENGTHS)
@pytest.mark.parametrize("name", NOT_EAGER)
def test_outputs_and_gradients(name, seq_len, pattern, packed, dtype):
    request = Request(seq_len, lengths_of(pattern, seq_len), dtype=dtype, packed=packed)
    expected = request.answer("eager", torch.float64)
    tolerance = FLOAT32 if dtype == torch.float32 else FLOAT64
    assert_near(request.answer(name), expected, tolerance)


@pytest.mark.parametrize("pattern, packed", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("name", NOT_EAGER)
def test_without_a_bias(name, pattern, packed):
    request = Request(17, lengths_of(pattern, 17), bias=False, packed=packed)
    assert_near(request.answer(name), request.answer("eager"), FLOAT64)


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("name", ["eager", *NOT_EAGER])
def test_a_batch_of_nothing_but_padding(name, packed):
    request = Request(7, [0, 0], batch=2, packed=packed)
    out, grad_qkv, grad_bias = request.answer(name)
    assert not out.any() and not grad_qkv.any()
    assert grad_bias is None or not grad_bias.any()


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", ["eager", *NOT_EAGER])
def test_no_sequence_at_all(name, dropout):
    request = Request(7, batch=0)
    out, grad_qkv, grad_bias = request.answer(name, dropout=dropout)
    assert out.shape[:2] == grad_qkv.shape[:2] == (0, 7)
    assert grad_bias is None or not grad_bias.any()


@pytest.mark.parametrize("name", NOT_EAGER)
def test_each_sequence_is_what_it_is_alone(name):
    """With no eager in between: a padded batch, its rows and its packed tokens agree."""
    lengths = lengths_of("mixed", 17)
    request = Request(17, lengths, packed=True)
    packed = request.attend(name, request.qkv, request.bias)
    for b, length in enumerate(lengths):
        q, k, v = split_qkv(request.qkv[b : b + 1, :length])
        bias = request.bias[:, :length, :length]
        attend = IMPLEMENTATIONS[name].attend
        alone = attend(q, k, v, as_bias(bias), None, scaling=SCALING, dropout=0.0)
        torch.testing.assert_close(packed[b : b + 1, :length], alone, rtol=0, atol=FLOAT64)


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("name", NOT_EAGER)
def test_sequences_of_one_length_that_is_not_the_batchs(name, packed):
    """Padded, they do not follow each other without a gap."""
    request = Request(7, [4] * BATCH, packed=packed)
    assert_near(request.answer(name), request.answer("eager"), FLOAT64)


@pytest.mark.parametrize("name", NOT_EAGER)
def test_one_output_used_twice(name):
    def answer(name):
        qkv, bias = request.leaves()
        out = request.attend(name, qkv, bias)
        ((out * request.weights).sum() + (out.sin() * request.weights).sum()).backward()
        return qkv.grad, bias.grad

    request = Request(17, lengths_of("mixed", 17))
    assert_near(answer(name), answer("eager"), FLOAT64)


@pytest.mark.parametrize("name", NOT_EAGER)
def test_two_calls_in_one_graph(name):
    def answer(name):
        qkv, bias = request.leaves()
        out = request.attend(name, qkv, bias)
        # the same projection again, and one that depends on the first call
        out = out + request.attend(name, qkv, bias, scaling=0.7)
        out = out + request.attend(name, qkv + out[:, :, None], 2 * bias)
        (out * request.weights).sum().backward()
        return out.detach(), qkv.grad, bias.grad

    request = Request(17, lengths_of("mixed", 17))
    assert_near(answer(name), answer("eager"), FLOAT64)


@pytest.mark.parametrize("name", NOT_EAGER)
def test_a_frozen_bias_leaves_the_other_gradients_as_they_are(name):
    request = Request(17, lengths_of("mixed", 17), packed=True)
    expected = request.answer("eager")
    qkv, _ = request.leaves()
    out = request.attend(name, qkv, request.bias)
    (out * request.weights).sum().backward()
    assert_near((out, qkv.grad), expected, FLOAT64)
    assert request.bias.grad is None


@pytest.mark.parametrize("name", NOT_EAGER)
def test_a_bias_alone_gets_its_gradient(name):
    request = Request(17, lengths_of("mixed", 17), packed=True)
    *_, expected = request.answer("eager")
    _, bias = request.leaves()
    (request.attend(name, request.qkv, bias) * request.weights).sum().backward()
    assert_near([bias.grad], [expected], FLOAT64)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", NOT_EAGER)
def test_without_gradient_mode(name, mode):
    request = Request(17, lengths_of("mixed", 17))
    expected, *_ = request.answer("eager")
    qkv, bias = request.leaves()
    with mode():
        out = request.attend(name, qkv, bias)
    assert not out.requires_grad
    assert_near([out], [expected], FLOAT64)


@pytest.mark.parametrize("bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("name", NOT_EAGER)
def test_bfloat16_with_a_float32_bias(name, packed, bias):
    """Rows of the bias are far from zero: rounded as they are, they would be lost."""
    request = Request(17, lengths_of("mixed", 17), packed=packed, bias=bias)
    request.qkv = request.qkv.bfloat16()
    if bias:
        rows = 300 * torch.randn(HEADS, 17, 1, dtype=torch.float64)
        request.bias = (request.bias + rows).float()
    expected = request.answer("eager", torch.float64)
    actual = request.answer(name)
    assert actual[0].dtype == actual[1].dtype == torch.bfloat16
    assert not bias or actual[2].dtype == torch.float32
    # 16 bits hold 8 of the fraction; values of the bias around 4 round by up to 2^-7
    assert_near(actual, expected, 2**-6)


@pytest.mark.parametrize("name", ["eager", *NOT_EAGER])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_keeps_the_rate_and_the_mean(name, p):
    seq_len = 100
    q = torch.zeros(BATCH, seq_len, HEADS, 1)
    skip_if_refused(name, q, None, None)
    attend = IMPLEMENTATIONS[name].attend
    # equal probabilities and values of 1: the output counts what was kept
    out = attend(q, q, torch.ones_like(q), None, None, scaling=1.0, dropout=p)
    trials = BATCH * HEADS * seq_len**2
    kept = out.double().sum().item() * seq_len * (1 - p)
    assert abs(kept - trials * (1 - p)) < 5 * (trials * p * (1 - p)) ** 0.5
    # and it is on the probabilities, each on its own: the rows differ as so many draws do
    variance = out.double().var().item() * (1 - p) / p * seq_len
    assert abs(variance - 1) < 0.2


@pytest.mark.parametrize("name", ["eager", *NOT_EAGER])
def test_dropout_is_repeatable(name):
    request = Request(17, lengths_of("mixed", 17), dtype=torch.float32)

    def answer(seed):
        torch.manual_seed(seed)
        return request.answer(name, dropout=0.3)

    first, again, other = answer(3), answer(3), answer(4)
    assert all(a.equal(b) for a, b in zip(first, again))
    assert not any(a.equal(b) for a, b in zip(first, other))


@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_padding_elsewhere_than_at_the_end(name):
    request = Request(9, None)
    mask = torch.zeros(BATCH, 9, dtype=torch.bool)
    mask[0, 0], mask[1, 3:5], mask[2, :] = True, True, True
    request.real, request.padding = ~mask, Padding(mask, pack=True)
    request.weights[mask] = 0
    assert not request.padding.packed
    actual = request.answer(name)
    for b in (0, 1, 3):
        sub = request.qkv[b : b + 1, ~mask[b]]
        bias = request.bias[:, ~mask[b]][:, :, ~mask[b]]
        q, k, v = split_qkv(sub)
        alone = IMPLEMENTATIONS["eager"].attend(
            q, k, v, as_bias(bias), None, scaling=SCALING, dropout=0.0
        )
        torch.testing.assert_close(actual[0][b, ~mask[b]], alone[0], rtol=0, atol=FLOAT64)
    assert_near(actual, request.answer("eager"), FLOAT64)
