"""BERT-A^d: all four correlations against a float64 oracle."""

import math

import pytest
import torch

from helpers.position_cases import of_sequence
from tupe_fairseq.position import UntiedAbsoluteBias, build_position_encoding

BATCH, HEADS, HEAD_DIM, MAX = 2, 3, 4, 9
DIM = HEADS * HEAD_DIM
POSITIONS = {
    "counted": (None, None),
    "one_query": ([0], None),
    "permuted": ([3, 0, 2, 1], [2, 4, 0, 3, 1]),
    "far": ([8, 1, 1, 0], [5, 8, 2, 7, 0]),
    "each_sequence": ([[3, 0, 2, 1], [6, 8, 7, 0]], [[2, 4, 0, 3, 1], [1, 2, 8, 0, 5]]),
    "queries_of_each_sequence": ([[3, 0, 2, 1], [6, 8, 7, 0]], [2, 4, 0, 3, 1]),
    "keys_of_each_sequence": ([0, 1, 2, 3], [[2, 4, 0, 3, 1], [1, 2, 8, 0, 5]]),
}
OPTIONS = {
    "alone": {},
    "rel_pos": {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5},
    "untie_cls": {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5, "untie_cls": True},
}


def scheme(dtype=torch.float64, **options):
    module = build_position_encoding(
        "disentangled", embed_dim=DIM, num_heads=HEADS, max_positions=MAX, **options
    )
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.to(dtype)


def queries_and_keys(num_queries=4, num_keys=5):
    shape = (BATCH, HEADS, num_queries, HEAD_DIM), (BATCH, HEADS, num_keys, HEAD_DIM)
    return [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shape]


def bucket(x):
    """T5's of 8 buckets up to 5: exact below 2, then n / 2 = 2.5^0 .. 2.5^1 in two steps."""
    n = abs(x)
    if n >= 2:
        n = min(2 + math.floor(2 * math.log(n / 2) / math.log(5 / 2)), 3)
    return n + (4 if x > 0 else 0)


def oracle(p, q, k, positions_q, positions_k, rel_pos=False, untie_cls=False, **_):
    """(q + U_Q p) . (k + U_K p) / sqrt(4 K), entry by entry."""
    (batch, heads, num_queries, size), num_keys = q.shape, k.size(2)

    def projected(position, name, h):
        row = p["pos.weight"][position]
        centred = row - row.sum() / len(row)
        row = centred / ((centred**2).sum() / len(row) + 1e-5).sqrt()
        row = row * p["pos_ln.weight"] + p["pos_ln.bias"]
        rows = slice(h * size, (h + 1) * size)
        return p[f"pos_{name}_proj.weight"][rows] @ row + p[f"pos_{name}_proj.bias"][rows]

    entries = []
    for b in range(batch):
        at_q = of_sequence(positions_q, b, num_queries)
        at_k = of_sequence(positions_k, b, num_keys)
        for h in range(heads):
            for i in range(num_queries):
                query = q[b, h, i] + projected(at_q[i], "q", h)
                for j in range(num_keys):
                    key = k[b, h, j] + projected(at_k[j], "k", h)
                    entry = sum(query[d] * key[d] for d in range(size)) / math.sqrt(4 * size)
                    if rel_pos:
                        row = bucket(at_k[j] - at_q[i])
                        if untie_cls and at_q[i] == 0:
                            row = 4
                        elif untie_cls and at_k[j] == 0:
                            row = 8
                        entry = entry + p["relative.relative_attention_bias.weight"][row, h]
                    entries.append(entry)
    return torch.stack(entries).view(batch, heads, num_queries, num_keys)


def as_tensors(*positions):
    return [None if p is None else torch.tensor(p) for p in positions]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", POSITIONS)
def test_agrees_with_the_paper_in_loops(name, options):
    module = scheme(**OPTIONS[options])
    positions_q, positions_k = POSITIONS[name]
    q, k = queries_and_keys(1 if name == "one_query" else 4)
    weights = torch.randn(BATCH, HEADS, q.size(2), k.size(2), dtype=torch.float64)
    inputs = {"q": q, "k": k, **dict(module.named_parameters())}
    expected = oracle(inputs, q, k, positions_q, positions_k, **OPTIONS[options])
    actual = module.forward_attn(q, k, *as_tensors(positions_q, positions_k))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    grads = [torch.autograd.grad((x * weights).sum(), inputs.values()) for x in (actual, expected)]
    used = set()
    for positions, length in ((positions_q, q.size(2)), (positions_k, k.size(2))):
        used.update(t for b in range(BATCH) for t in of_sequence(positions, b, length))
    for name, ours, theirs in zip(inputs, *grads):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8, msg=lambda m, n=name: n + m)
        if name == "pos.weight":
            assert (ours[sorted(used)].abs() > 1e-9).all()
            assert not ours[[t for t in range(MAX) if t not in used]].any()
        elif name.startswith("relative"):
            assert ours.any()
        else:
            assert (ours.abs() > 1e-9).all(), name


def test_the_terms_of_positions_and_of_words_are_apart():
    """position_bias is all there is without words, and content_bias takes one of the two."""
    module = scheme()
    q, k = queries_and_keys()
    nothing = torch.zeros_like(q), torch.zeros_like(k)
    bias = module.position_bias(4, 5)
    assert bias.shape == (HEADS, 4, 5)
    torch.testing.assert_close(module.forward_attn(*nothing), bias.expand(BATCH, -1, -1, -1))
    assert not module.content_bias(*nothing, 4, 5).any()
    both = module.content_bias(q, k, 4, 5)
    apart = module.content_bias(q, nothing[1], 4, 5) + module.content_bias(nothing[0], k, 4, 5)
    torch.testing.assert_close(both, apart)
    assert module(7).equal(module.position_bias(7, 7))


def test_tupe_with_a_tied_cls_is_its_position_term_but_for_the_scaling():
    module = scheme()
    untied = UntiedAbsoluteBias(DIM, HEADS, MAX, scaling=module.scaling, untie_cls=False).double()
    state = module.state_dict()
    state["pos.weight"] = torch.cat([torch.randn(1, DIM).double(), state["pos.weight"]])
    untied.load_state_dict(state)
    torch.testing.assert_close(untied(7), module.position_bias(7), rtol=0, atol=1e-12)


def test_causal():
    module = scheme(causal=True)
    logits = module.forward_attn(*queries_and_keys(5, 5))
    is_later = torch.ones(5, 5).triu(1).bool()
    assert (logits[:, :, is_later] == float("-inf")).all()
    assert logits[:, :, ~is_later].isfinite().all()


@pytest.mark.parametrize("name", POSITIONS)
def test_float32(name):
    positions = as_tensors(*POSITIONS[name])
    q, k = (x.detach().float() for x in queries_and_keys(1 if name == "one_query" else 4))
    module = scheme(dtype=torch.float32)
    logits = module.forward_attn(q, k, *positions)
    assert logits.dtype == torch.float32
    expected = module.double().forward_attn(q.double(), k.double(), *positions)
    atol = 2e-6 * expected.abs().max().item()
    torch.testing.assert_close(logits.double(), expected, rtol=1e-5, atol=atol)


def test_bfloat16_and_autocast_give_a_float32_bias():
    module = scheme(dtype=torch.float32)
    q, k = (x.detach().bfloat16() for x in queries_and_keys())
    full = module.position_bias(4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module.position_bias(4, 5).equal(full)
        mixed = module.content_bias(q, k, 4, 5)
    assert mixed.dtype == torch.bfloat16
    module.bfloat16()
    assert module.position_bias(4, 5).dtype == torch.float32
    logits = module.forward_attn(q, k)
    expected = module.double().forward_attn(q.double(), k.double())
    atol = 3e-2 * expected.abs().max().item()
    torch.testing.assert_close(logits.double(), expected, rtol=0, atol=atol)


def test_parameters():
    module = build_position_encoding("disentangled", embed_dim=96, num_heads=3, max_positions=50)
    shapes = {name: tuple(p.shape) for name, p in module.state_dict().items()}
    assert shapes == {
        "pos.weight": (50, 96),
        "pos_ln.weight": (96,),
        "pos_ln.bias": (96,),
        "pos_q_proj.weight": (96, 96),
        "pos_q_proj.bias": (96,),
        "pos_k_proj.weight": (96, 96),
        "pos_k_proj.bias": (96,),
    }
    for name in ("pos", "pos_q_proj", "pos_k_proj"):
        assert 0.018 < getattr(module, name).weight.std() < 0.022
    assert not module.pos_q_proj.bias.any() and not module.pos_k_proj.bias.any()
    assert module.TABLE and module.reads_content and not module.per_layer
    assert module.scaling == 128**-0.5


@pytest.mark.parametrize("positions", [[0, -1, 2, 3], [0, 9, 2, 3]], ids=["negative", "beyond"])
def test_positions_that_are_not_in_the_table(positions):
    q, k = queries_and_keys()
    with pytest.raises(
        ValueError, match=rf"position {positions[1]} .*\(8\); raise --max-positions"
    ):
        scheme().forward_attn(q, k, torch.tensor(positions))


def test_too_long():
    with pytest.raises(ValueError, match=r"seq_len \(10\).*\(9\).*--max-positions"):
        scheme().forward_attn(*queries_and_keys(10, 10))


def test_options():
    with pytest.raises(ValueError, match="'disentangled' does not take tie_cls"):
        scheme(tie_cls=True)
    with pytest.raises(ValueError, match=r"untie_cls \(True\) has no effect without rel_pos"):
        scheme(untie_cls=True)
