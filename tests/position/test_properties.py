"""What holds for every position encoding, alone and in the encoder.

Alone means through ``forward_input`` and ``forward_attn``; everything in float64 where nothing
else is said, so that 1e-11 is some thousand roundings.
"""

import copy
import io

import pytest
import torch

from helpers.position_cases import (
    ALL,
    ALL_OF_ENCODER,
    BATCH,
    DIM,
    HEAD_DIM,
    HEADS,
    MAX,
    SEQ_LEN,
    Case,
    assert_near,
    attend,
    build,
    differ,
    encoder_of,
    parametrized,
    random_heads,
    random_input,
)
from tupe_fairseq.position import CATALOGUE, PositionEncoding

ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])
PADDING = torch.tensor([[False] * SEQ_LEN, [False] * 4 + [True] * 3])


def reposition(encoder, positions):
    """A copy of the encoder in which the token at index t has the position ``positions[t]``.

    It goes through the encodings' own hooks, so nothing else can tell the encoder of an order.
    """
    encoder = copy.deepcopy(encoder).train().eval()  # which forgets the biases that it kept

    def moved(module):
        embed, forward = module.embed, module.forward
        transform, content_bias = module.transform, module.content_bias
        module.embed = lambda n: embed(positions)
        module.forward = lambda n: forward(positions)
        module.transform = lambda x, p: transform(x, positions[p])
        # without what was computed once for all layers, of other positions
        module.content_bias = lambda q, k, n, m, *_: content_bias(q, k, positions, positions)

    for module in encoder.modules():
        if isinstance(module, PositionEncoding):
            moved(module)
    return encoder


# Shifts


@parametrized(ALL)
def test_a_shift_of_all_positions(case):
    position, x = build(case), random_input()
    assert position.unties_cls == case.unties_cls
    at_0, at_1, at_4 = (
        torch.cat([part.flatten() for part in attend(position, x, torch.arange(n, n + SEQ_LEN))])
        for n in (0, 1, 4)
    )
    if not case.is_relative:
        assert differ(at_1, at_4)
        return
    assert_near(at_4, at_1)
    # the token at position 0 is [CLS], if that is untied
    assert differ(at_1, at_0) if case.unties_cls else torch.allclose(at_1, at_0)
    for n in (-50, 1000):
        far = attend(position, x, torch.arange(n, n + SEQ_LEN))
        assert_near(torch.cat([part.flatten() for part in far]), at_1)


@parametrized(ALL_OF_ENCODER)
def test_a_shift_of_all_positions_in_the_encoder(case):
    encoder, x = encoder_of(case), random_input()
    at_1, at_4 = (reposition(encoder, torch.arange(n, n + SEQ_LEN))(x) for n in (1, 4))
    if case.is_relative:
        assert_near(at_4, at_1)
    else:
        assert differ(at_4, at_1)


# Permutations


@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@parametrized(ALL)
def test_tokens_permuted_together_with_their_positions(case, causal):
    position, x = build(case, causal=causal), random_input()
    logits, out = attend(position, x)
    permuted = attend(position, x[:, ORDER], ORDER)
    assert_near(permuted[0], logits[:, :, ORDER][..., ORDER])
    # the values of ``attend`` come from the same place as the keys
    assert_near(permuted[1], out[:, :, ORDER])


@parametrized(ALL_OF_ENCODER)
def test_tokens_permuted_together_with_their_positions_in_the_encoder(case):
    encoder, x = encoder_of(case), random_input()
    expected = encoder(x)
    assert_near(reposition(encoder, ORDER)(x[:, ORDER]), expected[:, ORDER])
    # nothing but the encoding knows the order, and only "none" does not
    if case.name == "none" and not case.options:
        assert_near(encoder(x[:, ORDER]), expected[:, ORDER])
    else:
        assert differ(encoder(x[:, ORDER]), expected[:, ORDER])


# Any positions


@parametrized(ALL)
def test_some_queries_and_some_keys(case):
    """Tq != Tk, with and without [CLS] on either side."""
    position, q, k = build(case), random_heads(10), random_heads(10, seed=5)
    full = position.forward_attn(q, k)
    for rows, columns in [
        ((3, 10), (0, 10)),
        ((0, 4), (2, 10)),
        ((5, 6), (1, 3)),
        ((2, 9), (0, 1)),
    ]:
        row, column = slice(*rows), slice(*columns)
        part = position.forward_attn(
            q[:, :, row], k[:, :, column], torch.arange(*rows), torch.arange(*columns)
        )
        assert_near(part, full[:, :, row, column])


@parametrized(ALL)
def test_positions_that_differ_within_the_batch(case):
    position, x = build(case), random_input()
    positions = torch.stack([ORDER, torch.arange(3, 3 + SEQ_LEN)])
    together = attend(position, x, positions)
    for b in range(BATCH):
        alone = attend(position, x[b : b + 1], positions[b])
        row = attend(position, x[b : b + 1], positions[b : b + 1])
        for ours, theirs, same in zip(together, alone, row):
            assert_near(ours[b : b + 1], theirs)
            assert_near(same, theirs)
    for ours, theirs in zip(attend(position, x, positions[:1]), attend(position, x, ORDER)):
        assert_near(ours, theirs)
    # one kind for the queries, the other for the keys
    q, k, few = random_heads(4), random_heads(seed=5), torch.arange(4)
    rows = [(q[b : b + 1], k[b : b + 1], positions[b]) for b in range(BATCH)]
    some_queries = [position.forward_attn(q, k, few, p) for q, k, p in rows]
    assert_near(position.forward_attn(q, k, few, positions), torch.cat(some_queries))
    some_keys = [position.forward_attn(k, q, p, few) for q, k, p in rows]
    assert_near(position.forward_attn(k, q, positions, 4), torch.cat(some_keys))


@parametrized(ALL)
def test_repeated_positions(case):
    """Two sentences packed into one row that both begin at 0, as they are on their own."""
    position, x = build(case), random_input()
    packed, _ = attend(position, x, torch.tensor([0, 1, 2, 3, 0, 1, 2]))
    for part in (slice(0, 4), slice(4, 7)):
        alone, _ = attend(position, x[:, part])
        assert_near(packed[:, :, part, part], alone)


@parametrized(ALL)
def test_an_int_stands_for_the_positions_from_0(case):
    position, x = build(case), random_input()
    by_default, by_int = (attend(position, x, positions) for positions in (None, SEQ_LEN))
    for ours, theirs in zip(by_int, by_default):
        assert ours.equal(theirs)
    # of any integer type; differences of unsigned ones would wrap round
    for dtype in (torch.int64, torch.int32, torch.uint8):
        by_tensor = attend(position, x, torch.arange(SEQ_LEN, dtype=dtype))
        for ours, theirs in zip(by_tensor, by_int):
            assert_near(ours, theirs)


@parametrized(ALL)
def test_nothing_given_is_changed(case):
    position, q, k = build(case), random_heads(), random_heads(seed=5)
    positions, given = ORDER.clone(), (q.clone(), k.clone())
    position.forward_attn(q, k, positions, positions)
    assert q.equal(given[0]) and k.equal(given[1]) and positions.equal(ORDER)
    x = random_input()
    position.forward_input(x)
    assert x.equal(random_input())


# Padding and batches


@parametrized(ALL_OF_ENCODER)
def test_padding_changes_nothing(case):
    x = random_input()
    encoder, packing = encoder_of(case), encoder_of(case, unpad=True)
    padded = encoder(x, PADDING)
    for b, length in enumerate([SEQ_LEN, 4]):
        assert_near(padded[b : b + 1, :length], encoder(x[b : b + 1, :length]))
    unpadded = packing(x, PADDING)
    assert_near(unpadded[~PADDING], padded[~PADDING])
    assert not unpadded[PADDING].any()
    changed = x.masked_fill(PADDING[..., None], 5.0)
    assert encoder(changed, PADDING)[~PADDING].equal(padded[~PADDING])


@parametrized(ALL_OF_ENCODER)
def test_a_batch_equals_its_rows(case):
    encoder, x = encoder_of(case), random_input()
    assert_near(encoder(x), torch.cat([encoder(x[:1]), encoder(x[1:])]))


# Lengths


@pytest.mark.parametrize("seq_len", [1, 2, MAX])
@parametrized(ALL_OF_ENCODER)
def test_lengths_up_to_the_limit(case, seq_len):
    assert encoder_of(case)(random_input(seq_len)).isfinite().all()


@parametrized(ALL)
def test_beyond_the_limit(case):
    position, x = build(case), random_input(MAX + 3)
    encoder = encoder_of(case)
    if case.has_table:
        for too_long in (lambda: attend(position, x), lambda: encoder(x)):
            with pytest.raises(ValueError, match=r"\(14\).*max_positions \(11\).*--max-positions"):
                too_long()
        with pytest.raises(ValueError, match="position 11 is not in 0 .. max_positions - 1"):
            attend(position, x[:, :2], torch.tensor([3, MAX]))
        with pytest.raises(ValueError, match="position -1 is not in 0 .. max_positions - 1"):
            attend(position, x[:, :2], torch.tensor([3, -1]))
        return
    logits, _ = attend(position, x)
    if case.is_relative and not case.unties_cls:
        # the last MAX tokens, as they are within the limit
        within, _ = attend(position, x[:, 3:])
        assert_near(logits[:, :, 3:, 3:], within)
    if case.name != "enformer":  # whose functions are stretched to max_positions
        longer = build(case, max_positions=3 * MAX)
        longer.load_state_dict(position.state_dict())
        assert_near(logits, attend(longer, x)[0])
        longer = encoder_of(case, max_positions=3 * MAX)
        longer.load_state_dict(encoder.state_dict())
        assert_near(encoder(x), longer(x))
    assert encoder(x).isfinite().all()


# Causal


@parametrized(ALL)
def test_causal(case):
    position, q, k = build(case, causal=True), random_heads(), random_heads(seed=5)
    is_later = torch.ones(SEQ_LEN, SEQ_LEN).triu(1).bool()
    logits = position.forward_attn(q, k)
    assert (logits[..., is_later] == float("-inf")).all()
    assert logits[..., ~is_later].isfinite().all()
    if not case.options.get("rel_pos"):  # causal buckets are others
        both_ways = build(case).forward_attn(q, k)
        assert_near(logits[..., ~is_later], both_ways[..., ~is_later])
    # step by step, each query with the keys that there are
    for t in range(SEQ_LEN):
        keys = k[:, :, : t + 1]
        step = position.forward_attn(q[:, :, t : t + 1], keys, torch.tensor([t]), t + 1)
        assert_near(step, logits[:, :, t : t + 1, : t + 1])
    by_row = position.forward_attn(q, k, ORDER.expand(BATCH, -1), ORDER)
    assert (by_row[..., ORDER > ORDER[:, None]] == float("-inf")).all()
    assert by_row[..., ORDER <= ORDER[:, None]].isfinite().all()


# State


def through_a_file(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer)


@parametrized(ALL)
def test_saved_and_loaded(case):
    position, x = build(case, torch.float32), random_input(dtype=torch.float32)
    other = build(case, torch.float32)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(through_a_file(position.state_dict()))
    for ours, theirs in zip(attend(other, x), attend(position, x)):
        assert ours.equal(theirs)


@parametrized(ALL_OF_ENCODER)
def test_saved_and_loaded_in_the_encoder(case):
    encoder, x = encoder_of(case, torch.float32), random_input(dtype=torch.float32)
    other = encoder_of(case, torch.float32)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(through_a_file(encoder.state_dict()))
    assert other(x).equal(encoder(x))


@pytest.fixture(scope="module")
def states():
    return {case.id: encoder_of(case).state_dict() for case in ALL_OF_ENCODER}


@parametrized(ALL_OF_ENCODER)
def test_another_scheme_or_other_options_are_refused(case, states):
    encoder = encoder_of(case)
    for other in ALL_OF_ENCODER:
        if other == case:
            encoder.load_state_dict(states[other.id])
            continue
        flag = "--position-encoding is" if other.name != case.name else "--[a-z-]+ is"
        with pytest.raises(ValueError, match=rf"position options differ: .*{flag}"):
            encoder.load_state_dict(states[other.id])


# Precision


@parametrized(ALL)
def test_bfloat16(case):
    position, x = build(case, torch.bfloat16), random_input(dtype=torch.bfloat16)
    exact = build(case, torch.float64)
    exact.load_state_dict(position.state_dict())
    x.requires_grad_()
    logits, _ = attend(position, x)
    expected, _ = attend(exact, x.detach().double())
    # bfloat16 rounds at 2^-9; a handful of roundings of the largest logit
    scale = max(1.0, expected.abs().max().item())
    assert_near(logits.double(), expected, 8 * 2**-9 * scale)
    logits.float().square().sum().backward()
    for parameter in [x, *position.parameters()]:
        assert parameter.grad.isfinite().all()


@parametrized(ALL_OF_ENCODER)
def test_bfloat16_in_the_encoder(case):
    encoder, x = encoder_of(case, torch.bfloat16), random_input(dtype=torch.bfloat16)
    exact = encoder_of(case)
    exact.load_state_dict(encoder.state_dict())
    out = encoder(x, PADDING)
    assert out.dtype == torch.bfloat16 and out.isfinite().all()
    expected = exact(x.double(), PADDING)
    # two layers of rounded hidden states, whose LayerNorm scales to about 1
    error = (out.double() - expected)[~PADDING].abs()
    assert error.mean() < 0.02 and error.max() < 0.2
    out[~PADDING].float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in encoder.parameters() if p.grad is not None)


@parametrized(ALL)
def test_float32_is_close_to_float64_and_keeps_its_dtype(case):
    position, x = build(case, torch.float32), random_input(dtype=torch.float32)
    logits, out = attend(position, x)
    assert logits.dtype == out.dtype == torch.float32
    exact = build(case, torch.float64)
    exact.load_state_dict(position.state_dict())
    expected, _ = attend(exact, x.double())
    assert expected.dtype == torch.float64
    scale = max(1.0, expected.abs().max().item())
    # float32 rounds at 6e-8
    assert_near(logits.double(), expected, 2e-6 * scale)


# Gradients


@parametrized(ALL)
def test_a_gradient_reaches_every_parameter(case):
    position, x = build(case), random_input(MAX).requires_grad_()
    logits, _ = attend(position, x)
    (logits * torch.randn_like(logits)).sum().backward()
    for name, parameter in [("input", x), *position.named_parameters()]:
        assert parameter.grad is not None and parameter.grad.abs().max() > 1e-6, name


@parametrized(ALL_OF_ENCODER)
def test_a_gradient_reaches_every_parameter_of_the_encoder(case):
    encoder, x = encoder_of(case), random_input(MAX)
    out = encoder(x)
    (out * torch.randn_like(out)).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        if cancels_in_the_softmax(case, name):
            assert parameter.grad.abs().max() < 1e-12, name
        else:
            assert parameter.grad.abs().max() > 1e-9, name


def cancels_in_the_softmax(case, name):
    """What adds the same to all logits of a query: [CLS]'s own score, and a bias of the keys."""
    if name.endswith("cls_to_other"):
        return True
    is_reset = case.name == "tupe" and case.unties_cls
    return name.endswith("pos_k_proj.bias") and not is_reset


# Wrong input


@parametrized(ALL)
def test_wrong_positions(case):
    position, q, x = build(case), random_heads(), random_input()
    calls = [
        lambda p: position.forward_attn(q, q, p, p),
        lambda p: position.forward_attn(q, q, None, p),
        lambda p: position.forward_input(x, p),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="positions are torch.float32; they must be integers"):
            call(torch.arange(SEQ_LEN).float())
        with pytest.raises(TypeError, match="positions are torch.bool; they must be integers"):
            call(torch.ones(SEQ_LEN).bool())
        for shape in [(SEQ_LEN + 1,), (BATCH, SEQ_LEN - 1), (BATCH + 1, SEQ_LEN)]:
            with pytest.raises(ValueError, match=r"shape .*expected is \(7,\) or \(2, 7\)"):
                call(torch.zeros(shape, dtype=torch.int64))
        for shape in [(), (1, BATCH, SEQ_LEN)]:
            with pytest.raises(ValueError, match=r"positions have the shape .*expected is \(T\)"):
                call(torch.zeros(shape, dtype=torch.int64))
        with pytest.raises(ValueError, match=r"have the shape \(8,\)"):
            call(SEQ_LEN + 1)


@parametrized(ALL)
def test_wrong_shapes(case):
    position, q = build(case), random_heads()
    message = rf"expected is \(B, num_heads {HEADS}, T, head_dim {HEAD_DIM}\)"
    for wrong in (q[:, :2], q[..., :3], q[0], q.transpose(1, 2)):
        with pytest.raises(ValueError, match=f"q is .*{message}"):
            position.forward_attn(wrong, q)
        with pytest.raises(ValueError, match=f"k is .*{message}"):
            position.forward_attn(q, wrong)
    x = random_input()
    for wrong in (x[..., :-1], x[0], x[None]):
        with pytest.raises(ValueError, match=rf"input is .*\(B, T, embed_dim {DIM}\)"):
            position.forward_input(wrong)


def test_every_scheme_is_here():
    """Whatever is added to the catalogue meets all of the above, with each of its options."""
    for name, scheme in CATALOGUE.items():
        options = {option for case in ALL if case.name == name for option in case.options}
        assert options == set(scheme.OPTIONS), name
        assert Case(name, {}) in ALL
        each_layer = any("position_each_layer" in c.options for c in ALL_OF_ENCODER if c[0] == name)
        assert each_layer == scheme.adds_to_input
