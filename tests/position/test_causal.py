"""``causal=True`` of every position encoding: a query sees no key at a later position."""

import pytest
import torch

from tupe_fairseq.position import CATALOGUE, build_position_encoding

BATCH, HEADS, HEAD_DIM, SEQ_LEN = 2, 3, 4, 7
REL_POS = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}
WITHOUT_BUCKETS = [
    *(pytest.param(name, {}, id=name) for name in CATALOGUE),
    pytest.param("alibi", {"untie_cls": True}, id="alibi-untied"),
]
ALL = [
    *WITHOUT_BUCKETS,
    pytest.param("tupe", REL_POS, id="tupe-rel_pos"),
    pytest.param("none", {**REL_POS, "untie_cls": True}, id="none-rel_pos-untied"),
]
TOLERANCE = {
    # sums over up to D values, which may be taken in another order
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
}


def build(name, options, causal=True, dtype=torch.float64):
    position = build_position_encoding(
        name, embed_dim=HEADS * HEAD_DIM, num_heads=HEADS, max_positions=9, causal=causal, **options
    ).to(dtype)
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position


def random(length=SEQ_LEN, dtype=torch.float64):
    return torch.randn(BATCH, HEADS, length, HEAD_DIM, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("name, options", ALL)
def test_later_keys_have_no_weight_and_no_gradient(name, options):
    position, q, k, v = build(name, options), random(), random(), random()
    probs = position.forward_attn(q, k).softmax(dim=-1)
    is_later = torch.ones(SEQ_LEN, SEQ_LEN, dtype=torch.bool).triu(1)
    assert (probs[..., is_later] == 0).all() and (probs[..., ~is_later] > 0).all()
    out = probs @ v
    for t in range(SEQ_LEN):
        grads = torch.autograd.grad(out[:, :, t].sum(), [k, v], retain_graph=True)
        for grad in grads:
            assert grad.isfinite().all() and (grad[:, :, t + 1 :] == 0).all()
        assert (grads[1][:, :, : t + 1] != 0).all()


@pytest.mark.parametrize("name, options", WITHOUT_BUCKETS)
def test_earlier_keys_are_as_without(name, options):
    """But for T5's buckets, which are others in a decoder; test_t5_parity.py has those."""
    causal, both_ways = build(name, options), build(name, options, causal=False)
    both_ways.load_state_dict(causal.state_dict())
    q, k, seen = random(), random(), torch.ones(SEQ_LEN, SEQ_LEN, dtype=torch.bool).tril()
    weights = torch.randn(BATCH, HEADS, int(seen.sum()), dtype=torch.float64)
    results = []
    for position in (causal, both_ways):
        logits = position.forward_attn(q, k)[..., seen]
        leaves = [q, k, *position.parameters()]
        grads = torch.autograd.grad((logits * weights).sum(), leaves, allow_unused=True)
        results.append((logits, *(grad for grad in grads if grad is not None)))
    assert len(results[0]) == len(results[1]) >= 3
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("name, options", ALL)
def test_step_by_step_with_a_memory(name, options, dtype):
    """A decoder's loop: one new query, and keys kept from before."""
    position, q, k = build(name, options, dtype=dtype), random(dtype=dtype), random(dtype=dtype)
    full = position.forward_attn(q, k)
    for t in range(SEQ_LEN):
        step = position.forward_attn(q[:, :, t : t + 1], k[:, :, : t + 1], torch.tensor([t]), t + 1)
        assert step.isfinite().all()
        torch.testing.assert_close(step, full[:, :, t : t + 1, : t + 1], **TOLERANCE[dtype])


@pytest.mark.parametrize("name, options", ALL)
def test_positions_and_not_places_decide_what_is_later(name, options):
    position, q, k = build(name, options), random(3), random(4)
    queries, keys = torch.tensor([[5, 0, 2], [1, 8, 4]]), torch.tensor([3, 0, 5, 1])
    logits = position.forward_attn(q, k, queries, keys)
    for b in range(BATCH):
        for i in range(3):
            for j in range(4):
                is_hidden = (logits[b, :, i, j] == float("-inf")).all()
                assert bool(is_hidden) == bool(keys[j] > queries[b, i]), (b, i, j)
