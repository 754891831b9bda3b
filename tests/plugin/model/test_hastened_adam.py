"""fairseq's Adam through torch's kernel: the same updates, the same state."""

import copy

import pytest
import torch
from fairseq.optim.adam import Adam

from tupe_fairseq.plugin.model import hastened_adam
from tupe_fairseq.plugin.on_import import torch_is_at_least

OPTIONS = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-3, "weight_decay": 0.1}
SHAPES = [(7, 300), (5,), (1,), (3, 2, 2)]
needs_kernel = pytest.mark.skipif(not torch_is_at_least(2, 4), reason="this torch has no kernel")


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    monkeypatch.setattr(Adam, "step", hastened_adam._fairseqs_step)


def parameters(dtype=torch.float32):
    torch.manual_seed(2)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in SHAPES]


def train(params, optimizer, updates):
    """Some updates; the second parameter is left out of every other one."""
    for number in updates:
        torch.manual_seed(number)
        for index, p in enumerate(params):
            grad = torch.randn(p.shape) * 10.0 ** (index - 2)
            p.grad = None if index == 1 and number % 2 else grad.to(p.dtype)
        optimizer.step()


def two_groups(params):
    return [{"params": params[:3]}, {"params": params[3:], "weight_decay": 0.0, "lr": 3e-2}]


def trained(dtype=torch.float32):
    params = parameters(dtype)
    optimizer = Adam(two_groups(params), **OPTIONS)
    train(params, optimizer, range(6))
    return params, optimizer


@needs_kernel
def test_the_same_updates_and_state(monkeypatch):
    exact, _ = trained(torch.float64)
    plain, plains = trained()
    hastened_adam.hasten_adam()
    used = []
    real = hastened_adam._update
    monkeypatch.setattr(hastened_adam, "_update", lambda *given: used.append(1) or real(*given))
    fused, optimizer = trained()
    assert used
    for ours, theirs, expected in zip(fused, plain, exact):
        # six updates of some hundredths, each with a few roundings of numbers around 1
        torch.testing.assert_close(ours.double(), expected, rtol=0, atol=2e-6)
        torch.testing.assert_close(theirs.double(), expected, rtol=0, atol=2e-6)
    for p, q in zip(fused, plain):
        state, expected = optimizer.state[p], plains.state[q]
        assert list(state) == list(expected) and state["step"] == expected["step"]
        for key in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(state[key], expected[key], rtol=2e-6, atol=1e-9)
    assert [optimizer.state[p]["step"] for p in fused] == [6, 3, 6, 6]


@needs_kernel
def test_a_training_goes_on_with_either():
    params, optimizer = trained()
    results = []
    for is_hastened in (False, True):
        if is_hastened:
            hastened_adam.hasten_adam()
        again = copy.deepcopy(params)
        other = Adam(two_groups(again), **OPTIONS)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        train(again, other, range(6, 9))
        results.append(again)
    for pair in zip(*results):
        torch.testing.assert_close(*pair, rtol=0, atol=1e-6)


def test_what_the_kernel_is_not_for_is_fairseqs(monkeypatch):
    """And a torch without it."""
    hastened_adam.hasten_adam()
    monkeypatch.setattr(hastened_adam, "_update", None)
    bf16 = [torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))]
    train(bf16, Adam(bf16, **OPTIONS), range(1))
    assert (bf16[0] != 1).any()
    sparse = torch.nn.Parameter(torch.ones(3))
    sparse.grad = torch.ones(3).to_sparse()
    with pytest.raises(RuntimeError, match="does not support sparse"):
        Adam([sparse], **OPTIONS).step()
    assert hasattr(Adam.step, "is_hastened") == torch_is_at_least(2, 4)
