"""Rotary positions: the rotation by its definition, and as in transformers."""

import math

import pytest
import torch

from tupe_fairseq.position import build_position_encoding

BATCH, HEADS, HEAD_DIM, QUERIES, KEYS = 2, 3, 6, 5, 7
DTYPES = [torch.float32, torch.float64]
# float64 against the oracle; float32 of sums of HEAD_DIM products of about 1
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
}


def rope(**options):
    return build_position_encoding(
        "rope", embed_dim=HEADS * HEAD_DIM, num_heads=HEADS, max_positions=4, **options
    )


def random(length, dtype):
    return torch.randn(BATCH, HEADS, length, HEAD_DIM, dtype=dtype, requires_grad=True)


def angle(position, n):
    return position / 10000 ** (2 * n / HEAD_DIM)


def rotated(x, position):
    """One vector, pair by pair as a complex number times exp(i angle)."""
    out = [None] * HEAD_DIM
    for n in range(HEAD_DIM // 2):
        a = angle(position, n)
        real, imaginary = x[n], x[n + HEAD_DIM // 2]
        out[n] = real * math.cos(a) - imaginary * math.sin(a)
        out[n + HEAD_DIM // 2] = real * math.sin(a) + imaginary * math.cos(a)
    return torch.stack(out)


def oracle(q, k, positions_q, positions_k):
    """The logits, entry by entry; positions as lists of lists."""
    q, k = q.double(), k.double()
    entries = [
        rotated(q[b, h, i], positions_q[b][i]) @ rotated(k[b, h, j], positions_k[b][j])
        for b in range(BATCH)
        for h in range(HEADS)
        for i in range(QUERIES)
        for j in range(KEYS)
    ]
    return torch.stack(entries).view(BATCH, HEADS, QUERIES, KEYS) / math.sqrt(HEAD_DIM)


POSITIONS = {
    "counted": (None, None),
    "far": ([1000, 3, -20, 8, 8], [2, 999, 0, -7, 1, 50, 4]),
    "by_row": ([[4, 1, 0, 3, 9], [7, 6, 5, 0, 1]], [[0, 1, 2, 3, 4, 5, 6], [9, 0, 8, 1, 7, 2, 6]]),
    "mixed": ([3, 1, 4, 1, 5], [[0, 1, 2, 3, 4, 5, 6], [9, 0, 8, 1, 7, 2, 6]]),
}


def by_row(positions, length):
    if positions is None:
        positions = list(range(length))
    return positions if isinstance(positions[0], list) else [positions] * BATCH


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_logits_and_gradients_agree_with_the_oracle(name, dtype):
    positions_q, positions_k = POSITIONS[name]
    q, k = random(QUERIES, dtype), random(KEYS, dtype)
    weights = torch.randn(BATCH, HEADS, QUERIES, KEYS, dtype=dtype)
    given = [None if p is None else torch.tensor(p) for p in (positions_q, positions_k)]
    actual = rope().forward_attn(q, k, *given)
    grads = torch.autograd.grad((actual * weights).sum(), [q, k])

    expected = oracle(q, k, by_row(positions_q, QUERIES), by_row(positions_k, KEYS))
    expected_grads = torch.autograd.grad((expected * weights.double()).sum(), [q, k])
    torch.testing.assert_close(actual, expected.to(dtype), **TOLERANCE[dtype])
    for ours, theirs in zip(grads, expected_grads):
        torch.testing.assert_close(ours, theirs, **TOLERANCE[dtype])


@pytest.fixture(scope="module")
def llama():
    reason = "transformers is not installed: its LLaMA is what rope is compared with"
    pytest.importorskip("transformers", reason=reason)
    from transformers.models.llama import configuration_llama, modeling_llama

    config = configuration_llama.LlamaConfig(
        hidden_size=HEADS * HEAD_DIM, num_attention_heads=HEADS, num_key_value_heads=HEADS
    )
    angles = modeling_llama.LlamaRotaryEmbedding(config=config)
    return angles, modeling_llama.apply_rotary_pos_emb


def transformed_with_gradients(transform, q, k, weights):
    out = torch.stack(transform(q, k))
    return (out, *torch.autograd.grad((out * weights).sum(), [q, k]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_queries_and_keys_are_those_of_llama(llama, dtype):
    angles, apply = llama
    q, k = random(KEYS, dtype), random(KEYS, dtype)
    positions = torch.stack([torch.arange(KEYS), torch.tensor([11, 0, 3, 9, 2, 5, 12])])
    weights = torch.randn(2, *q.shape, dtype=dtype)
    actual = transformed_with_gradients(
        lambda *x: [rope().transform(part, positions.unsqueeze(1)) for part in x], q, k, weights
    )
    expected = transformed_with_gradients(
        lambda q, k: apply(q, k, *angles(q, positions)), q, k, weights
    )
    for ours, theirs in zip(actual, expected):
        # LLaMA's angles, up to 12, are float32 whatever the dtype: 12 * 6e-8 on values of about 3
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=4e-6)


def test_in_float64_the_rotation_is_llamas_at_exact_angles(llama):
    _, apply = llama
    q, k = random(KEYS, torch.float64), random(KEYS, torch.float64)
    positions = [500, 0, 3, -9, 2, 5, 12]
    angles = torch.tensor(
        [[angle(p, n % (HEAD_DIM // 2)) for n in range(HEAD_DIM)] for p in positions],
        dtype=torch.float64,
    )
    weights = torch.randn(2, *q.shape, dtype=torch.float64)
    actual = transformed_with_gradients(
        lambda *x: [rope().transform(part, torch.tensor(positions)) for part in x], q, k, weights
    )
    expected = transformed_with_gradients(
        lambda q, k: apply(q, k, angles.cos()[None], angles.sin()[None]), q, k, weights
    )
    for ours, theirs in zip(actual, expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_16_bits_round_the_result_only():
    x = random(KEYS, torch.float32).bfloat16()
    positions = torch.arange(3000, 3000 + KEYS)
    exact = rope().transform(x.float(), positions)
    assert rope().transform(x, positions).equal(exact.bfloat16())


def test_nothing_is_learned():
    assert not list(rope().parameters()) and not rope().state_dict()


def test_an_odd_head_cannot_be_paired():
    message = r"head_dim \(5 = embed_dim 15 / num_heads 3\).*even.*--encoder-attention-heads"
    with pytest.raises(ValueError, match=message):
        build_position_encoding("rope", embed_dim=15, num_heads=3, max_positions=4)
