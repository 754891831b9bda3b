"""The encoder in fp16 and bf16 with every position encoding: near float32, finite at the extremes.

What attention alone does with large logits is in attention/test_large_logits.py.
"""

import pytest
import torch

from helpers.position_cases import ALL_OF_ENCODER, DIM, encoder_of, parametrized, random_input

SHORT = {"bf16": torch.bfloat16, "fp16": torch.float16}
# whole, padded, and nothing but padding; and a single token
PADDING = [torch.arange(7) >= torch.tensor([[7], [4], [0]]), torch.zeros(1, 1, dtype=torch.bool)]

in_16_bits = pytest.mark.parametrize("dtype", SHORT.values(), ids=SHORT)


def answer(encoder, padding):
    """Outputs at tokens, and all gradients in a row, both in float64."""
    dtype = next(encoder.parameters()).dtype
    # 16 bits in any case, so that all begin with the same numbers
    x = random_input(padding.size(1), len(padding)).half().bfloat16().to(dtype).requires_grad_()
    weights = random_input(padding.size(1), len(padding)).sin().to(dtype)
    encoder.zero_grad()
    try:
        out = encoder(x, padding)
        (out * weights)[~padding].sum().backward()
    except RuntimeError as error:
        if "not implemented for 'Half'" not in str(error):
            raise
        pytest.skip(f"this torch has no kernel: {error}")
    grads = [x.grad, *(p.grad for p in encoder.parameters())]
    assert out.isfinite().all() and all(grad.isfinite().all() for grad in grads)
    return out[~padding].double(), torch.cat([grad.double().flatten() for grad in grads])


def copied(encoder, case, dtype, **options):
    """The same numbers in another dtype."""
    copy = encoder_of(case, dtype, **options)
    with torch.no_grad():
        for ours, theirs in zip(copy.parameters(), encoder.parameters()):
            ours.copy_(theirs)
    return copy


def distance(actual, expected):
    return ((actual - expected).norm() / expected.norm()).item()


@in_16_bits
@parametrized(ALL_OF_ENCODER)
def test_near_float32(case, dtype):
    encoder = encoder_of(case, dtype, attn_impl="auto", unpad=True)
    exact = copied(encoder, case, torch.float32)
    eps = torch.finfo(dtype).eps
    for padding in PADDING:
        (out, grads), (exact_out, exact_grads) = answer(encoder, padding), answer(exact, padding)
        # A rounding moves a number by up to eps / 2, 0.3 eps in the mean square; some 12 in each of
        # two layers add up at random: 0.3 * 24 ** 0.5 = 1.4 eps.  A gradient has those of three
        # passes, and the means that LayerNorm and softmax subtract double them: 5 eps.
        assert distance(out, exact_out) < 2 * eps
        assert distance(grads, exact_grads) < 5 * eps


def with_large_logits(encoder):
    """Both terms of the scores at up to some 1e4."""
    with torch.no_grad():
        for layer in encoder.layers:
            layer.self_attn.in_proj_weight[: 2 * DIM] *= 40
        for name, parameter in encoder.named_parameters():
            if "relative_attention_bias" in name:
                parameter *= 1e4
            elif "position" in name and "_proj" in name:
                parameter *= 40
    return encoder


# bf16 has the range of float32
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@parametrized(ALL_OF_ENCODER)
def test_finite_with_logits_of_1e4(case, dtype):
    encoder = with_large_logits(encoder_of(case, dtype, attn_impl="auto", unpad=True))
    exact = copied(encoder, case, torch.float64)
    for padding in PADDING:
        out, _ = answer(encoder, padding)
        if dtype == torch.float32:
            # float32 adds up some 20 numbers of 1e4 with an error of 20 * 1e4 * 2 ** -24 = 0.012,
            # by which share probabilities move; each of two layers sees it
            assert distance(out, answer(exact, padding)[0]) < 0.03
