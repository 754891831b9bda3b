"""Random parameters, and comparing tensors."""

import torch


def normal(module, std=0.5):
    """The module, its parameters all far from their initial zeros and ones."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return module


def assert_within(actual, expected, tolerance):
    """Each tensor of a dict within ``tolerance`` of its own scale, which is at least 1."""
    assert actual.keys() == expected.keys()
    for name, theirs in expected.items():
        ours = actual[name]
        if theirs is None:
            assert ours is None, name
            continue
        assert ours is not None and ours.shape == theirs.shape, name
        if not theirs.numel():
            continue
        scale = max(1.0, theirs.abs().max().item())
        error = (ours.to(torch.float64) - theirs.to(torch.float64)).abs().max().item()
        assert error <= tolerance * scale, f"{name}: {error} > {tolerance} * {scale}"
