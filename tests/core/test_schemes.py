"""Each position encoding against its paper, entry by entry in float64: logits and all gradients.

Where transformers is installed, also T5's bias and MPT's ALiBi against its code.
"""

import math

import pytest
import torch

from helpers.position_cases import (
    ALL,
    Case,
    build,
    has_first_values,
    logits,
    parametrized,
    randomize,
)
from helpers.reference import Entry, num_parameters, sinusoid
from tupe_fairseq.position import CATALOGUE, build_position_encoding
from tupe_fairseq.position.deberta import distance_bucket
from tupe_fairseq.position.t5_bias import RelativePositionBias, relative_position_bucket

BATCH, HEADS, HEAD_DIM, MAX = 2, 3, 4, 11
DIM = HEADS * HEAD_DIM
#: the positions of 4 queries and 5 keys
POSITIONS = {
    "counted": (None, None),
    "each sequence": ([[3, 0, 2, 1], [6, 8, 7, 0]], [[2, 4, 0, 3, 1], [1, 2, 8, 0, 5]]),
    "queries of each sequence": ([[3, 0, 2, 1], [6, 10, 7, 0]], [2, 4, 0, 3, 1]),
    "keys of each sequence": (None, [[2, 4, 0, 3, 1], [1, 2, 8, 0, 5]]),
    "far and negative": ([-7, 900, 2, -7], [5, -100000, 2, 3100, -8]),  # if there is no table
}


def of_sequence(positions, b, length):
    """The positions of sequence b as a list: given for the batch, for each sequence, or counted."""
    if positions is None:
        return list(range(length))
    return positions[b] if isinstance(positions[0], list) else positions


def by_the_paper(entry, q, k, positions_q, positions_k):
    entries = []
    for b in range(BATCH):
        at_q, at_k = of_sequence(positions_q, b, q.size(2)), of_sequence(positions_k, b, k.size(2))
        entries += [
            entry.logit(h, q[b, h, i], k[b, h, j], at_q[i], at_k[j])
            for h in range(HEADS)
            for i in range(q.size(2))
            for j in range(k.size(2))
        ]
    return torch.stack(entries).view(BATCH, HEADS, q.size(2), k.size(2))


def assert_as_the_paper(case, module, positions_q, positions_k, head_dim=HEAD_DIM):
    q, k = (
        torch.randn(BATCH, HEADS, n, head_dim, dtype=torch.float64, requires_grad=True)
        for n in (4, 5)
    )
    leaves = {"q": q, "k": k, **dict(module.named_parameters())}
    projection = None
    if module.uses("in_layer"):  # W_Q and W_K of a layer, each with its bias
        size = 2, HEADS * head_dim, HEADS * head_dim + 1
        projection = torch.randn(size, dtype=torch.float64, requires_grad=True)
        leaves["projection"] = projection
    entry = Entry(leaves, HEADS * head_dim, HEADS, MAX, case.name, case.options)
    expected = by_the_paper(entry, q, k, positions_q, positions_k)
    given = [None if p is None else torch.tensor(p) for p in (positions_q, positions_k)]
    actual = logits(module, q, k, *given, projection=projection)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    weights = torch.randn(actual.shape, dtype=torch.float64)
    results = [
        torch.autograd.grad((x * weights).sum(), list(leaves.values()), materialize_grads=True)
        for x in (actual, expected)
    ]
    for name, ours, theirs in zip(leaves, *results):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8, msg=name)


@parametrized(ALL)
def test_logits_and_gradients_are_the_papers(case):
    for kind, positions in POSITIONS.items():
        if not (case.has_table and kind.startswith("far")):
            assert_as_the_paper(case, build(case), *positions)


@pytest.mark.parametrize(
    "case, head_dim",
    [
        # several functions of each kind
        (Case("enformer", {}), 13),
        (Case("enformer", {"symmetric_basis": True}), 13),
        # one sine more than cosines
        (Case("transformer-xl", {}), 5),
    ],
    ids=lambda x: getattr(x, "id", x),
)
def test_other_widths(case, head_dim):
    sizes = {"embed_dim": HEADS * head_dim, "num_heads": HEADS, "max_positions": MAX}
    module = build_position_encoding(case.name, **sizes, **case.options)
    positions = POSITIONS["each sequence"]
    assert_as_the_paper(case, randomize(module.double()), *positions, head_dim=head_dim)


# ---- What is added to the input -----------------------------------------------------------------

ROWS = {"counted": None, "given": [5, 0, 9, 2], "each sequence": [[1, 0, 3, 9], [8, 4, 4, 2]]}


@pytest.mark.parametrize("dim", [2, 8, 9])
def test_sinusoidal_positions(dim):
    module = build_position_encoding("sinusoidal", embed_dim=dim, num_heads=1, max_positions=3)
    x = torch.randn(BATCH, 4, dim, dtype=torch.float64)
    for rows in ROWS.values():
        added = [[sinusoid(t, dim) for t in of_sequence(rows, b, 4)] for b in range(BATCH)]
        expected = x + torch.tensor(added, dtype=torch.float64)
        given = None if rows is None else torch.tensor(rows)
        actual = module.double().forward_input(x, given)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


# ---- Single facts -------------------------------------------------------------------------------


def test_slopes_and_angles_are_not_rounded_to_16_bits():
    case = Case("alibi", {})
    assert build(case, torch.bfloat16)(9).equal(build(case, torch.float32)(9))
    rope = build(Case("rope", {}))
    x, positions = torch.randn(2, 5, HEAD_DIM).bfloat16(), torch.arange(3000, 3005)
    exact = rope.transform(x.float(), positions)
    assert rope.transform(x, positions).equal(exact.bfloat16())


@parametrized([case for case in ALL if build(case)(3) is not None])
def test_the_bias_is_float32_in_half_precision_and_under_autocast(case):
    position = build(case, torch.float32)
    full = position(9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert position(9).equal(full)
    rounded = position.bfloat16()(9)
    assert rounded.dtype == torch.float32
    exact = position.double()(9)  # from the rounded weights
    torch.testing.assert_close(
        rounded.double(), exact, rtol=0, atol=2e-6 * float(exact.detach().abs().max())
    )


@pytest.mark.parametrize("name", CATALOGUE)
def test_parameters_and_their_first_values(name):
    torch.manual_seed(1)
    position = build_position_encoding(name, embed_dim=DIM, num_heads=HEADS, max_positions=MAX)
    parameters = dict(position.named_parameters())
    expected = num_parameters(DIM, HEADS, HEAD_DIM, MAX).get(name, 0)
    assert sum(p.numel() for p in parameters.values()) == expected
    assert list(position.state_dict()) == list(parameters)
    for key, value in parameters.items():
        if (fits := has_first_values(key, value)) is not None:
            assert fits, key
        elif "_ln" in key or key.endswith("bias") and "global" not in key:
            assert (value == (1 if "ln.weight" in key else 0)).all()
        else:
            assert 0.01 < value.std() < 0.03, key


# ---- transformers -------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
# with 18 buckets over 128, the rounding of float32 decides about the distances 4, 8, 16, 32 and 64
@pytest.mark.parametrize("num_buckets, max_distance", [(32, 128), (10, 7), (18, 128)])
def test_buckets_and_bias_are_t5s(num_buckets, max_distance, causal):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(
        d_model=DIM, d_kv=HEAD_DIM, num_heads=HEADS, is_decoder=causal,
        relative_attention_num_buckets=num_buckets, relative_attention_max_distance=max_distance,
    )  # fmt: skip
    attention = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    relative = torch.arange(-3 * max_distance, 3 * max_distance)
    expected = attention._relative_position_bucket(relative, not causal, num_buckets, max_distance)
    assert relative_position_bucket(relative, num_buckets, max_distance, causal=causal).equal(
        expected
    )
    bias = RelativePositionBias(HEADS, num_buckets, max_distance, untie_cls=False, causal=causal)
    with torch.no_grad():  # ours has rows for [CLS] after those of the buckets
        bias.relative_attention_bias.weight[:num_buckets] = attention.relative_attention_bias.weight
    for queries, keys in ((1, 1), (33, 33), (7, 150)):
        assert bias(queries, keys).equal(attention.compute_bias(queries, keys)[0])


@pytest.mark.parametrize("num_buckets, max_distance", [(64, 512), (512, 512), (10, 30), (24, 1024)])
def test_distances_and_gradients_are_debertas(num_buckets, max_distance):
    """DeBERTa-v2's attention, whose position_buckets are those of one direction."""
    deberta = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    half, size, dim = num_buckets // 2, 37, 12 * HEADS
    distances = torch.arange(-1024, 1025)
    expected = deberta.make_log_bucket_position(distances, half, max_distance)
    expected = expected.long().clamp(1 - half, half - 1)  # theirs reaches a row for far later keys
    assert distance_bucket(distances, num_buckets, max_distance).equal(expected)
    config = deberta.DebertaV2Config(
        hidden_size=dim, num_attention_heads=HEADS, share_att_key=True, relative_attention=True,
        pos_att_type=["c2p", "p2c"], position_buckets=half, max_relative_positions=max_distance,
        attention_probs_dropout_prob=0, hidden_dropout_prob=0,
    )  # fmt: skip
    theirs = deberta.DisentangledSelfAttention(config).double()
    sizes = {"embed_dim": dim, "num_heads": HEADS, "max_positions": 4}
    options = {"rel_pos_buckets": num_buckets, "max_rel_pos": max_distance}
    position = randomize(build_position_encoding("deberta", **sizes, **options).double())
    projections = theirs.query_proj, theirs.key_proj
    x = torch.randn(BATCH, size, dim, dtype=torch.float64, requires_grad=True)
    q, k = (proj(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for proj in projections)

    def queries_and_keys(rows):
        return torch.stack([proj(rows).unflatten(-1, (HEADS, -1)) for proj in projections], dim=1)

    table = position.rel_ln(position.rel_embeddings.weight)
    mask = torch.ones(BATCH, 1, size, size, dtype=torch.bool)
    _, expected = theirs(x, mask, output_attentions=True, rel_embeddings=table)
    actual = position.forward_attn(q, k, queries_and_keys=queries_and_keys).softmax(-1)
    torch.testing.assert_close(actual, expected.view_as(actual), rtol=0, atol=1e-12)
    leaves = [x, *position.parameters(), *(p for proj in projections for p in proj.parameters())]
    weights = torch.randn_like(actual)
    grads = [torch.autograd.grad((p.view_as(actual) * weights).sum(), leaves, retain_graph=True)
             for p in (actual, expected)]  # fmt: skip
    for ours, other in zip(*grads):
        torch.testing.assert_close(ours, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("heads", [1, 8, 12])
def test_causal_alibi_is_mpts(heads):
    mpt = pytest.importorskip("transformers.models.mpt.modeling_mpt")
    position = build_position_encoding(
        "alibi", embed_dim=5 * heads, num_heads=heads, max_positions=4, causal=True
    )
    q, k = torch.randn(2, BATCH, heads, 11, 5)
    # theirs has the last query's bias in every row, which differs from ours by a constant per row
    scores = q @ k.transpose(2, 3) / math.sqrt(5) + mpt.build_mpt_alibi_tensor(heads, 11)
    is_later = torch.ones(11, 11, dtype=torch.bool).triu(1)
    expected = scores.masked_fill(is_later, float("-inf")).softmax(-1)
    torch.testing.assert_close(position.forward_attn(q, k).softmax(-1), expected)
