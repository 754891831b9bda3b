"""What is particular to the implementation with its own backward pass."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from helpers.attention_cases import BATCH, HEADS, SCALING, Request, assert_near, lengths_of, mask_of
from tupe_fairseq.attention import KeepMask, chunked
from tupe_fairseq.attention.padding import batch_spans

# tiles of 17 x 17 scores: all heads of a sequence, two of them, one, and rows of one
TILES = {
    "all_heads": 2**18,
    "two_heads": 2 * 17**2,
    "one_head": 17**2,
    "8_rows": 5 * 17,
    "4_rows": 1,  # the least
}


@pytest.fixture(params=list(TILES))
def tile(request, monkeypatch):
    monkeypatch.setattr(chunked, "TILE", TILES[request.param])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    return request.param


def tiles(lengths):
    spans = [(17 * b, length) for b, length in enumerate(lengths)]
    return list(chunked._tiles(spans, HEADS))


def test_tiles_cover_each_score_once(tile):
    lengths = lengths_of("empty", 17)
    covered = torch.zeros(BATCH, HEADS, 17)
    shapes = set()
    for heads, b, tokens, rows, _ in tiles(lengths):
        assert (tokens.start, tokens.stop) == (17 * b, 17 * b + lengths[b])
        covered[b, heads, rows] += 1
        if lengths[b] == 17:
            shapes.add((heads.stop - heads.start, rows.stop - rows.start))
        if tile == "two_heads" and lengths[b] < 17:  # next to a long one, too
            assert heads == slice(0, HEADS)
    assert covered.equal((~mask_of(lengths, 17))[:, None].expand_as(covered).float())
    largest = {"all_heads": (3, 17), "two_heads": (2, 17), "one_head": (1, 17), "8_rows": (1, 8)}
    assert max(shapes) == largest.get(tile, (1, 4))


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("pattern", ["none", "mixed", "empty"])
def test_any_tiles_give_the_same(tile, pattern, packed):
    request = Request(17, lengths_of(pattern, 17), packed=packed)
    assert_near(request.answer("chunked"), request.answer("eager"), 1e-13)
    # in 16 bits the forward pass is in tiles, too
    request.qkv = request.qkv.bfloat16()
    assert_near(request.answer("chunked"), request.answer("eager", torch.float64), 2**-7)


def with_the_same_mask(request, p, tile):
    """eager's equation, with the masks that the next call of chunked will draw."""
    keep = KeepMask(p)
    masks = torch.zeros(BATCH, HEADS, 17, 17, dtype=torch.float64)
    for b, length in enumerate(request.lengths):
        # heads that fit into a tile share a stream
        step = max(TILES[tile] // max(length, 1) ** 2, 1)
        for head in range(0, HEADS, step):
            ones = masks[b, head : head + step, :length, :length].fill_(1)
            keep.begin(head, b)
            ones.copy_(keep.drop(ones.contiguous(), out=torch.empty(ones.shape).double()))
    qkv, bias = request.leaves()
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    scores = SCALING * q @ k.transpose(-1, -2) + bias
    scores = scores.masked_fill(~request.real[:, None, None, :], -1e9)
    out = (scores.softmax(dim=-1) * masks * keep.scale @ v).transpose(1, 2)
    (out * request.weights).sum().backward()
    return out.detach() * request.real[:, :, None, None], qkv.grad, bias.grad


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("pattern", ["none", "mixed", "empty"])
def test_dropout_is_the_equation_under_its_mask(tile, pattern, packed):
    request = Request(17, lengths_of(pattern, 17), packed=packed)
    torch.manual_seed(5)
    expected = with_the_same_mask(request, 0.3, tile)
    torch.manual_seed(5)
    assert_near(request.answer("chunked", dropout=0.3), expected, 1e-13)


@pytest.mark.parametrize("pattern", ["none", "mixed"])
@pytest.mark.parametrize("size", list(TILES.values()), ids=list(TILES))
def test_threads_do_not_decide_the_masks(monkeypatch, size, pattern):
    """They decide how much is done at a time."""
    request = Request(17, lengths_of(pattern, 17))
    monkeypatch.setattr(chunked, "TILE", size)
    answers, numbers = [], set()
    for threads in (1, 2, 3, 4, 128):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        numbers.add(len(tiles(request.lengths)))
        torch.manual_seed(5)
        answers.append(request.answer("chunked", dropout=0.3))
    assert len(numbers) > 1 or size == TILES["all_heads"]
    for answer in answers[1:]:
        assert_near(answer, answers[0], 1e-13)


def test_each_head_and_sequence_has_a_mask_of_its_own(tile):
    """All keys and values are equal, so that outputs differ by their masks alone."""
    request = Request(17, bias=False)
    request.qkv = torch.ones_like(request.qkv)
    out, _, _ = request.answer("chunked", dropout=0.5)
    rows = out[..., 0].transpose(1, 2).flatten(0, 1)
    assert rows.unique(dim=0).shape == (BATCH * HEADS, 17)


@pytest.mark.parametrize("p", [1e-9, 1.0], ids=["almost_none", "all"])
def test_extreme_dropout(p):
    request = Request(17, lengths_of("mixed", 17))
    actual = request.answer("chunked", dropout=p)
    if p == 1:
        assert not any(x.any() for x in actual)
    else:  # rounded to none at all
        assert_near(actual, request.answer("eager"), 1e-13)


def test_a_frozen_bias_has_no_gradient_computed():
    request = Request(17)
    qkv, _ = request.leaves()
    q, k, v = (x.flatten(0, 1) for x in qkv.unbind(2))
    spans = batch_spans(qkv[:, :, 0], None)
    for bias in (request.bias, request.bias.clone().requires_grad_()):
        out = chunked._ChunkedAttention.apply(q, k, v, bias, spans, SCALING, 0.0)
        computed = []
        out.grad_fn.register_hook(lambda grads, _, computed=computed: computed.extend(grads))
        out.sum().backward()
        assert [x is not None for x in computed[:4]] == [True] * 3 + [bias.requires_grad]


def test_backward_under_autocast_stays_in_float32():
    request = Request(17, dtype=torch.float32)
    expected = request.answer("chunked")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(a.equal(b) for a, b in zip(request.answer("chunked"), expected))


def test_a_second_derivative_is_refused():
    request = Request(7, batch=1)
    qkv, bias = request.leaves()
    out = request.attend("chunked", qkv, bias).square().sum()
    (grad,) = torch.autograd.grad(out, qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not_reentrant"])
# torch's order of summation differs where the first forward pass needs no gradient
@pytest.mark.parametrize("name, tolerance", [("eager", 0), ("chunked", 0), ("sdpa", 1e-6)])
def test_activation_checkpointing_draws_the_same_masks(name, tolerance, reentrant):
    request = Request(17, lengths_of("mixed", 17), dtype=torch.float32, packed=True)

    def layer(qkv, bias):
        return request.attend(name, qkv, bias, dropout=0.3)

    def answer(call):
        torch.manual_seed(3)
        qkv, bias = request.leaves()
        out = call(qkv, bias)
        out = out + call(qkv + out[:, :, None], bias)
        (out * request.weights).sum().backward()
        return out.detach(), qkv.grad, bias.grad

    plain = answer(layer)
    checkpointed = answer(lambda *args: checkpoint(layer, *args, use_reentrant=reentrant))
    assert_near(checkpointed, plain, tolerance)


def saved_bytes(name, seq_len, dropout):
    """Bytes kept for the backward pass, besides what goes in."""
    request = Request(seq_len, dtype=torch.float32, batch=2)
    qkv, bias = request.leaves()
    saved = []  # the tensors themselves, so that no storage is used a second time meanwhile

    def pack(x):
        saved.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = request.attend(name, qkv, bias, dropout=dropout)
    assert out.requires_grad
    storages = [
        x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage() for x in saved
    ]
    inputs = {qkv.data_ptr(), bias.data_ptr()}
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    return sum(size for pointer, size in sizes.items() if pointer not in inputs)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_memory_for_the_backward_pass_is_linear_in_the_length(dropout):
    short, long = (saved_bytes("chunked", seq_len, dropout) for seq_len in (32, 256))
    assert 0 < long <= 8 * short
    # where probabilities are kept, it is not
    short, long = (saved_bytes("eager", seq_len, dropout) for seq_len in (32, 256))
    assert long > 8 * 4 * short
