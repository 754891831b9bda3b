"""TupeEncoderLayer: where dropout is, shown by its effect."""

import pytest
import torch
import torch.nn.functional as F

from helpers.tensors import normal
from tupe_fairseq.modules import TupeEncoderLayer

DIM, FFN = 6, 5
NONE = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def layer_with(normalize_before, **dropouts):
    layer = TupeEncoderLayer(
        DIM, 3, FFN, scaling=0.3, normalize_before=normalize_before, **{**NONE, **dropouts}
    )
    return normal(layer).double().train()


def norms(layer, normalize_before):
    """The two LayerNorms where post-LN has them; nothing there in pre-LN."""
    if normalize_before:
        return (lambda x: x), (lambda x: x)
    return layer.self_attn_layer_norm, layer.final_layer_norm


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post_ln", "pre_ln"])
def test_both_branches(normalize_before):
    """With all of them dropped the residual alone is left."""
    layer = layer_with(normalize_before, dropout=1.0)
    x = torch.randn(2, 4, DIM, dtype=torch.float64)
    first, second = norms(layer, normalize_before)
    assert layer(x).equal(second(first(x)))
    assert not layer.eval()(x).equal(second(first(x)))


@pytest.mark.parametrize("branch", ["attention", "ffn"])
def test_each_branch(branch):
    """The other one made zero: a share of the elements is the residual's, the rest is scaled."""
    layer = layer_with(True, dropout=0.25)
    silent = layer.fc2 if branch == "attention" else layer.self_attn.out_proj
    for parameter in silent.parameters():
        torch.nn.init.zeros_(parameter)
    x = torch.randn(1, 500, DIM, dtype=torch.float64)
    change = layer.train()(x) - x
    whole = layer.eval()(x) - x
    kept = change.abs() > 1e-12
    # five standard deviations of the mean of so many draws
    assert abs(kept.double().mean() - 0.75) < 5 * (0.1875 / kept.numel()) ** 0.5
    torch.testing.assert_close(change[kept], whole[kept] / 0.75, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post_ln", "pre_ln"])
def test_activation(normalize_before):
    """With all of it dropped the feed-forward network gives its last bias."""
    layer = layer_with(normalize_before, activation_dropout=1.0)
    x = torch.randn(2, 4, DIM, dtype=torch.float64)
    first, second = norms(layer, normalize_before)
    attended = layer.self_attn(layer.self_attn_layer_norm(x) if normalize_before else x)
    expected = second(first(x + attended) + layer.fc2.bias)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)
    assert not torch.allclose(layer.eval()(x), expected)


def test_the_share_of_activations():
    """A network that only hands its activations on."""
    layer = layer_with(True, activation_dropout=0.25)
    for module in (layer.self_attn.out_proj, layer.fc2):
        torch.nn.init.zeros_(module.bias)
    torch.nn.init.zeros_(layer.self_attn.out_proj.weight)
    with torch.no_grad():
        layer.fc2.weight.copy_(torch.eye(DIM, FFN))
    x = torch.randn(1, 500, DIM, dtype=torch.float64)
    change = (layer(x) - x)[..., :FFN]
    whole = F.gelu(layer.fc1(layer.final_layer_norm(x)))
    kept = change.abs() > 1e-12
    assert abs(kept.double().mean() - 0.75) < 5 * (0.1875 / kept.numel()) ** 0.5
    torch.testing.assert_close(change[kept], whole[kept] / 0.75, rtol=1e-6, atol=1e-12)


def test_attention_probabilities():
    """With all of them dropped attention gives its last bias."""
    layer = layer_with(True, attention_dropout=1.0)
    for parameter in layer.fc2.parameters():
        torch.nn.init.zeros_(parameter)
    x = torch.randn(2, 4, DIM, dtype=torch.float64)
    expected = x + layer.self_attn.out_proj.bias
    assert layer(x).equal(expected) and not layer.eval()(x).equal(expected)
