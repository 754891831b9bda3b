"""Enformer's basis functions and logits against float64 oracles."""

import functools
import math

import pytest
import torch

from helpers.position_cases import of_sequence
from tupe_fairseq.position import build_position_encoding

stats = pytest.importorskip("scipy.stats")

BATCH, HEADS, HEAD_DIM, MAX = 2, 3, 13, 9
DIM = HEADS * HEAD_DIM
POSITIONS = {
    "counted": (None, None),
    "one_query": ([0], None),
    "permuted": ([3, 0, 2, 1], [2, 4, 0, 3, 1]),
    "far_and_negative": ([-7, 90, 2, -7], [5, -1000, 2, 31, -8]),
    "each_sequence": ([[3, 0, 2, 1], [-6, 8, 9, 10]], [[2, 4, 0, 3, 1], [1, -2, 8, 40, 5]]),
    "queries_of_each_sequence": ([[3, 0, 2, 1], [-6, 8, 9, 10]], [2, 4, 0, 3, 1]),
}
SYMMETRY = pytest.mark.parametrize("symmetric", [False, True], ids=["signed", "symmetric"])


def scheme(symmetric=False, head_dim=HEAD_DIM, max_positions=MAX, dtype=torch.float64, **options):
    module = build_position_encoding(
        "enformer", embed_dim=HEADS * head_dim, num_heads=HEADS, max_positions=max_positions,
        symmetric_basis=symmetric, **options,
    )  # fmt: skip
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.to(dtype)


def queries_and_keys(num_queries=4, num_keys=5, head_dim=HEAD_DIM):
    shape = (BATCH, HEADS, num_queries, head_dim), (BATCH, HEADS, num_keys, head_dim)
    return [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shape]


def spaced(start, end, number):
    return [start + (end - start) * n / max(number - 1, 1) for n in range(number)]


def gamma(x, length, number):
    """The gamma functions before the division by their maximum."""
    values = []
    for mean in spaced(length / number, length, number):
        stddev = length / (2 * number)
        shape, rate = (mean / stddev) ** 2, mean / stddev**2
        values.append(stats.gamma.pdf(x, shape, scale=1 / rate) + 1e-8)
    return values


@functools.lru_cache(maxsize=None)
def gamma_maximum(length, number):
    return max(max(gamma(distance, length, number)) for distance in range(length))


def basis(x, length, number, symmetric):
    """The basis functions of the paper's supplementary methods at one signed distance."""
    values = []
    for exponent in spaced(3, math.log2(length), number):
        values.append(math.exp(-math.log(2) / 2**exponent * abs(x)))
    for n in range(1, number + 1):
        values.append(1.0 if abs(x) < 2**n - 1 else 0.0)
    maximum = gamma_maximum(length, number)
    values += [value / maximum for value in gamma(abs(x), length, number)]
    if symmetric:
        return values
    sign = (x > 0) - (x < 0)
    return values + [sign * value for value in values]


def oracle(p, q, k, positions_q, positions_k, number, symmetric):
    """(scaling q + u) . k + (scaling q + v) . r, entry by entry."""
    (batch, heads, num_queries, size), num_keys = q.shape, k.size(2)
    u, v = p["global_content_bias"], p["global_position_bias"]
    features = {}
    entries = []
    for b in range(batch):
        at_q = of_sequence(positions_q, b, num_queries)
        at_k = of_sequence(positions_k, b, num_keys)
        for h in range(heads):
            weight = p["pos_k_proj.weight"][h * size : (h + 1) * size]
            for i in range(num_queries):
                for j in range(num_keys):
                    x = at_k[j] - at_q[i]
                    if x not in features:
                        values = basis(x, MAX, number, symmetric)
                        features[x] = torch.tensor(values, dtype=torch.float64)
                    r = weight @ features[x]
                    entry = 0
                    for d in range(size):
                        scaled = q[b, h, i, d] / math.sqrt(size)
                        entry = entry + (scaled + u[h, d]) * k[b, h, j, d]
                        entry = entry + (scaled + v[h, d]) * r[d]
                    entries.append(entry)
    return torch.stack(entries).view(batch, heads, num_queries, num_keys)


def as_tensors(*positions):
    return [None if p is None else torch.tensor(p) for p in positions]


@SYMMETRY
@pytest.mark.parametrize("name", POSITIONS)
def test_agrees_with_the_paper_in_loops(name, symmetric):
    module = scheme(symmetric)
    assert module.functions_per_class == (4 if symmetric else 2)
    positions = POSITIONS[name]
    q, k = queries_and_keys(1 if name == "one_query" else 4)
    weights = torch.randn(BATCH, HEADS, q.size(2), k.size(2), dtype=torch.float64)
    inputs = {"q": q, "k": k, **dict(module.named_parameters())}
    expected = oracle(inputs, q, k, *positions, module.functions_per_class, symmetric)
    actual = module.forward_attn(q, k, *as_tensors(*positions))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    grads = [torch.autograd.grad((x * weights).sum(), inputs.values()) for x in (actual, expected)]
    for name, ours, theirs in zip(inputs, *grads):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8, msg=lambda m, n=name: n + m)
        if name == "pos_k_proj.weight" and not symmetric:
            # the signed mask of width 1 is 0 everywhere; 2 functions of each of 6 kinds
            assert not ours[:, 8].any()
            ours = ours[:, [*range(8), *range(9, 12)]]
        assert ours.any() if name == "pos_k_proj.weight" else (ours.abs() > 1e-9).all(), name


@SYMMETRY
@pytest.mark.parametrize("head_dim", [2, 13, 64])
@pytest.mark.parametrize("max_positions", [2, 3, 9, 50])
def test_the_basis_at_every_offset_to_twice_max_positions(max_positions, head_dim, symmetric):
    """Few positions for many functions, too, and half-lives that fall where log2 is below 3."""
    module = scheme(symmetric, head_dim, max_positions)
    number = max(head_dim // (3 if symmetric else 6), 1)
    offsets = range(-2 * max_positions, 2 * max_positions + 1)
    actual = module.features(torch.tensor(offsets))
    expected = [basis(x, max_positions, number, symmetric) for x in offsets]
    expected = torch.tensor(expected, dtype=torch.float64)
    assert actual.shape == (len(offsets), number * (3 if symmetric else 6))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
    # also beyond max_positions they are numbers that a network can take
    assert actual.abs().max() < 2


def test_the_basis_by_hand():
    """8 positions and one function a class: half-life 8, width 1, mean 8 and deviation 4."""
    values = scheme(head_dim=2, max_positions=8).features(torch.tensor([-8, 0, 8]))
    exponential, mask, gamma = values[:, 0], values[:, 1], values[:, 2]
    torch.testing.assert_close(exponential, torch.tensor([0.5, 1, 0.5], dtype=torch.float64))
    assert mask.tolist() == [0, 1, 0]
    # concentration 4 and rate 1 / 2: x^3 exp(-x / 2) / 96, greatest at 6
    at_8, at_6 = (x**3 * math.exp(-x / 2) / 96 + 1e-8 for x in (8, 6))
    assert gamma.tolist() == pytest.approx([at_8 / at_6, 1e-8 / at_6, at_8 / at_6], rel=1e-12)
    signs = torch.tensor([[-1], [0], [1]])
    assert values[:, 3:].equal(signs * values[:, :3])


def test_an_offset_has_one_value_in_all_sequences():
    module = scheme()
    q, k = queries_and_keys(30, 30)
    assert module.content_bias(q, k, 30, 30).isfinite().all()
    torch.testing.assert_close(
        module.content_bias(q, k, 30, 30)[:, :, :4, :4],
        module.content_bias(q[:, :, :4], k[:, :, :4], 4, 4),
        rtol=0,
        atol=1e-12,
    )


def test_symmetric_basis_does_not_tell_before_from_after():
    q, k = (x[:, :, :1].expand(-1, -1, 7, -1) for x in queries_and_keys())
    for symmetric in (True, False):
        logits = scheme(symmetric).forward_attn(q, k)
        difference = (logits - logits.transpose(-2, -1)).abs()
        assert (difference.max() < 1e-12) == symmetric


def test_causal():
    module = scheme(causal=True)
    logits = module.forward_attn(*queries_and_keys(5, 5))
    is_later = torch.ones(5, 5).triu(1).bool()
    assert (logits[:, :, is_later] == float("-inf")).all()
    assert logits[:, :, ~is_later].isfinite().all()


@SYMMETRY
@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float32, 2e-6), (torch.bfloat16, 3e-2)], ids=["float32", "bfloat16"]
)
@pytest.mark.parametrize("name", ["counted", "far_and_negative", "each_sequence"])
def test_shorter_precisions(name, dtype, tolerance, symmetric):
    """The basis itself is computed in float64."""
    positions = as_tensors(*POSITIONS[name])
    q, k = (x.detach().to(dtype) for x in queries_and_keys())
    module = scheme(symmetric, dtype=dtype)
    logits = module.forward_attn(q, k, *positions)
    assert logits.dtype == dtype
    offsets = torch.arange(-20, 21)
    assert module.features(offsets).equal(scheme(symmetric).features(offsets))
    expected = module.double().forward_attn(q.double(), k.double(), *positions)
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(logits.double(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize(
    "symmetric, head_dim, features",
    [(False, 2, 6), (False, 13, 12), (False, 64, 60), (True, 2, 3), (True, 13, 12), (True, 64, 63)],
)
def test_parameters(symmetric, head_dim, features):
    """About head_dim features, equally many of each class."""
    module = build_position_encoding(
        "enformer", embed_dim=3 * head_dim, num_heads=3, max_positions=9, symmetric_basis=symmetric
    )
    shapes = {name: tuple(p.shape) for name, p in module.state_dict().items()}
    assert shapes == {
        "global_content_bias": (3, head_dim),
        "global_position_bias": (3, head_dim),
        "pos_k_proj.weight": (3 * head_dim, features),
    }
    assert all(0 < parameter.abs().max() < 0.1 for parameter in module.parameters())
    assert module.per_layer and module.reads_content and not module.TABLE
    assert module.scaling == head_dim**-0.5 and module.position_bias(5) is None


def test_no_unit_of_length():
    with pytest.raises(ValueError, match=r"max_positions \(1\) .*at least 2.*--max-positions"):
        scheme(max_positions=1)


def test_options_of_other_schemes():
    with pytest.raises(ValueError, match=r"'enformer' does not take rel_pos .*: symmetric_basis"):
        scheme(rel_pos=True)
