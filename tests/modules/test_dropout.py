"""Dropout of hidden states: what it keeps, its scale, its gradient."""

import pytest
import torch
import torch.nn.functional as F

from tupe_fairseq.attention import KeepMask
from tupe_fairseq.modules import dropout

# just above the size from which random numbers are our own; of more than one block, with a rest
SHAPE = (3, 90, 1001)
SIZE = 3 * 90 * 1001


def is_ours(out):
    return "KeepMask" in type(out.grad_fn).__name__


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_the_rate_and_the_scale(p, dtype):
    x = torch.randn(SHAPE).to(dtype).requires_grad_()
    out = dropout(x, p, training=True)
    assert is_ours(out) and out.dtype == dtype and out.shape == SHAPE
    kept = out != 0
    assert abs(kept.sum().item() - SIZE * (1 - p)) < 5 * (SIZE * p * (1 - p)) ** 0.5 + SIZE / 2**16
    # rounded once, to the dtype
    expected = (x[kept].double() * KeepMask(p).scale).to(dtype)
    close = max(1e-6, torch.finfo(dtype).eps)
    torch.testing.assert_close(out[kept], expected, rtol=close, atol=0)


def test_blocks_differ():
    out = dropout(torch.ones(2**19), 0.5, training=True)
    assert not out[: 2**18].equal(out[2**18 :])


def test_the_gradient_has_the_mask_of_the_output():
    x = torch.randn(SHAPE, requires_grad=True)
    first = dropout(x, 0.3, training=True)
    second = dropout(x, 0.3, training=True)  # between: another mask
    assert not (first == 0).equal(second == 0)
    # a gradient that is not contiguous
    weights = torch.randn(SHAPE[::-1]).permute(2, 1, 0)
    (grad,) = torch.autograd.grad(first, x, weights)
    expected = torch.where(first == 0, torch.zeros(()), weights * KeepMask(0.3).scale)
    torch.testing.assert_close(grad, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("p, training", [(0.3, False), (0.0, True), (0.0, False), (1.0, False)])
def test_identity(p, training):
    x = torch.randn(SHAPE)
    assert dropout(x, p, training).equal(x)


def test_everything_dropped():
    x = torch.randn(SHAPE, requires_grad=True)
    out = dropout(x, 1.0, training=True)
    out.sum().backward()
    assert not out.any() and not x.grad.any()


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(torch.ones(2**16 - 1), id="small"),
        pytest.param(torch.ones(SHAPE).transpose(0, 2), id="not_contiguous"),
        pytest.param(torch.ones(SHAPE)[:, :, ::2], id="a_slice"),
    ],
)
def test_what_is_left_to_torch(x):
    out = dropout(x.clone().requires_grad_() if x.is_contiguous() else x, 0.3, training=True)
    assert not is_ours(out)
    torch.manual_seed(3)
    ours = dropout(x, 0.3, training=True)
    torch.manual_seed(3)
    assert ours.equal(F.dropout(x, 0.3, True))


def test_what_is_not():
    assert is_ours(dropout(torch.ones(2**16, requires_grad=True), 0.3, training=True))
    assert is_ours(dropout(torch.ones(SHAPE, requires_grad=True)[1:], 0.3, training=True))


def test_a_slice_in_the_middle_of_a_tensor():
    x = torch.randn(3, 2**16)
    out = dropout(x[1], 0.5, training=True)
    kept = out != 0
    assert out[kept].equal(2 * x[1][kept])


def test_a_seed_repeats_and_another_does_not():
    x = torch.randn(SHAPE)

    def out(seed):
        torch.manual_seed(seed)
        return dropout(x, 0.3, training=True)

    assert out(3).equal(out(3))
    assert not out(3).equal(out(4))


def saved_elements(function):
    x = torch.randn(SHAPE, requires_grad=True) * 1  # not a leaf: its memory could be freed
    saved = []

    def pack(tensor):
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = function(x, 0.3, True)
    attributes = getattr(out.grad_fn, "__dict__", {})
    held = [value for value in attributes.values() if torch.is_tensor(value)]
    return sum(saved) + sum(value.numel() for value in held)


def test_no_mask_is_kept_for_the_backward_pass():
    assert saved_elements(dropout) == 0
    assert saved_elements(lambda x, p, training: x * x.bernoulli(1 - p)) >= SIZE


def test_a_second_derivative_is_refused():
    x = torch.randn(SHAPE, requires_grad=True)
    out = dropout(x, 0.3, training=True)
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
