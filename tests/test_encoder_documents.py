"""Documents in a row of a batch are encoded as each is alone, with every position encoding."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.position_cases import ALL_OF_ENCODER, Case, encoder_of, parametrized, random_input
from helpers.tensors import assert_within
from test_encoder_merged_mask import WRAPPERS
from tupe_fairseq import TupeEncoder
from tupe_fairseq.attention import IMPLEMENTATIONS, choice

LENGTH = 16
#: of each row, the lengths of its documents; the longest is as long as positions allow
ROWS = [[5, 11], [1, 7, 4], [10, 1, 2, 2]]
REAL = torch.arange(LENGTH) < torch.tensor([[sum(row)] for row in ROWS])
TUPE_R = Case("tupe", {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5})
#: triton has its own tests; auto takes eager for so few tokens
NAMES = [name for name in IMPLEMENTATIONS if name != "triton"]


def places():
    """Row, start and end of each document."""
    for number, row in enumerate(ROWS):
        for n, length in enumerate(row):
            yield number, sum(row[:n]), sum(row[:n]) + length


def starts():
    marked = torch.zeros(len(ROWS), LENGTH, dtype=torch.bool)
    for row, start, _ in places():
        marked[row, start] = True
    return marked


def random_batch(dtype=torch.float64):
    return random_input(LENGTH, len(ROWS), dtype)


def answer(encoder, out, x):
    """Outputs at real tokens, and gradients of all parameters and of the input."""
    encoder.zero_grad()
    weights = torch.cos(torch.arange(out.numel(), dtype=torch.float64)).view(out.shape)
    (out * weights.to(out.dtype))[REAL].sum().backward()
    grads = {name: parameter.grad for name, parameter in encoder.named_parameters()}
    return {"out": out.detach()[REAL], "x": x.grad[REAL], **grads}


def together(encoder, dtype=torch.float64):
    x = random_batch(dtype).requires_grad_()
    return answer(encoder, encoder(x, ~REAL, document_starts=starts()), x)


def alone(encoder, dtype=torch.float64):
    """Each document is a batch of its own."""
    x = random_batch(dtype).requires_grad_()
    rows = [[] for _ in ROWS]
    for row, start, end in places():
        rows[row].append(encoder(x[row : row + 1, start:end])[0])
    out = torch.stack([
        torch.nn.functional.pad(torch.cat(row), (0, 0, 0, LENGTH - sum(map(len, row))))
        for row in rows
    ])  # fmt: skip
    return answer(encoder, out, x)


@pytest.mark.parametrize(
    "case, name",
    [
        pytest.param(case, name, id=f"{case.id}-{name}")
        for case in ALL_OF_ENCODER
        for name in (NAMES if case == TUPE_R else ["eager", "chunked"])
    ],
)
def test_each_is_what_it_is_alone(case, name):
    """Outputs and all gradients."""
    try:
        actual = together(encoder_of(case, attn_impl=name))
    except RuntimeError as refusal:  # a named implementation that serves no such bias
        assert name != "eager" and "does not support this" in str(refusal)
        pytest.skip(str(refusal))
    assert_within(actual, alone(encoder_of(case)), 1e-11)


@parametrized(
    [case for case in ALL_OF_ENCODER if case.name in ("tupe", "rope", "alibi", "learned")]
)
@pytest.mark.parametrize("name", ["eager", "auto"])
@torch.no_grad()
def test_features_in_float32(case, name, monkeypatch):
    """Where short documents share a call of the fused attention, too."""
    monkeypatch.setattr(choice, "FEW_SCORES", 0)
    encoder = encoder_of(case, torch.float32, attn_impl=name)
    x = random_batch(torch.float32)
    out = encoder(x, ~REAL, document_starts=starts())
    for row, start, end in places():
        # both are within 1e-6 of the exact one; torch 1.13 sums in another order for fewer rows
        expected = encoder(x[row : row + 1, start:end])[0]
        torch.testing.assert_close(out[row, start:end], expected, rtol=0, atol=2e-6)


@torch.no_grad()
def test_another_order_is_the_same_in_another_order():
    encoder, x = encoder_of(TUPE_R), random_batch()[:1, :11]
    marked = torch.zeros(1, 11, dtype=torch.bool)
    marked[0, [0, 4]] = True
    out = encoder(x, document_starts=marked)
    swapped = encoder(torch.cat([x[:, 4:], x[:, :4]], dim=1), document_starts=marked.roll(7, 1))
    torch.testing.assert_close(
        torch.cat([swapped[:, 7:], swapped[:, :7]], dim=1), out, rtol=0, atol=1e-12
    )
    whole = encoder(x)
    assert (whole - out).abs().max() > 1e-2  # they do change each other if not kept apart


@pytest.mark.parametrize("unpad", [False, True])
@torch.no_grad()
def test_all_hidden_states_and_padding(unpad):
    encoder = encoder_of(TUPE_R, unpad=unpad)
    out, hiddens = encoder(random_batch(), ~REAL, True, starts())
    assert len(hiddens) == 3 and all(h.shape == out.shape for h in hiddens)
    assert hiddens[-1].equal(out) and not any(h[~REAL].any() for h in hiddens)


@pytest.mark.parametrize("kind", list(WRAPPERS))
def test_layers_that_are_computed_again(kind):
    plain = encoder_of(TUPE_R, attn_impl="auto")
    wrapped = TupeEncoder(plain.config, wrap_layer=WRAPPERS[kind]).double().eval()
    for ours, theirs in zip(wrapped.parameters(), plain.parameters()):
        ours.data.copy_(theirs)
    expected = dict(enumerate(together(plain).values()))
    assert_within(dict(enumerate(together(wrapped).values())), expected, 1e-12)


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that is made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (list, tuple)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_as_large_as_a_mask_of_the_batch(name):
    length, short = 160, 8
    encoder = encoder_of(TUPE_R, attn_impl=name).train()
    marked = (torch.arange(length) % short == 0)[None]
    with Largest() as largest:
        try:
            encoder(random_input(length, 1), document_starts=marked).sum().backward()
        except RuntimeError as refusal:  # before torch 2.1
            assert name == "sdpa" and "does not support this" in str(refusal)
            pytest.skip(str(refusal))
    # the scores of all documents, 20 x 3 heads x 8 x 8, or the joint projection, 160 x 36
    assert 0 < largest.elements <= 160 * 36 < length**2


def test_a_document_longer_than_the_table_of_positions():
    with pytest.raises(ValueError, match=r"seq_len \(12\) is not in 1 \.\. max_positions \(11\)"):
        encoder_of(TUPE_R)(random_input(13, 1), document_starts=torch.arange(13)[None] == 12)


def test_marks_of_another_batch():
    marked = torch.zeros(1, 4, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"document_starts is \(1, 4\), and the batch is \(1, 3\)"):
        encoder_of(TUPE_R)(random_input(3, 1), document_starts=marked)


def test_nothing_but_padding():
    mask = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="the sequences have no token"):
        encoder_of(TUPE_R)(random_input(3, 1), mask, document_starts=mask)
