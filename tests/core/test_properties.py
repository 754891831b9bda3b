"""What holds for every position encoding, alone and in the encoder.

Alone means through ``forward_input`` and ``forward_attn``; in float64 where nothing else is said,
so that 1e-11 is some thousand roundings.
"""

import copy

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
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.position import CATALOGUE, PositionEncoding
from tupe_fairseq.position.positions import relative_positions

ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])
PADDING = torch.tensor([[False] * SEQ_LEN, [False] * 4 + [True] * 3])


def reposition(encoder, positions):
    """A copy of the encoder in which the token at index t has the position ``positions[t]``.

    It goes through the encodings' own hooks, so nothing else can tell the encoder of an order.
    """
    encoder = copy.deepcopy(encoder)

    def moved(module):
        embed, forward = module.embed, module.forward
        transform, content_bias = module.transform, module.content_bias
        module.embed = lambda n: embed(positions)
        module.forward = lambda n: forward(positions)
        module.transform = lambda x, p: transform(x, positions[p])
        module.content_bias = lambda q, k, n, m: content_bias(q, k, positions, positions)

    for module in encoder.modules():
        if isinstance(module, PositionEncoding):
            moved(module)
    return encoder


# ---- Shifts and permutations --------------------------------------------------------------------


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


@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@parametrized(ALL)
def test_tokens_permuted_together_with_their_positions(case, causal):
    position, x = build(case, causal=causal), random_input()
    logits, out = attend(position, x)
    permuted = attend(position, x[:, ORDER], ORDER)
    assert_near(permuted[0], logits[:, :, ORDER][..., ORDER])
    assert_near(permuted[1], out[:, :, ORDER])


@parametrized(ALL_OF_ENCODER)
def test_nothing_but_the_encoding_knows_the_order(case):
    encoder, x = encoder_of(case), random_input()
    expected = encoder(x)
    assert_near(reposition(encoder, ORDER)(x[:, ORDER]), expected[:, ORDER])
    if case.name == "none" and not case.options:
        assert_near(encoder(x[:, ORDER]), expected[:, ORDER])
    else:
        assert differ(encoder(x[:, ORDER]), expected[:, ORDER])
    at_1, at_4 = (reposition(encoder, torch.arange(n, n + SEQ_LEN))(x) for n in (1, 4))
    assert differ(at_4, at_1) != case.is_relative


# ---- Any positions ------------------------------------------------------------------------------


@parametrized(ALL)
def test_some_queries_and_some_keys(case):
    """Tq != Tk, with and without [CLS] on either side."""
    position, q, k = build(case), random_heads(10), random_heads(10, seed=5)
    full = position.forward_attn(q, k)
    for rows, columns in (((3, 10), (0, 10)), ((0, 4), (2, 10)), ((5, 6), (1, 3))):
        row, column = slice(*rows), slice(*columns)
        positions = torch.arange(*rows), torch.arange(*columns)
        part = position.forward_attn(q[:, :, row], k[:, :, column], *positions)
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


@parametrized(ALL)
def test_documents_in_one_row_are_as_on_their_own(case):
    position, x = build(case), random_input()
    packed, _ = attend(position, x, torch.tensor([0, 1, 2, 3, 0, 1, 2]))
    for part in (slice(0, 4), slice(4, 7)):
        assert_near(packed[:, :, part, part], attend(position, x[:, part])[0])


@parametrized(ALL)
def test_an_int_stands_for_the_positions_from_0(case):
    position, x = build(case), random_input()
    by_default = attend(position, x)
    # differences of unsigned integers would wrap round
    kinds = (SEQ_LEN, *(torch.arange(SEQ_LEN, dtype=t) for t in (torch.int32, torch.uint8)))
    for positions in kinds:
        for ours, theirs in zip(attend(position, x, positions), by_default):
            assert_near(ours, theirs)


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
    # a decoder's loop: each query with the keys so far
    for t in range(SEQ_LEN):
        keys = k[:, :, : t + 1]
        step = position.forward_attn(q[:, :, t : t + 1], keys, torch.tensor([t]), t + 1)
        assert_near(step, logits[:, :, t : t + 1, : t + 1])
    # positions decide what is later, not places
    by_row = position.forward_attn(q, k, ORDER.expand(BATCH, -1), ORDER)
    hidden = by_row == float("-inf")
    assert hidden.equal((ORDER > ORDER[:, None]).expand_as(hidden))


@parametrized([Case(name, {}) for name in CATALOGUE])
def test_wrong_positions_and_widths_are_refused(case):
    position, x, q = build(case), random_input(), random_heads()
    for wrong in (torch.arange(3), torch.zeros(3, SEQ_LEN).long(), torch.zeros(1, 1).long()):
        with pytest.raises(ValueError, match=r"positions are .*expected is \(7,\) or \(2, 7\)"):
            position.forward_input(x, wrong)
        with pytest.raises(ValueError, match=r"positions are .*expected is \(7,\) or \(2, 7\)"):
            position.forward_attn(q, q, None, wrong)
    for wrong in (torch.arange(7.0), torch.ones(7).bool()):
        with pytest.raises(TypeError, match="they must be integers"):
            position.forward_attn(q, q, wrong)
    with pytest.raises(ValueError, match=r"input is \(2, 7, 11\); expected is \(B, T, 12\)"):
        position.forward_input(x[..., 1:])
    for wrong in (q[..., :2], q[:, :1], q[0]):
        with pytest.raises(ValueError, match=r"expected is \(B, 3, T, 4\)"):
            position.forward_attn(q, wrong)


# ---- Padding, batches, lengths ------------------------------------------------------------------


@parametrized(ALL_OF_ENCODER)
def test_padding_and_the_rest_of_the_batch_change_nothing(case):
    x, encoder = random_input(), encoder_of(case)
    padded = encoder(x, PADDING)
    for b, length in enumerate([SEQ_LEN, 4]):
        assert_near(padded[b : b + 1, :length], encoder(x[b : b + 1, :length]))
    changed = x.masked_fill(PADDING[..., None], 5.0)
    assert encoder(changed, PADDING)[~PADDING].equal(padded[~PADDING])


@parametrized(ALL_OF_ENCODER)
def test_lengths_up_to_the_limit_and_beyond(case):
    encoder = encoder_of(case)
    for length in (1, 2, MAX):
        assert encoder(random_input(length)).isfinite().all()
    x = random_input(MAX + 3)
    if case.has_table:
        with pytest.raises(ValueError, match=r"\(14\).*max_positions \(11\).*--max-positions"):
            encoder(x)
        position = encoder.position
        at = position.embed if position.uses("embed") else position
        for wrong in (MAX, -1):
            with pytest.raises(ValueError, match=f"position {wrong} is not in 0 .. max_positions"):
                at(torch.tensor([3, wrong]))
        return
    if case.name != "enformer":  # whose functions are stretched to max_positions
        longer = encoder_of(case, max_positions=3 * MAX)
        longer.load_state_dict(encoder.state_dict())
        assert_near(encoder(x), longer(x))
    assert encoder(x).isfinite().all()


# ---- Precision and gradients --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@parametrized(ALL)
def test_precision_alone(case, dtype):
    position, x = build(case, dtype), random_input(dtype=dtype).requires_grad_()
    exact = build(case)
    exact.load_state_dict(position.state_dict())
    logits, _ = attend(position, x)
    expected, _ = attend(exact, x.detach().double())
    # a handful of roundings of the largest logit
    scale = max(1.0, expected.abs().max().item())
    assert_near(logits.double(), expected, 8 * torch.finfo(dtype).eps / 2 * scale)
    assert logits.dtype == dtype or (dtype == torch.bfloat16 and logits.dtype == torch.float32)
    logits.float().square().sum().backward()
    for parameter in [x, *position.parameters()]:
        assert parameter.grad.dtype == dtype and parameter.grad.isfinite().all()


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
    # what adds the same to all logits of a query: [CLS]'s own score, and a bias of the keys
    cancels = "cls_to_other" if case.name == "alibi" else "."
    if case.options.get("tie_cls") or case.name == "disentangled":
        cancels = "pos_k_proj.bias"
    for name, parameter in encoder.named_parameters():
        assert (parameter.grad.abs().max() > 1e-9) != name.endswith(cancels), name


# ---- An encoding of one's own -------------------------------------------------------------------


class LearnedSlopes(PositionEncoding):
    """That of examples/positions."""

    def __init__(self, embed_dim, num_heads, max_positions, *, causal=False):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.log_slopes = torch.nn.Parameter(torch.linspace(-6, 0, num_heads))

    def position_bias(self, positions_q, positions_k=None):
        positions_k = positions_q if positions_k is None else positions_k
        relative = relative_positions(positions_q, positions_k, self.log_slopes.device)
        return -self.log_slopes.exp()[:, None, None] * relative.abs().unsqueeze(-3)


def test_an_encoding_of_ones_own(monkeypatch):
    monkeypatch.setitem(CATALOGUE, "slopes", LearnedSlopes)
    config = TupeConfig(
        embed_dim=DIM, num_heads=HEADS, position_encoding="slopes", dropout=0.0,
        attention_dropout=0.0, attn_impl="eager",
    )  # fmt: skip
    encoder = TupeEncoder(config)
    x = random_input(dtype=torch.float32)
    encoder(x, PADDING).sum().backward()
    assert encoder.position.log_slopes.grad.any() and HEAD_DIM == encoder.position.head_dim
    with torch.no_grad():  # without slopes a token has no position
        encoder.position.log_slopes.fill_(-1e9)
    torch.testing.assert_close(encoder(x[:, ORDER]), encoder(x)[:, ORDER])
    with pytest.raises(ValueError, match="--position-encoding is slopes in the checkpoint"):
        TupeEncoder(TupeConfig(embed_dim=DIM, num_heads=HEADS)).load_state_dict(
            encoder.state_dict()
        )
