"""Splitting the joint projection without a copy, forward and backward."""

import pytest
import torch

from helpers.attention_cases import BATCH, HEAD_DIM, HEADS, SCALING, Request
from tupe_fairseq.attention import IMPLEMENTATIONS, Bias, Padding, split_qkv


@pytest.mark.parametrize("shape", [(2, 7, 3, 4, 5), (7, 3, 4, 5)], ids=["padded", "packed"])
def test_it_is_unbind(shape):
    qkv = torch.randn(shape, requires_grad=True)
    parts = split_qkv(qkv)
    assert len(parts) == 3
    for part, expected in zip(parts, qkv.unbind(-3)):
        assert part.equal(expected) and part.stride() == expected.stride()
        assert part.data_ptr() == expected.data_ptr()


def test_gradients():
    qkv = torch.randn(2, 3, 3, 1, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 2, 3, 1, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(split_qkv, qkv)
    # parts in another order, one of them not used
    q, k, _ = split_qkv(qkv)
    (k * weights[0] - 2 * q * weights[1]).sum().backward()
    expected = torch.stack([-2 * weights[1], weights[0], torch.zeros_like(weights[0])], dim=2)
    assert qkv.grad.equal(expected)


def use(padding, qkv, bias=None, dropout=0.0):
    attend = IMPLEMENTATIONS["chunked"].attend
    return attend(*split_qkv(qkv), bias, padding, scaling=SCALING, dropout=dropout)


@pytest.fixture
def no_copy(monkeypatch):
    def stack(*args, **kwargs):
        raise AssertionError("the gradients are copied together")

    monkeypatch.setattr(torch, "stack", stack)


@pytest.mark.parametrize("batch", [1, BATCH])
@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_chunked_writes_the_gradient_of_the_projection(no_copy, packed, batch, heads, dropout):
    lengths = [6, 7, 0, 2][:batch]
    padding = Padding(torch.arange(7) >= torch.tensor(lengths)[:, None], packed)
    shape = (sum(lengths),) if packed else (batch, 7)
    qkv = torch.randn(*shape, 3, heads, HEAD_DIM, requires_grad=True)
    use(padding, qkv, dropout=dropout).sum().backward()
    assert qkv.grad.shape == qkv.shape and qkv.grad.is_contiguous()


def test_a_single_token_of_a_single_sequence(no_copy):
    qkv = torch.randn(1, 1, 3, 1, 1, requires_grad=True)
    use(None, qkv).sum().backward()
    assert qkv.grad.flatten().tolist() == [0, 0, 1]


def test_the_gradient_is_the_buffer_itself():
    request = Request(7, batch=2)
    qkv, bias = request.leaves()
    seen = []
    parts = split_qkv(qkv)
    for part in parts:
        part.register_hook(lambda grad: seen.append(grad.data_ptr()))
    projected = []
    parts[0].grad_fn.register_hook(lambda grads, _: projected.append(grads[0].data_ptr()))
    attend = IMPLEMENTATIONS["chunked"].attend
    attend(*parts, Bias(bias), None, scaling=SCALING, dropout=0.0).sum().backward()
    size = qkv.element_size() * HEADS * HEAD_DIM
    assert seen == [projected[0], projected[0] + size, projected[0] + 2 * size]


def joined(function, qkv):
    """The gradient through split_qkv, and through torch's own unbind."""
    grads = []
    for split in (split_qkv, lambda x: x.unbind(-3)):
        leaf = qkv.detach().clone().requires_grad_()
        function(*split(leaf)).backward()
        grads.append(leaf.grad)
    return grads


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda q, k, v: (q * k * v).sum(), id="of_their_own"),
        pytest.param(lambda q, k, v: (q + 2 * k).sum(), id="one_unused"),
        pytest.param(lambda q, k, v: (v * v).sum(), id="two_unused"),
        pytest.param(lambda q, k, v: (q + k + v).sin().sum(), id="one_tensor_thrice"),
        pytest.param(
            lambda q, k, v: (torch.stack([q, k, v]).cumsum(0) ** 3).sum(), id="another_axis"
        ),
        pytest.param(
            lambda q, k, v: (torch.stack([k, q, v], -3).cumsum(-3) ** 3).sum(), id="another_order"
        ),
        pytest.param(
            lambda q, k, v: (torch.cat([q, k, v], -1).cumsum(-1) ** 3).sum(), id="side_by_side"
        ),
    ],
)
def test_other_gradients_are_joined(function):
    actual, expected = joined(function, torch.randn(2, 4, 3, 5, 6, dtype=torch.float64))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


class OneBuffer(torch.autograd.Function):
    """Gradients that are slices of one buffer of a given order of axes."""

    @staticmethod
    def forward(ctx, q, k, v, axes):
        ctx.axes = axes
        return q + k + v

    @staticmethod
    def backward(ctx, grad):
        whole = torch.stack([grad, 2 * grad, 3 * grad], dim=-3)
        back = [ctx.axes.index(axis) for axis in range(5)]
        whole = whole.permute(ctx.axes).contiguous()
        return (*whole.permute(back).unbind(-3), None)


@pytest.mark.parametrize(
    "axes", [(0, 1, 2, 3, 4), (0, 1, 2, 4, 3), (1, 0, 2, 3, 4), (1, 0, 2, 4, 3), (2, 0, 1, 3, 4)]
)
def test_a_buffer_in_another_order_is_not_taken_for_the_projections(axes):
    actual, expected = joined(
        lambda *qkv: (OneBuffer.apply(*qkv, axes) ** 3).sum(),
        torch.randn(2, 4, 3, 5, 6, dtype=torch.float64),
    )
    assert actual.equal(expected)


def test_two_calls_add_up(no_copy):
    """Each call has its own buffer; their sum is a slice of neither."""
    qkv = torch.randn(2, 7, 3, HEADS, HEAD_DIM, dtype=torch.float64, requires_grad=True)
    use(None, qkv).sum().backward()
    once = qkv.grad.clone()
    use(None, qkv).sum().backward()
    assert qkv.grad.equal(2 * once)


def test_one_split_used_by_two_calls():
    def twice(q, k, v):
        attend = IMPLEMENTATIONS["chunked"].attend
        first, second = (attend(q, k, v, None, None, scaling=s, dropout=0.0) for s in (0.3, 0.7))
        return (first * second).sum()

    actual, expected = joined(twice, torch.randn(2, 4, 3, HEADS, HEAD_DIM, dtype=torch.float64))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
