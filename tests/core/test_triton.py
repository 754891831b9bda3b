"""The Triton kernels against the equation in float64, in Triton's interpreter; slow: all sizes.

pytest tests/core/test_triton.py -m slow                        # in the interpreter, minutes
TRITON_INTERPRET=0 pytest tests/core/test_triton.py -m slow     # compiled for an H100, without one
"""

import dataclasses
import functools
import itertools
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.attention.sequences import Sequences
from tupe_fairseq.position.base import HIDDEN

triton = pytest.importorskip("triton", reason="triton is not installed: pip install triton")
from tupe_fairseq.attention import triton as ta  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # tests/conftest.py sets it
CPU, SCALING, HEADS = torch.device("cpu"), 0.3, 2
CLOSE = {"rtol": 0, "atol": 5e-5}  # float32: sums of some hundred numbers, results of 1 to 50
interpreted = pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")


def cases(fast, slow):
    """Parameters, the slow ones marked."""
    return [*fast, *(pytest.param(*x, marks=pytest.mark.slow) for x in slow)]


# ---- The equation, sequence by sequence ---------------------------------------------------------


def kept_mask(seed, streams, length, p):
    """bool (streams, length, length): Philox-2x32-7 in Python's integers, element by element."""
    q, k = torch.arange(length)[:, None], torch.arange(length)[None, :]
    patch = (q // 16 * 8 + q % 8) * 65536 + k // 16 * 8 + k % 8
    a = patch.expand(len(streams), -1, -1).clone()
    b = torch.zeros_like(a) + (torch.tensor(streams)[:, None, None] + (seed >> 32)) % 2**32
    key = seed % 2**32
    for _ in range(7):
        # a * 0xD256D193 without overflow of int64: in halves of 16 bits
        low, high = (a & 0xFFFF) * 0xD256D193, (a >> 16) * 0xD256D193
        total = high + (low >> 16)  # the product without its lowest 16 bits
        a, b = (total >> 16) ^ key ^ b, ((total & 0xFFFF) << 16) | (low & 0xFFFF)
        key = (key + 0x9E3779B9) % 2**32
    word = torch.where(q % 16 < 8, a, b)
    half = torch.where(k % 16 < 8, word & 0xFFFF, word >> 16)
    return half >= round(p * 2**16)


def equation(qkv, bias, lengths, seed=None, p=0.0):
    """Packed qkv (N, 3, H, K) -> (N, H, K)."""
    outs, start = [], 0
    order = sorted(
        range(len(lengths)), key=lambda n: -lengths[n]
    )  # streams count the longest first
    for number, n in enumerate(lengths):
        q, k, v = qkv[start : start + n].permute(1, 2, 0, 3)
        scores = SCALING * q @ k.transpose(1, 2) + (0 if bias is None else bias[:, :n, :n])
        probs = scores.softmax(-1)
        if p:
            streams = [order.index(number) * HEADS + head for head in range(HEADS)]
            probs = probs * kept_mask(seed, streams, n, p) / (1 - round(p * 2**16) / 2**16)
        outs.append((probs @ v).transpose(0, 1))
        start += n
    return torch.cat(outs)


def results(function, qkv, bias, grad):
    """The output and all gradients."""
    leaves = [x.detach().clone().requires_grad_() for x in (qkv, bias) if x is not None]
    out = function(*leaves, *(() if bias is not None else (None,)))
    out.backward(grad)  # not autograd.grad, which reentrant checkpoints do not support
    return [out.detach(), *(x.grad for x in leaves)]


def inputs(lengths, dim=16, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    random = functools.partial(torch.randn, generator=generator)
    n, longest = sum(lengths), max(lengths)
    qkv, grad = random(n, 3, HEADS, dim).to(dtype), random(n, HEADS, dim).to(dtype)
    return qkv, random(HEADS, longest, longest), grad


def drawn_seed(seed):
    torch.manual_seed(seed)
    return int(torch.randint(2**62, (1,)))


def sequences_of(lengths):
    padding = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return Sequences((len(lengths), max(lengths)), CPU, padding)


def ours(qkv, bias, lengths, p=0.0, sequences=None):
    sequences = sequences or sequences_of(lengths)
    return ta.TritonAttention(sequences, qkv.dtype, bias)(qkv, scaling=SCALING, dropout=p)


def one_way(bias):
    """A head that sees no later keys, and one that sees no earlier ones."""
    every = torch.ones(bias.shape[1:], dtype=torch.bool)
    return bias.masked_fill(torch.stack([every.triu(1), every.tril(-1)]), HIDDEN)


def compare(lengths, p=0.0, dim=16, change=lambda bias: bias):
    qkv, bias, grad = inputs(lengths, dim)
    bias = change(bias)
    seed = drawn_seed(5) if p else None
    torch.manual_seed(5)
    found = results(lambda *x: ours(*x, lengths, p), qkv, bias, grad)
    exact = [None if x is None else x.double() for x in (qkv, bias)]
    expected = results(lambda *x: equation(*x, lengths, seed, p), *exact, grad.double())
    for name, a, b in zip(("out", "grad_qkv", "grad_bias"), found, expected):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a.double(), b, **CLOSE, msg=lambda x, n=name: f"{n}: {x}")


@pytest.fixture
def bfloat16(monkeypatch):
    """Triton's interpreter multiplies bfloat16 as if they were integers; this corrects it."""
    from triton import language
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def widen(x):
        if x.dtype.scalar != language.bfloat16:
            return x
        return TensorHandle((x.data.astype("uint32") << 16).view("float32"), language.float32)

    dot = InterpreterBuilder.create_dot
    monkeypatch.setattr(
        InterpreterBuilder, "create_dot", lambda self, a, b, *x: dot(self, widen(a), widen(b), *x)
    )


@interpreted
def test_heads_that_look_one_way(bfloat16):
    """Also where a head sees nothing of a tile."""
    lengths = [130, 64]
    compare(lengths, 0.3, change=one_way)
    qkv, bias, _ = inputs(lengths, dtype=torch.bfloat16)
    exact = equation(qkv.double(), one_way(bias).double(), lengths)
    found = ours(qkv, one_way(bias), lengths).double()
    torch.testing.assert_close(found, exact, rtol=0, atol=0.03)


SIZES = cases(
    [([17, 0, 33, 5], 0.3, 16), ([18, 18], 0.0, 16), ([9, 4], 0.3, 8)],  # the second is full
    [([length] * 2, p, 16) for length in (1, 64, 100, 130) for p in (0.0, 0.3)]
    + [
        (lengths, p, 16)
        for lengths in ([1], [130, 1, 64], [17, 0, 100, 33], [16, 128, 128, 5])
        for p in (0.0, 0.3)
    ]
    + [([40, 9], 0.1, dim) for dim in (5, 32, 48, 64, 96, 128)],
)


@interpreted
@pytest.mark.parametrize("lengths, p, dim", SIZES)
def test_outputs_and_gradients(lengths, p, dim):
    compare(lengths, p, dim)


@interpreted
def test_without_a_bias():
    compare([20, 9], 0.2, change=lambda bias: None)


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("tile", [(64, 64), (128, 64), (64, 128), (128, 128)])
def test_tiles(tile, monkeypatch):
    """Results do not depend on the tile, nor does the dropout mask of a seed."""
    monkeypatch.setitem(ta.TILES, (False, 16), ((*tile, 4, 1, 255),) * 4)
    compare([130, 70], 0.2)
    compare([128, 128])  # without masks


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("programs", [1, 1000])
def test_sequences_in_groups(programs, monkeypatch):
    monkeypatch.setattr(ta, "PROGRAMS", programs)
    compare([16] * 7)
    compare([64, 30, 31, 64], 0.1)


# ---- 16 bits ------------------------------------------------------------------------------------


@interpreted
@pytest.mark.parametrize(
    "dtype, p, lengths",
    cases(
        [(torch.bfloat16, 0.2, [20, 9])],
        [(dtype, p, [100, 40]) for dtype in (torch.bfloat16, torch.float16) for p in (0.0, 0.2)],
    ),
)
def test_16_bits(bfloat16, dtype, p, lengths):
    qkv, bias, grad = inputs(lengths, 32, dtype)
    bias = 3 * bias + 1000 * torch.randn(HEADS, max(lengths), 1)  # softmax ignores a constant
    seed = drawn_seed(5)
    torch.manual_seed(5)
    found = results(lambda *x: ours(*x, lengths, p), qkv, bias, grad)
    exact = qkv.double(), bias.double(), grad.double()
    expected = results(lambda *x: equation(*x, lengths, seed, p), *exact)
    eps = torch.finfo(dtype).eps
    for a, b in zip(found, expected):  # measured: up to 1.6 eps of the largest number
        torch.testing.assert_close(a.double(), b, rtol=0, atol=3 * eps * b.abs().max().item())


def test_a_bias_in_16_bits_is_finest_near_the_maximum():
    """ALiBi's rows span hundreds: bfloat16 would resolve only units if the maximum were not 0."""
    bias = 300 - torch.arange(128.0).flip(0).expand(HEADS, 128, 128)
    attention = ta.TritonAttention(Sequences((1, 128), CPU), torch.bfloat16, bias)
    by_query, by_key, *_ = attention.shared
    assert by_query.dtype == torch.float16 and by_query.max() == 0
    found = by_query.float() * torch.log(torch.tensor(2.0))
    torch.testing.assert_close(found, bias - 300, rtol=2**-11, atol=0)
    assert by_key.equal(by_query.transpose(1, 2))


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("hides", [True, False], ids=["hidden keys", "huge past the end"])
def test_extreme_biases(hides):
    lengths = [40, 9]
    qkv, bias, grad = inputs(lengths)
    if hides:
        bias[:, :, 1:].masked_fill_(torch.rand(HEADS, 40, 39) < 0.5, -torch.inf)
        bias[:, 3, :] -= 1e4
    else:
        bias[:, :9, 9:] = bias[:, 9:, :9] = 1e3
    found = results(lambda *x: ours(*x, lengths), qkv, bias, grad)
    exact = qkv.double(), bias.double(), grad.double()
    for a, b in zip(found, results(lambda *x: equation(*x, lengths), *exact)):
        torch.testing.assert_close(a.double(), b, rtol=0, atol=2e-3)  # float32's rounding of 1e4


# ---- Dropout ------------------------------------------------------------------------------------


def test_the_python_mask_drops_as_often_as_asked():
    """test_outputs_and_gradients shows that the kernels' mask is this one."""
    n, p = 512, 0.1
    kept = kept_mask(drawn_seed(3), list(range(8)), n, p).double()
    sigma = (p * (1 - p)) ** 0.5
    assert abs(kept.mean() - (1 - p)) < 5 * sigma / kept.numel() ** 0.5 + 2**-17
    for dims in ((1, 2), (0, 2), (0, 1)):
        means = kept.mean(dims)
        bound = 5 * sigma * (means.numel() / kept.numel()) ** 0.5
        assert (means - (1 - p)).abs().max() < bound
    drop = kept - kept.mean()
    for shift in itertools.product((0, 1), (0, 1, 8), (0, 1, 8, 16)):  # near, or of one Philox call
        if any(shift):
            pairs = drop * drop.roll(shift, (0, 1, 2))
            assert pairs.mean().abs() < 5 * sigma**2 / kept.numel() ** 0.5, shift
    other = kept_mask(drawn_seed(4), list(range(8)), n, p).double()
    assert ((other - other.mean()) * drop).mean().abs() < 5 * sigma**2 / kept.numel() ** 0.5


# ---- Autograd and the compiler ------------------------------------------------------------------


@interpreted
def test_only_the_bias_that_learns_gets_a_gradient(monkeypatch):
    monkeypatch.setattr(ta, "bias_kernel", None)
    qkv, bias, grad = inputs([20])
    out = ours(qkv.requires_grad_(), bias, [20])
    assert torch.autograd.grad(out, qkv, grad)[0].isfinite().all()
    with torch.no_grad():
        assert ours(qkv, bias, [20]).equal(out) and not ours(qkv, bias, [20]).requires_grad


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing(use_reentrant):
    from torch.utils.checkpoint import checkpoint

    qkv, bias, grad = inputs([20])
    again = functools.partial(checkpoint, use_reentrant=use_reentrant)
    runs = []
    for wrap in (lambda f, *x: f(*x), again):
        torch.manual_seed(7)
        attend = functools.partial(wrap, lambda *x: ours(*x, [20], 0.2))
        runs.append(results(attend, qkv, bias, grad))
    assert all(a.equal(b) for a, b in zip(*runs))


@interpreted
def test_nothing_large_is_kept():
    n = 20
    qkv, bias, _ = inputs([n, n])
    sequences, saved = sequences_of([n, n]), []
    leaves = qkv.requires_grad_(), bias.requires_grad_()
    attention = ta.TritonAttention(sequences, qkv.dtype, bias)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        attention(qkv, scaling=SCALING, dropout=0.1)
    shared = {x.data_ptr() for x in (*leaves, *attention.shared[:4])}
    own = [x for x in saved if x.data_ptr() not in shared]
    assert sum(x.numel() for x in own) <= qkv.numel() * 4 // 3 + HEADS * 2 * n + 1


@interpreted
def test_queries_and_keys_wider_than_values():
    """pope's values have K numbers, its queries and keys 2 K; the results are those of eager."""
    config = TupeConfig(
        12, 3, num_layers=1, ffn_embed_dim=5, position_encoding="pope", dropout=0.0,
        attention_dropout=0.0, attn_impl="eager",
    )  # fmt: skip
    eager, x = TupeEncoder(config), torch.randn(2, 7, 12)
    ours = TupeEncoder(dataclasses.replace(config, attn_impl="triton"))
    ours.load_state_dict(eager.state_dict())
    outputs = [encoder(x) for encoder in (eager, ours)]
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=2e-5)  # float32
    for out in outputs:
        (out * x.sin()).sum().backward()
    for a, b in zip(ours.parameters(), eager.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-4)


def test_what_it_refuses(monkeypatch):
    """Some is refused when the encoder is built; triton reads TRITON_INTERPRET on import."""
    config = TupeConfig(embed_dim=8, num_layers=1, ffn_embed_dim=3, attn_impl="triton")
    for options, reason in (
        ({"position_encoding": "shaw"}, "this position encoding reads the words"),
        ({"embed_dim": 264}, "a head_dim up to 128, not 132"),
        ({"embed_dim": 136, "position_encoding": "pope"}, "a head_dim up to 128, not 136"),
    ):
        with pytest.raises(ValueError, match=f"triton cannot .*{reason}.*; use auto"):
            TupeEncoder(dataclasses.replace(config, **options))
    encoder, x = TupeEncoder(config), torch.zeros(1, 5, 8)
    with pytest.raises(ValueError, match="triton cannot .*the tensors are float64; use"):
        encoder.double()(x.double())
    monkeypatch.setattr(ta, "IS_INTERPRETED", False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match="runs on GPUs only, but the tensors are on cpu"):
        encoder.float()(x)


# ---- Machine code for capability 9.0, without a GPU ---------------------------------------------

TYPES = {"lse": "*fp32", "stats": "*fp32", "grad_bias": "*fp32", "bias": "*fp16", "spans": "*i32",
         "counts": "*i32", "seed": "*i64", "scale": "fp32"}  # fmt: skip
NAMES = ("forward", "grad_q", "grad_kv", "grad_bias")


def compiled(number, dim=64, dropout=True, mask=False, has_bias=True, half=True, tile=None):
    """Compile a kernel of TILES; returns what ptxas and cuobjdump report."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = (ta.forward_kernel, ta.gradient_kernel, ta.gradient_kernel, ta.bias_kernel)[number]
    block_q, block_k, warps, stages, registers = tile or ta.TILES[half, dim][number]
    constants = {"HEADS": 12, "DIM": dim, "DROPOUT": dropout, "MASK": mask, "BLOCK_Q": block_q,
                 "BLOCK_K": block_k, "BY_KEY": number == 2}  # fmt: skip
    constants |= {} if dropout else {"seed": None}
    constants |= {} if has_bias else {"bias": None}
    wide = {} if half else {"bias": "*fp32"}
    tensor = {"qkv", "out", "grad_out", "grad_qkv"}
    signature = {
        name: "constexpr" if name in constants
        else ("*bf16" if half else "*fp32") if name in tensor
        else {**TYPES, **wide}.get(name, "i32")
        for name in kernel.arg_names
    }  # fmt: skip
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(kernel.arg_names) if signature[name].startswith("*")
    }  # fmt: skip
    given = {(kernel.arg_names.index(x),): y for x, y in constants.items() if x in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=given, attrs=aligned)
    options = {"num_warps": warps, "num_stages": stages, "maxnreg": registers}
    binary = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        cubin, ptx = Path(folder, "a.cubin"), Path(folder, "a.ptx")
        cubin.write_bytes(binary.asm["cubin"])
        ptx.write_text(binary.asm["ptx"])
        run = functools.partial(subprocess.run, capture_output=True, text=True)
        usage = run([tools / "cuobjdump", "--dump-resource-usage", cubin]).stdout
        remarks = run([tools / "ptxas", "-v", "--gpu-name=sm_90a", ptx, "-o", "/dev/null"]).stderr
    registers, stack = map(int, re.search(r"REG:(\d+) STACK:(\d+)", usage).groups())
    return {
        "registers": registers,
        "stack": stack,
        "shared": binary.metadata.shared,
        "serialized": "serialized" in remarks,
        "wgmma": "wgmma" in binary.asm["ptx"],
    }


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled in the interpreter")
@pytest.mark.parametrize("number", range(4), ids=NAMES)
class TestCompiled:
    @pytest.mark.parametrize("dropout", [False, True], ids=["p0", "dropout"])
    @pytest.mark.parametrize("mask", [False, True], ids=["full", "packed"])
    @pytest.mark.parametrize("dim", [64, 32])
    def test_as_used(self, number, dropout, mask, dim):
        about = compiled(number, dim, dropout, mask)
        assert about["wgmma"] and not about["serialized"]  # tensor cores, products that overlap
        assert about["stack"] <= 160  # bytes of spilled registers: 96 with 3.7.1, 136 with 3.9.0
        assert about["shared"] < 227 * 1024

    @pytest.mark.parametrize(
        "options",
        [{"dim": 16}, {"dim": 128}, {"dim": 128, "mask": True}, {"has_bias": False, "mask": True},
         {"half": False, "mask": True}, {"half": False, "dim": 128}],
        ids=str,
    )  # fmt: skip
    def test_others(self, number, options):
        about = compiled(number, **options)
        assert about["stack"] < 400 and about["shared"] < 227 * 1024
