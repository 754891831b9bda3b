"""Angles are computed in float64, which not every device has."""

import pytest
import torch
from tupe_fairseq.position.schemes.sinusoidal import sinusoid
from tupe_fairseq.position.schemes.transformer_xl import distance_sinusoid

from helpers.position_cases import Case, build, random_input


class OnApple(torch.Tensor):
    """Integers on a device that refuses float64, as Apple's does."""

    device = property(lambda self: torch.device("mps"))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        out = super().__torch_function__(function, types, args, kwargs)
        if function is torch.Tensor.cpu:
            return out.as_subclass(torch.Tensor)
        if isinstance(out, torch.Tensor) and out.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return out


ENFORMER, ROPE = (build(Case(name, {}), torch.float32) for name in ("enformer", "rope"))


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda p: sinusoid(p, 8), id="sinusoidal"),
        pytest.param(lambda p: distance_sinusoid(p, 8), id="transformer-xl"),
        pytest.param(lambda p: ENFORMER.features(p), id="enformer"),
        pytest.param(
            lambda p: ROPE.transform(random_input(3, dtype=torch.float32)[..., :4], p), id="rope"
        ),
    ],
)
def test_they_are_computed_on_the_cpu(compute):
    positions = torch.tensor([3, 0, 8])
    assert compute(positions.as_subclass(OnApple)).equal(compute(positions))
