"""Shaw's relative positions against a float64 oracle."""

import math

import pytest
import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.position import CATALOGUE, build_position_encoding

BATCH, HEADS, HEAD_DIM, QUERIES, KEYS, REACH = 2, 3, 4, 7, 8, 3
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
}
POSITIONS = {
    "counted": (None, None),
    "far": ([1000, 3, -20, 8, 8, 0, 1], [2, 999, 0, -7, 1, 50, 4, 9]),
    "by_row": (
        [[4, 1, 0, 3, 9, 5, 2], [7, 6, 5, 0, 1, 2, 3]],
        [[0, 1, 2, 3, 4, 5, 6, 7], [9, 0, 8, 1, 7, 2, 6, 3]],
    ),
    "mixed": ([[4, 1, 0, 3, 9, 5, 2], [7, 6, 5, 0, 1, 2, 3]], [2, 9, 0, 7, 1, 5, 4, 3]),
}


def shaw(dtype=torch.float64, num_heads=HEADS, **options):
    position = build_position_encoding(
        "shaw", embed_dim=num_heads * HEAD_DIM, num_heads=num_heads, max_positions=4, **options
    )
    torch.nn.init.normal_(position.relative_keys.weight)
    return position.to(dtype)


def random(length, dtype):
    return torch.randn(BATCH, HEADS, length, HEAD_DIM, dtype=dtype, requires_grad=True)


def oracle(q, k, table, positions_q, positions_k):
    """The logits, entry by entry; positions as lists of lists."""
    entries = []
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(QUERIES):
                for j in range(KEYS):
                    distance = positions_k[b][j] - positions_q[b][i]
                    clipped = max(-REACH, min(REACH, distance))
                    key = k[b, h, j] + table[clipped + REACH]
                    entries.append((q[b, h, i] * key).sum() / math.sqrt(HEAD_DIM))
    return torch.stack(entries).view(BATCH, HEADS, QUERIES, KEYS)


def by_row(positions, length):
    if positions is None:
        positions = list(range(length))
    return positions if isinstance(positions[0], list) else [positions] * BATCH


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_logits_and_gradients_agree_with_the_oracle(name, dtype):
    positions_q, positions_k = POSITIONS[name]
    position = shaw(dtype, max_rel_pos=REACH)
    leaves = [random(QUERIES, dtype), random(KEYS, dtype), position.relative_keys.weight]
    weights = torch.randn(BATCH, HEADS, QUERIES, KEYS, dtype=dtype)
    given = [None if p is None else torch.tensor(p) for p in (positions_q, positions_k)]
    actual = position.forward_attn(*leaves[:2], *given)
    grads = torch.autograd.grad((actual * weights).sum(), leaves)

    expected = oracle(
        *(leaf.double() for leaf in leaves), by_row(positions_q, QUERIES), by_row(positions_k, KEYS)
    )
    expected_grads = torch.autograd.grad((expected * weights.double()).sum(), leaves)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual, expected.to(dtype), **TOLERANCE[dtype])
    for ours, theirs in zip(grads, expected_grads):
        torch.testing.assert_close(ours, theirs, **TOLERANCE[dtype])
    assert (grads[-1] != 0).all(), "each distance occurs, so each row of the table is used"


def test_one_sequence_of_queries_for_a_batch_of_keys():
    position = shaw(max_rel_pos=REACH)
    q, k = random(QUERIES, torch.float64)[:1], random(KEYS, torch.float64)
    rows = torch.tensor(POSITIONS["by_row"][1])
    actual = position.forward_attn(q, k, None, rows)
    expected = position.forward_attn(q.expand(BATCH, -1, -1, -1), k, None, rows)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_gradients_do_not_stall_in_16_bits():
    """Nearly all of 600 keys share a vector: ones added up in bfloat16 would stop at 256."""
    position = shaw(torch.bfloat16, num_heads=1, max_rel_pos=REACH)
    q = torch.randn(1, 1, 600, HEAD_DIM).bfloat16().requires_grad_()
    position.content_bias(q, q, 600, 600).sum().backward()
    table = position.relative_keys.weight.detach().double()
    # of the first query: k + 1 keys of their own and the others, all ahead
    counts = torch.tensor([0, 0, 0, 1, 1, 1, 597.0], dtype=torch.float64)
    expected = (counts @ table) / math.sqrt(HEAD_DIM)
    # some roundings to 8 bits on the way
    torch.testing.assert_close(q.grad[0, 0, 0].double(), expected, rtol=0.02, atol=0)


def test_no_vector_is_kept_for_each_pair():
    kept = []

    def keep(x):
        kept.append(x.numel())
        return x

    q = torch.randn(BATCH, HEADS, 20, HEAD_DIM, dtype=torch.float64, requires_grad=True)
    position = shaw(max_rel_pos=REACH)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        position.content_bias(q, q, 20, 20)
    assert kept and max(kept) <= BATCH * HEADS * 20 * 20


def test_each_layer_has_a_table_that_its_heads_share():
    config = TupeConfig(
        embed_dim=12, num_heads=3, num_layers=2, ffn_embed_dim=5, position_encoding="shaw",
        max_rel_pos=REACH,
    )  # fmt: skip
    encoder = TupeEncoder(config)
    out = encoder(torch.randn(BATCH, KEYS, 12))
    (out * torch.randn_like(out)).sum().backward()
    tables = [layer.self_attn.position.relative_keys.weight for layer in encoder.layers]
    assert all(table.shape == (2 * REACH + 1, 4) for table in tables)
    assert not tables[0].equal(tables[1])
    assert all((table.grad != 0).all() for table in tables)


def test_defaults():
    position = build_position_encoding("shaw", embed_dim=8, num_heads=2, max_positions=4)
    assert position.max_rel_pos == 16 and position.relative_keys.weight.shape == (33, 4)
    # 132 draws of N(0, 0.02)
    assert 0.014 < position.relative_keys.weight.std() < 0.026


@pytest.mark.parametrize("max_rel_pos", [0, -1])
def test_a_reach_below_1(max_rel_pos):
    with pytest.raises(ValueError, match=rf"max_rel_pos \({max_rel_pos}\).*1; raise --max-rel-pos"):
        CATALOGUE["shaw"](8, 2, 4, max_rel_pos=max_rel_pos)
