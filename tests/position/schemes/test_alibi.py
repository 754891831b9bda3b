"""ALiBi: slopes and bias as in the paper and in transformers, [CLS] untied."""

import math

import pytest
import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.position import build_position_encoding

BATCH, HEAD_DIM, SEQ_LEN = 2, 5, 11
# By hand: of the paper, 2^-1 .. 2^-8 for 8 heads; 6 heads have the 4 of 4 heads, which are every
# other one of those, and then the two first that lie between.
SLOPES = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
    8: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8],
    12: [*(2**-n for n in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    16: [2 ** (-n / 2) for n in range(1, 17)],
}
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
}
dtypes = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)


def alibi(num_heads, dtype=torch.float64, **options):
    sizes = {"embed_dim": HEAD_DIM * num_heads, "num_heads": num_heads, "max_positions": 4}
    position = build_position_encoding("alibi", **sizes, **options).to(dtype)
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position


def oracle(num_heads, positions_q, positions_k, to_other=None, to_cls=None):
    """The bias, entry by entry."""
    entries = []
    for h in range(num_heads):
        for p in positions_q:
            for r in positions_k:
                entry = torch.tensor(-SLOPES[num_heads][h] * abs(r - p), dtype=torch.float64)
                if to_other is not None and p == 0:
                    entry = to_other[h]
                elif to_cls is not None and r == 0:
                    entry = to_cls[h]
                entries.append(entry)
    return torch.stack(entries).view(num_heads, len(positions_q), len(positions_k))


@dtypes
@pytest.mark.parametrize("num_heads", SLOPES)
def test_the_bias_agrees_with_the_oracle_and_is_symmetric(num_heads, dtype):
    position = alibi(num_heads, dtype)
    bias, numbers = position.position_bias(SEQ_LEN), range(SEQ_LEN)
    assert bias.dtype == dtype and bias.equal(bias.transpose(1, 2))
    expected = oracle(num_heads, numbers, numbers).to(dtype)
    torch.testing.assert_close(bias, expected, **TOLERANCE[dtype])

    far = [-3, 500, 0], [499, 1, 0, 7]
    bias = position.position_bias(*(torch.tensor(p) for p in far))
    torch.testing.assert_close(bias, oracle(num_heads, *far).to(dtype), **TOLERANCE[dtype])


@dtypes
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
def test_logits_and_gradients_with_cls_untied_agree_with_the_oracle(causal, dtype):
    """[CLS] is where the position is 0, at another place in each row."""
    heads, rows = 6, [[3, 0, 1, 7], [0, 5, 9, 2]]
    position = alibi(heads, dtype, untie_cls=True, causal=causal)
    q, k = (torch.randn(BATCH, heads, 4, HEAD_DIM, dtype=dtype, requires_grad=True) for _ in "qk")
    leaves = [q, k, position.cls_to_other, position.other_to_cls]
    logits = position.forward_attn(q, k, torch.tensor(rows), torch.tensor(rows))

    q64, k64, *values = (leaf.double() for leaf in leaves)
    bias = torch.stack([oracle(heads, row, row, *values) for row in rows])
    expected = q64 @ k64.transpose(2, 3) / math.sqrt(HEAD_DIM) + bias
    seen = torch.tensor([[[r <= p or not causal for r in row] for p in row] for row in rows])
    seen = seen.unsqueeze(1).expand_as(logits)
    assert (logits[~seen] == float("-inf")).all()
    torch.testing.assert_close(logits[seen], expected[seen].to(dtype), **TOLERANCE[dtype])

    weights = torch.randn(logits.shape, dtype=dtype)[seen]
    grads = torch.autograd.grad((logits[seen] * weights).sum(), leaves)
    theirs = torch.autograd.grad((expected[seen] * weights.double()).sum(), leaves)
    for ours, their in zip(grads, theirs):
        torch.testing.assert_close(ours, their, **TOLERANCE[dtype])
        assert (ours != 0).any()


def test_untying_touches_the_row_and_the_column_of_cls_alone():
    untied, tied = alibi(6, untie_cls=True).position_bias(9), alibi(6).position_bias(9)
    assert untied[:, 1:, 1:].equal(tied[:, 1:, 1:])
    without_cls = torch.arange(1, 9)
    assert alibi(6, untie_cls=True).position_bias(without_cls).equal(tied[:, 1:, 1:])


def test_nothing_is_learned_but_the_untied_cls():
    assert not alibi(6).state_dict()
    state = alibi(6, untie_cls=True).state_dict()
    assert {name: tuple(x.shape) for name, x in state.items()} == {
        "cls_to_other": (6,), "other_to_cls": (6,),
    }  # fmt: skip


def test_in_the_encoder_the_row_that_cancels_has_no_gradient():
    config = TupeConfig(
        embed_dim=12, num_heads=3, num_layers=2, ffn_embed_dim=5, dropout=0.0,
        attention_dropout=0.0, position_encoding="alibi", untie_cls=True,
    )  # fmt: skip
    encoder = TupeEncoder(config)
    out = encoder(torch.randn(BATCH, SEQ_LEN, 12))
    (out * torch.randn_like(out)).sum().backward()
    assert (encoder.position_bias.cls_to_other.grad == 0).all()
    assert (encoder.position_bias.other_to_cls.grad != 0).all()


def test_16_bits_give_a_float32_bias_of_unrounded_slopes():
    assert alibi(12, torch.bfloat16).position_bias(9).equal(alibi(12, torch.float32)(9))


@pytest.fixture(scope="module")
def theirs():
    reason = "transformers is not installed: its Bloom and MPT are what alibi is compared with"
    pytest.importorskip("transformers", reason=reason)
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    def bloom(num_heads, dtype):
        mask = torch.ones(BATCH, SEQ_LEN, dtype=torch.int64)
        alibi = build_alibi_tensor(mask, num_heads, dtype)
        return alibi.view(BATCH, num_heads, 1, SEQ_LEN)

    def mpt(num_heads, dtype):
        return build_mpt_alibi_tensor(num_heads, SEQ_LEN).to(dtype)

    return {"bloom": bloom, "mpt": mpt}


@dtypes
@pytest.mark.parametrize("num_heads", [1, 3, 8, 12])
@pytest.mark.parametrize("model", ["bloom", "mpt"])
def test_causal_attention_is_that_of_transformers(theirs, model, num_heads, dtype):
    """Their bias is that of the last query in every row; the rest is a constant of the row."""
    q, k = (
        torch.randn(BATCH, num_heads, SEQ_LEN, HEAD_DIM, dtype=dtype, requires_grad=True)
        for _ in "qk"
    )
    weights = torch.randn(BATCH, num_heads, SEQ_LEN, SEQ_LEN, dtype=dtype)
    scores = q @ k.transpose(2, 3) / math.sqrt(HEAD_DIM) + theirs[model](num_heads, dtype)
    is_later = torch.ones(SEQ_LEN, SEQ_LEN, dtype=torch.bool).triu(1)
    expected = scores.masked_fill(is_later, float("-inf")).softmax(dim=-1)
    actual = alibi(num_heads, dtype, causal=True).forward_attn(q, k).softmax(dim=-1)
    # their slopes are float32 whatever the dtype
    tolerance = TOLERANCE[torch.float32]
    torch.testing.assert_close(actual, expected, **tolerance)
    for ours, their in zip(
        torch.autograd.grad((actual * weights).sum(), [q, k]),
        torch.autograd.grad((expected * weights).sum(), [q, k]),
    ):
        torch.testing.assert_close(ours, their, **tolerance)


@pytest.mark.parametrize("num_heads", [1, 3, 8, 12])
def test_slopes_are_those_of_mpt(theirs, num_heads):
    ours = alibi(num_heads, torch.float32).position_bias(SEQ_LEN)[:, -1:]
    their = theirs["mpt"](num_heads, torch.float32)
    torch.testing.assert_close(ours, their, rtol=1e-6, atol=0)
