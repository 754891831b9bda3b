"""TupeMultiheadAttention: torch's own without a bias, and what a bias and padding change."""

import pytest
import torch

from helpers.tensors import normal
from tupe_fairseq.attention import Padding
from tupe_fairseq.modules import TupeMultiheadAttention


def randomized(**options):
    return normal(TupeMultiheadAttention(6, 3, **options))


def test_without_bias_and_with_ordinary_scaling_it_is_torchs():
    ours = randomized(scaling=2**-0.5)
    theirs = torch.nn.MultiheadAttention(6, 3, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 6)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    expected, _ = theirs(x, x, x, key_padding_mask=padding)
    actual = ours(x, key_padding_mask=padding)
    torch.testing.assert_close(actual[~padding], expected[~padding], rtol=1e-5, atol=1e-6)


def test_a_bias_is_added_after_scaling():
    attention = randomized(scaling=0.1)
    torch.nn.init.zeros_(attention.in_proj_weight[:12])
    x = torch.randn(1, 4, 6)
    bias = torch.full((3, 4, 4), -1e9)
    bias[:, torch.arange(4), torch.tensor([2, 0, 3, 1])] = 0  # each query sees one key
    v = torch.nn.functional.linear(x, attention.in_proj_weight[12:], attention.in_proj_bias[12:])
    expected = attention.out_proj(v[:, [2, 0, 3, 1]])
    torch.testing.assert_close(attention(x, bias), expected, rtol=1e-5, atol=1e-6)


def test_dropout_is_on_the_probabilities_in_training_only():
    attention = randomized(scaling=0.5, dropout=1.0)
    x = torch.randn(2, 5, 6)
    assert attention(x).equal(attention.out_proj.bias.expand(2, 5, 6))
    attention.eval()
    without = randomized(scaling=0.5)
    without.load_state_dict(attention.state_dict())
    assert attention(x).equal(without(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_a_row_of_nothing_but_padding_is_finite_with_finite_gradients(dtype):
    attention = randomized(scaling=0.5).to(dtype)
    x = torch.randn(2, 5, 6, dtype=dtype, requires_grad=True)
    out = attention(x, key_padding_mask=torch.tensor([[False] * 5, [True] * 5]))
    out.sum().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()


def test_scores_are_summed_in_float32():
    """A bias that bf16 cannot represent next to the scores must still decide."""
    attention = randomized(scaling=0.5).bfloat16()
    x = torch.randn(1, 2, 6, dtype=torch.bfloat16)
    small = torch.tensor([[[256.0, 256.5], [256.0, 256.0]]])
    assert not attention(x, small)[0, 0].equal(attention(x, small.bfloat16())[0, 0])


class Numbered(torch.nn.Module):
    """Not a function of the distance alone, as all of ours are: tells where counting begins."""

    reads_content = True

    def transform(self, x, positions):
        return x * (1 + positions.unsqueeze(-1)).to(x.dtype)

    def content_bias(self, q, k, positions_q, positions_k):
        return None


def test_positions_begin_anew_in_every_packed_sequence():
    attention = randomized(scaling=0.3, position=Numbered()).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    padding = Padding(torch.arange(5) >= torch.tensor([[4], [2], [5]]), pack=True)
    out = padding.unpack(attention(padding.pack(x), key_padding_mask=padding))
    for row, length in enumerate((4, 2, 5)):
        alone = attention(x[row : row + 1, :length])
        torch.testing.assert_close(out[row : row + 1, :length], alone, rtol=0, atol=1e-12)


def test_an_additive_mask_is_refused():
    with pytest.raises(TypeError, match="float32, not bool; True marks padding"):
        randomized(scaling=0.5)(torch.randn(1, 4, 6), key_padding_mask=torch.zeros(1, 4))


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match=r"\(6\).*\(4\).*--encoder-attention-heads"):
        TupeMultiheadAttention(6, 4, scaling=1.0)


@pytest.mark.parametrize("method", ["forward", "attention_weights"])
@pytest.mark.parametrize("shape", [(1, 5), (3, 5), (2, 4), (5,)], ids=str)
def test_a_mask_of_another_shape_is_refused(shape, method):
    attention, mask = randomized(scaling=0.5), torch.ones(shape).bool()
    with pytest.raises(ValueError) as error:
        getattr(attention, method)(torch.randn(2, 5, 6), key_padding_mask=mask)
    assert f"key_padding_mask is {shape}, and the input is (2, 5, 6)" in str(error.value)
