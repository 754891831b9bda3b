"""Transformer-XL's logits against a float64 oracle."""

import math

import pytest
import torch

from helpers.position_cases import of_sequence
from tupe_fairseq.position import build_position_encoding

BATCH, HEADS, HEAD_DIM = 2, 3, 4
DIM = HEADS * HEAD_DIM
# Tq and Tk differ; counted, permuted, far apart and negative, and one list a sequence
POSITIONS = {
    "counted": (None, None),
    "one_query": ([0], None),
    "permuted": ([3, 0, 2, 1], [2, 4, 0, 3, 1]),
    "far_and_negative": ([-7, 900, 2, -7], [5, -100000, 2, 31, -8]),
    "each_sequence": ([[3, 0, 2, 1], [-6, 8, 9, 10]], [[2, 4, 0, 3, 1], [1, -2, 8, 40, 5]]),
    "queries_of_each_sequence": ([[3, 0, 2, 1], [-6, 8, 9, 10]], [2, 4, 0, 3, 1]),
    "keys_of_each_sequence": (None, [[2, 4, 0, 3, 1], [1, -2, 8, 40, 5]]),
}


def scheme(dim=DIM, heads=HEADS, dtype=torch.float64, **options):
    module = build_position_encoding(
        "transformer-xl", embed_dim=dim, num_heads=heads, max_positions=9, **options
    )
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.to(dtype)


def queries_and_keys(num_queries=4, num_keys=5, heads=HEADS, head_dim=HEAD_DIM):
    shape = (BATCH, heads, num_queries, head_dim), (BATCH, heads, num_keys, head_dim)
    return [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shape]


def oracle(p, q, k, positions_q, positions_k):
    """Section 3.3 of the paper, entry by entry."""
    (batch, heads, num_queries, size), num_keys = q.shape, k.size(2)
    dim = heads * size
    u, v = p["global_content_bias"], p["global_position_bias"]
    entries = []
    for b in range(batch):
        at_q = of_sequence(positions_q, b, num_queries)
        at_k = of_sequence(positions_k, b, num_keys)
        for h in range(heads):
            weight = p["pos_k_proj.weight"][h * size : (h + 1) * size]
            for i in range(num_queries):
                for j in range(num_keys):
                    # R_{i - j}: feature 2n is a sine, 2n + 1 the cosine of the same angle;
                    # the authors put all sines first
                    angles = [
                        (at_q[i] - at_k[j]) / 10000 ** (2 * n / dim) for n in range((dim + 1) // 2)
                    ]
                    feature = [math.sin(x) for x in angles] + [math.cos(x) for x in angles]
                    r = weight @ torch.tensor(feature[:dim], dtype=torch.float64)
                    of_content = sum((q[b, h, i, d] + u[h, d]) * k[b, h, j, d] for d in range(size))
                    of_distance = sum((q[b, h, i, d] + v[h, d]) * r[d] for d in range(size))
                    entries.append((of_content + of_distance) / math.sqrt(size))
    return torch.stack(entries).view(batch, heads, num_queries, num_keys)


def as_tensors(*positions):
    return [None if p is None else torch.tensor(p) for p in positions]


def assert_agrees(module, positions_q, positions_k, q, k):
    weights = torch.randn(BATCH, q.size(1), q.size(2), k.size(2), dtype=torch.float64)
    inputs = {"q": q, "k": k, **dict(module.named_parameters())}
    expected = oracle(inputs, q, k, positions_q, positions_k)
    actual = module.forward_attn(q, k, *as_tensors(positions_q, positions_k))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    grads = [torch.autograd.grad((x * weights).sum(), inputs.values()) for x in (actual, expected)]
    for name, ours, theirs in zip(inputs, *grads):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8, msg=lambda m, n=name: n + m)
        assert (ours.abs() > 1e-9).all(), name


@pytest.mark.parametrize("name", POSITIONS)
def test_agrees_with_the_paper_in_loops(name):
    positions_q, positions_k = POSITIONS[name]
    num_queries = 1 if name == "one_query" else 4
    assert_agrees(scheme(), positions_q, positions_k, *queries_and_keys(num_queries))


def test_an_odd_width_has_one_sine_more_than_cosines():
    q, k = queries_and_keys(heads=1, head_dim=5)
    assert_agrees(scheme(dim=5, heads=1), [5, -3, 0, 2], None, q, k)


@pytest.mark.parametrize("num_queries, num_keys", [(1, 1), (1, 6), (6, 1), (2, 7), (7, 2), (6, 6)])
def test_counted_positions_are_those_counted_by_hand(num_queries, num_keys):
    """They take a path of their own."""
    module = scheme()
    q, k = queries_and_keys(num_queries, num_keys)
    counted = module.forward_attn(q, k)
    given = module.forward_attn(q, k, torch.arange(num_queries), torch.arange(num_keys))
    torch.testing.assert_close(counted, given, rtol=0, atol=1e-12)
    weights = torch.randn_like(counted)
    inputs = [q, k, *module.parameters()]
    grads = [torch.autograd.grad((x * weights).sum(), inputs) for x in (counted, given)]
    for ours, theirs in zip(*grads):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def test_both_directions_and_beyond_max_positions():
    """No offset is another's, and none is left out: 20 positions, where max_positions is 9."""
    module = scheme()
    q, k = (x[:, :, :1].expand(-1, -1, 20, -1) for x in queries_and_keys())
    logits = module.forward_attn(q, k).detach()
    by_offset = [logits[0, 0].diagonal(offset) for offset in range(-19, 20)]
    assert all((d - d[0]).abs().max() < 1e-12 for d in by_offset)
    assert len({round(float(d[0]), 9) for d in by_offset}) == 39


def test_causal():
    module, causal = scheme(), scheme(causal=True)
    causal.load_state_dict(module.state_dict())
    q, k = queries_and_keys()
    at_q, at_k = as_tensors([3, 0, 2, 1], [2, 4, 0, 3, 1])
    logits, both = causal.forward_attn(q, k, at_q, at_k), module.forward_attn(q, k, at_q, at_k)
    is_later = at_k[None, :] > at_q[:, None]
    assert (logits[:, :, is_later] == float("-inf")).all()
    assert logits[:, :, ~is_later].equal(both[:, :, ~is_later])


@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float32, 2e-6), (torch.bfloat16, 3e-2)], ids=["float32", "bfloat16"]
)
@pytest.mark.parametrize("name", POSITIONS)
def test_shorter_precisions(name, dtype, tolerance):
    positions = as_tensors(*POSITIONS[name])
    q, k = (x.detach().to(dtype) for x in queries_and_keys(1 if name == "one_query" else 4))
    module = scheme(dtype=dtype)
    logits = module.forward_attn(q, k, *positions)
    assert logits.dtype == dtype
    expected = module.double().forward_attn(q.double(), k.double(), *positions)
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(logits.double(), expected, rtol=0, atol=atol)


def test_words_of_bfloat16_with_parameters_of_float32():
    module = scheme(dtype=torch.float32)
    q, k = (x.detach().bfloat16() for x in queries_and_keys())
    bias = module.content_bias(q, k, 4, 5)
    assert bias.equal(module.content_bias(q.float(), k.float(), 4, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = module.content_bias(q, k, 4, 5)
    torch.testing.assert_close(rounded.float(), bias, rtol=0, atol=0.5)


def test_parameters():
    module = build_position_encoding("transformer-xl", embed_dim=96, num_heads=3, max_positions=9)
    shapes = {name: tuple(p.shape) for name, p in module.state_dict().items()}
    assert shapes == {
        "global_content_bias": (3, 32),
        "global_position_bias": (3, 32),
        "pos_k_proj.weight": (96, 96),
    }
    for parameter in module.parameters():
        assert 0.01 < parameter.std() < 0.03
    assert module.per_layer and module.reads_content and not module.TABLE
    assert module.scaling == 32**-0.5 and module.position_bias(5) is None


def test_options_of_other_schemes():
    with pytest.raises(ValueError, match="'transformer-xl' does not take rel_pos .True.*--rel-pos"):
        build_position_encoding(
            "transformer-xl", embed_dim=6, num_heads=3, max_positions=9, rel_pos=True
        )
