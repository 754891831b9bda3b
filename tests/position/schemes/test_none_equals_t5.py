"""Buckets and bias equal those of T5 in transformers."""

import pytest
import torch

from tupe_fairseq.position import (
    RelativePositionBias,
    build_position_encoding,
    relative_position_bucket,
)

HEADS, HEAD_DIM = 3, 5
SIZES = [(32, 128), (8, 20), (10, 7), (64, 300)]
sizes = pytest.mark.parametrize("num_buckets, max_distance", SIZES, ids=lambda n: str(n))
causality = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@pytest.fixture(scope="module")
def t5():
    """Builds T5's attention; of a decoder where it is causal."""
    reason = "transformers is not installed: its T5 is what the bucketed bias is compared with"
    pytest.importorskip("transformers", reason=reason)
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    def build(num_buckets, max_distance, causal):
        config = T5Config(
            d_model=HEADS * HEAD_DIM, d_kv=HEAD_DIM, num_heads=HEADS, is_decoder=causal,
            relative_attention_num_buckets=num_buckets,
            relative_attention_max_distance=max_distance,
        )  # fmt: skip
        return T5Attention(config, has_relative_attention_bias=True, layer_idx=0)

    return build


def with_the_table_of(attention, bias):
    """Our table has rows for [CLS] after those of the buckets."""
    table = attention.relative_attention_bias.weight
    torch.nn.init.normal_(table)
    with torch.no_grad():
        bias.relative_attention_bias.weight[: len(table)] = table
    return bias


@causality
@sizes
def test_every_bucket_is_t5s(t5, num_buckets, max_distance, causal):
    relative = torch.arange(-3 * max_distance, 3 * max_distance)
    expected = t5(num_buckets, max_distance, causal)._relative_position_bucket(
        relative, not causal, num_buckets, max_distance
    )
    actual = relative_position_bucket(relative, num_buckets, max_distance, causal=causal)
    assert actual.equal(expected)


@dtypes
@pytest.mark.parametrize("queries, keys", [(1, 1), (33, 33), (7, 150)])
@causality
@sizes
def test_bias_and_gradient_are_t5s(t5, num_buckets, max_distance, causal, queries, keys, dtype):
    attention = t5(num_buckets, max_distance, causal).to(dtype)
    bias = RelativePositionBias(HEADS, num_buckets, max_distance, untie_cls=False, causal=causal)
    bias = with_the_table_of(attention, bias.to(dtype))
    actual, expected = bias(queries, keys), attention.compute_bias(queries, keys)[0]
    assert actual.equal(expected)

    weights = torch.randn(actual.shape, dtype=dtype)
    for out in (actual, expected):
        (out * weights).sum().backward()
    grad = bias.relative_attention_bias.weight.grad
    theirs = attention.relative_attention_bias.weight.grad
    # sums of up to a thousand terms in another order
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(grad[: len(theirs)], theirs, rtol=1e-5, atol=tolerance)
    assert (grad[len(theirs) :] == 0).all()


@dtypes
@pytest.mark.parametrize("untie_cls", [False, True], ids=["tied", "untied"])
@causality
def test_logits_of_none_with_rel_pos(t5, causal, untie_cls, dtype):
    """T5's logits but for the factor; and where [CLS] is untied, but for its row and column."""
    attention = t5(8, 20, causal).to(dtype)
    position = build_position_encoding(
        "none", embed_dim=HEADS * HEAD_DIM, num_heads=HEADS, max_positions=4, causal=causal,
        rel_pos=True, rel_pos_buckets=8, max_rel_pos=20, untie_cls=untie_cls,
    ).to(dtype)  # fmt: skip
    relative = with_the_table_of(attention, position.relative)
    torch.nn.init.normal_(relative.relative_attention_bias.weight[8:])
    table, theirs = relative.relative_attention_bias.weight, attention.relative_attention_bias
    q, k = (torch.randn(2, HEADS, 9, HEAD_DIM, dtype=dtype, requires_grad=True) for _ in "qk")
    actual = position.forward_attn(q, k)

    bias = attention.compute_bias(9, 9)
    if untie_cls:
        # rows of the table, see RelativePositionBias
        to_other, to_cls = table[9 if causal else 4], table[8]
        column = to_cls.view(1, HEADS, 1, 1).expand(1, HEADS, 9, 1)
        bias = torch.cat([column, bias[..., 1:]], dim=3)
        row = to_other.view(1, HEADS, 1, 1).expand(1, HEADS, 1, 9)
        bias = torch.cat([row, bias[:, :, 1:]], dim=2)
    expected = q @ k.transpose(2, 3) * HEAD_DIM**-0.5 + bias
    seen = torch.ones_like(actual, dtype=torch.bool)
    if causal:
        seen = seen.tril()
    assert (actual[~seen] == float("-inf")).all()
    tolerance = {"rtol": 1e-5, "atol": 1e-6 if dtype == torch.float32 else 1e-10}
    torch.testing.assert_close(actual[seen], expected[seen], **tolerance)

    weights = torch.randn(actual.shape, dtype=dtype)[seen]
    grads = torch.autograd.grad((actual[seen] * weights).sum(), [q, k, table])
    leaves = [q, k, table, theirs.weight] if untie_cls else [q, k, theirs.weight]
    their_grads = list(torch.autograd.grad((expected[seen] * weights).sum(), leaves))
    in_table = torch.zeros_like(table)
    in_table[:8] = their_grads.pop()
    if untie_cls:
        in_table += their_grads.pop()
    # float32: sums of up to a hundred terms in another order
    tolerance = {"rtol": 1e-5, "atol": 1e-5 if dtype == torch.float32 else 1e-10}
    for ours, their in zip(grads, [*their_grads, in_table]):
        torch.testing.assert_close(ours, their, **tolerance)
    assert bool((grads[2][8] != 0).all()) == untie_cls
