"""The activation functions are fairseq's."""

import pytest
import torch
from tupe_fairseq.modules.activations import ACTIVATIONS, get_activation_fn


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_names_mean_what_they_mean_in_fairseq(name):
    utils = pytest.importorskip("fairseq.utils", reason="it compares with fairseq")
    assert name in utils.get_available_activation_fns()
    x = torch.linspace(-4, 4, 101)
    expected = utils.get_activation_fn(name)(x)
    torch.testing.assert_close(get_activation_fn(name)(x), expected, rtol=1e-5, atol=1e-6)


def test_an_unknown_name_lists_the_good_ones():
    with pytest.raises(ValueError, match="'swoosh'.*gelu, .*relu"):
        get_activation_fn("swoosh")
