"""Checks and benchmarks on a GPU: is attention right and fast, and what makes a step fast?

    python scripts/benchmarks/gpu.py                            # the first four parts: 6.5 minutes
    python scripts/benchmarks/gpu.py --parts tiles,compile      # 7 minutes
    TRITON_INTERPRET=1 python scripts/benchmarks/gpu.py --smoke --parts all    # tiny, on a CPU

check    triton's outputs and gradients against float64: full and packed, with dropout, three dtypes
ops      attention alone, compared with flash and cuDNN without a bias
steps    a training step and inference of a base-size encoder with a tied LM head; tokens/s and MFU
profile  the kernels of a step
tiles    attention with a different tile for one of its four kernels
compile  steps with torch.compile of the feed-forward half, of each layer, of the whole encoder

Needs torch, triton and this repository, not fairseq. Each part is a process with a time limit. The
table is printed last; gpu.jsonl and profiles go to $OUT, or to the current folder.
"""

import argparse
import contextlib
import functools
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from flops import peak_flops, training_flops

LIMITS = {"check": 100, "ops": 110, "steps": 130, "profile": 50, "tiles": 170, "compile": 240}
OUT, REPO = Path(os.environ.get("OUT", ".")), Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(list(LIMITS)[:4]), help="%(default)s; or all")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--seconds", type=int, default=560, help="limit for all parts together")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, on the CPU")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run_part(options.child, options)
    end, file = time.monotonic() + options.seconds, OUT / "gpu.jsonl"
    file.write_text("")
    for part in LIMITS if options.parts == "all" else options.parts.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], "--child", part]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=min(LIMITS[part], max(1, end - time.monotonic())))
    print(*map(show, map(json.loads, file.read_text().splitlines())), sep="\n")
    return 0


def show(case):
    part, name, value = case
    if isinstance(value, dict):
        value = "  ".join(f"{k} {v:.4g}" if v is not True else k for k, v in value.items())
    return f"{part:8} {name:55} {value}"


# ---- In a process of its own: the cases of a part ------------------------------------------------


def run_part(part, options):
    sys.path.insert(0, str(REPO))
    global DEVICE, SMOKE, torch, Sequences, SDPBackend, sdpa_kernel
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from tupe_fairseq.attention.sequences import Sequences

    SMOKE, DEVICE = options.smoke, torch.device("cpu" if options.smoke else "cuda")

    def stop(*_):
        raise TimeoutError("took more than half of the part's time")

    signal.signal(signal.SIGALRM, stop)
    for name, case in [case for case in PARTS[part]() if options.only in case[0]]:
        signal.alarm(LIMITS[part] // 2)
        try:
            value = case()
        except Exception as error:  # of a compiler or the driver: go on with the next case
            value = f"FAILED {type(error).__name__}: {error}".replace("\n", " ")[:300]
        signal.alarm(0)
        print(show((part, name, value)), flush=True)
        with (OUT / "gpu.jsonl").open("a") as stream:
            stream.write(json.dumps([part, name, value]) + "\n")
    return 0


def milliseconds(function, clear=()):
    """The time of a call, kernels only; the gradients of ``clear`` are dropped before each call."""

    def run(times):
        for _ in range(times):
            for x in clear:
                x.grad = None
            function()

    if SMOKE:
        begin = time.perf_counter()
        run(1)
        return (time.perf_counter() - begin) * 1e3
    run(3)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        run(10)
        torch.cuda.synchronize()
    events = [x for x in prof.key_averages() if x.device_type.name == "CUDA"]
    return sum(x.self_device_time_total for x in events) / 10e3


def of_name(name):
    """The implementation of attention, and a context; flash and cuDNN are torch's, without bias."""
    if name in ("flash", "cuDNN"):
        kernel = getattr(SDPBackend, f"{name.upper()}_ATTENTION" if not SMOKE else "MATH")
        return "sdpa", lambda: sdpa_kernel([kernel])
    return name, contextlib.nullcontext


def attend_by(name):
    def attend(qkv, bias, sequences, **options):
        return class_of(name)(sequences, qkv.dtype, bias)(qkv, **options)

    return attend


def class_of(name):
    name = of_name(name)[0]
    place = "base" if name in ("eager", "sdpa") else name
    module = importlib.import_module(f"tupe_fairseq.attention.{place}")
    return getattr(module, f"{name.capitalize()}Attention")


# ---- check ---------------------------------------------------------------------------------------


def check():
    def compare(dtype, lengths, p, heads, dim):
        n, longest, run = sum(lengths), max(lengths), functools.partial(torch.randn, device=DEVICE)
        qkv, grad = run(n, 3, heads, dim).to(dtype), run(n, heads, dim).to(dtype)
        bias = run(heads, longest, longest) + 5 * run(heads, longest, 1)
        padding = torch.arange(longest) >= torch.tensor(lengths)[:, None]
        scaling, shape = (2 * dim) ** -0.5, (len(lengths), longest)

        def run(qkv, bias):
            torch.manual_seed(7)
            sequences = Sequences(shape, DEVICE, padding.to(DEVICE))
            return attend_by("triton")(qkv, bias, sequences, scaling=scaling, dropout=p)

        def with_gradients(function, dtype, bias_dtype):
            leaves = [
                x.clone().to(y).requires_grad_() for x, y in ((qkv, dtype), (bias, bias_dtype))
            ]
            out = function(*leaves)
            out.backward(grad.to(dtype))
            return [out.detach(), *leaves[0].grad.unbind(1), leaves[1].grad]

        # the dropout mask: the outputs for values that are 1 at one key and 0 at the others
        places, kept = torch.cat([torch.arange(x) for x in lengths]).to(DEVICE), []
        for start in range(0, longest, dim):
            one_key = qkv.clone()
            keys = torch.arange(start, start + dim, device=DEVICE)
            one_key[:, 2] = (places[:, None] == keys)[:, None]
            kept.append(run(one_key, bias).detach() != 0)
        kept = torch.cat(kept, dim=-1) if p else None

        def exactly(qkv, bias):
            outs, start = [], 0
            for length in lengths:
                q, k, v = qkv[start : start + length].permute(1, 2, 0, 3)
                probs = (scaling * q @ k.mT + bias[:, :length, :length]).softmax(-1)
                if p:
                    rows = kept[start : start + length, :, :length].transpose(0, 1)
                    probs = probs * rows / (1 - round(p * 2**16) / 2**16)
                outs.append((probs @ v).transpose(0, 1))
                start += length
            return torch.cat(outs)

        first, again = (with_gradients(run, dtype, torch.float32) for _ in range(2))
        expected = with_gradients(exactly, torch.float64, torch.float64)
        names = ("out", "dq", "dk", "dv", "dbias")
        errors = {
            name: ((a.double() - b).norm() / b.norm()).item()
            for name, a, b in zip(names, first, expected)
        }
        most = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 1e-2}[dtype]
        repeats = all(map(torch.equal, first, again))
        is_right = repeats and all(error < most for error in errors.values())
        share = {"dropped": 1 - kept[:, :, : min(lengths)].float().mean().item()} if p else {}
        return {"OK" if is_right else "WRONG": most, **errors, "repeats": float(repeats), **share}

    def machine():
        x, y = torch.randn(8192, 8192, device=DEVICE).bfloat16(), torch.empty(2**30, device=DEVICE)
        product, copy = milliseconds(lambda: x @ x), milliseconds(y.clone)
        rates = {"TFLOP/s": 2 * 8192**3 / product / 1e9, "TB/s": 8 * 2**30 / copy / 1e9}
        return {torch.cuda.get_device_name(): True, f"torch {torch.__version__}": True, **rates}

    shapes = {"4 x 512": [512] * 4, "3 x 100": [100] * 3, "packed": [512, 1, 77, 300, 512],
              "256 short": [(7 * n) % 43 + 1 for n in range(256)]}  # fmt: skip
    dtypes, heads, dims = (torch.bfloat16, torch.float16, torch.float32), 12, (64, 32, 128)
    if SMOKE:
        shapes, dtypes, heads, dims = {"packed": [9, 20, 1]}, dtypes[2:], 2, (16,)
    else:
        yield "machine", machine
    for dtype, (name, lengths), p in itertools.product(dtypes, shapes.items(), (0.0, 0.1)):
        case = functools.partial(compare, dtype, lengths, p, heads, dims[0])
        yield f"{dtype} {name} p {p}", case
    for dim in dims[1:]:
        yield f"head_dim {dim}", functools.partial(compare, dtypes[0], [200, 512], 0.1, heads, dim)


# ---- ops and tiles -------------------------------------------------------------------------------

SHAPES = [(32, 512), (128, 128), (8, 2048), (4, 4096)]


def time_attention(name, shape, p, inference=True):
    batch, length = (2, 40) if SMOKE else shape
    heads, dim, dtype = (2, 16, torch.float32) if SMOKE else (12, 64, torch.bfloat16)
    random = functools.partial(torch.randn, device=DEVICE)
    qkv = random(batch * length, 3, heads, dim).to(dtype).requires_grad_()
    grad, bias = random(batch * length, heads, dim).to(dtype), None
    if name not in ("flash", "cuDNN"):
        bias = random(heads, length, length)
    sequences = Sequences((batch, length), DEVICE)
    attention = class_of(name)(sequences, dtype, bias)  # once for all layers
    mask = attention.bias if name == "triton" else attention.masks[0]
    mask = mask if mask is None else mask.requires_grad_()
    run = functools.partial(attention, qkv, scaling=dim**-0.5)
    with of_name(name)[1]():
        if inference:
            with torch.no_grad():
                inference = milliseconds(lambda: run(dropout=0.0))
        leaves = [qkv] if mask is None else [qkv, mask]
        both = milliseconds(lambda: run(dropout=p).backward(grad), leaves)
    flops = 14 * batch * heads * length**2 * dim
    return {"inference ms": inference, "train ms": both, "TFLOP/s": flops / both / 1e9}


def ops():
    for shape, p in itertools.product(SHAPES[: 1 if SMOKE else None], (0.1, 0.0)):
        for name in ("flash", "cuDNN", "sdpa", "triton"):
            yield f"{shape} p {p} {name}", functools.partial(time_attention, name, shape, p)


def tiles():
    """TILES has a tile for each kernel: forward, dq, dk and dv, dbias."""
    triton = importlib.import_module("tupe_fairseq.attention.triton")
    key = (False, 16) if SMOKE else (True, 64)  # 16 bits?, head_dim
    own = triton.TILES[key]
    wide = [(128, 64, 8), (128, 64, 4), (64, 64, 4), (64, 128, 4), (128, 128, 8), (128, 32, 4)]
    long = [(64, 128, 8), (32, 128, 8), (32, 128, 4), (64, 64, 4), (32, 64, 4)]  # rows are keys

    def other(number, tile, p):
        triton.TILES[key] = tuple(tile if n == number else x for n, x in enumerate(own))
        try:
            return time_attention("triton", (32, 512), p, inference=False)
        finally:
            triton.TILES[key] = own

    for p in (0.1, 0.0):
        yield f"p {p} own {own}", functools.partial(other, 0, own[0], p)
        for number, name in enumerate(("forward", "dq", "dkdv", "dbias")):
            shapes = [(32, 32, 4)] if SMOKE else long if name == "dkdv" else wide
            more = [(1, 255)] if SMOKE else [(2, 128), (2, 255), (3, 255)]  # stages, registers
            for tile in [(*a, *b) for a in shapes for b in more if a[2] == 8 or b[1] == 255]:
                yield f"p {p} {name} {tile}", functools.partial(other, number, tile, p)


# ---- steps, profile and compile ------------------------------------------------------------------


def make_step(name, shape, train=True, dropout=0.1, padded=False, fused=True, compiled=None):
    """A step of a base-size encoder with a tied LM head, and its FLOPs."""
    import torch.nn.functional as F
    from torch import nn

    from tupe_fairseq.encoder import TupeEncoder
    from tupe_fairseq.modules.heads import LMHead
    from tupe_fairseq.options import TupeConfig

    layers, dim, heads, vocab, shape = 12, 768, 12, 50265, shape
    if SMOKE:
        layers, dim, heads, vocab, shape = 2, 32, 2, 100, (4, 32)
    implementation, kernels = of_name(name)
    encoding = {"rel_pos": True} if name == implementation else {"position_encoding": "none"}
    config = TupeConfig(
        embed_dim=dim, num_heads=heads, num_layers=layers, ffn_embed_dim=4 * dim, dropout=dropout,
        attention_dropout=dropout, attn_impl=implementation, **encoding,
    )  # fmt: skip
    with DEVICE:
        encoder, words = TupeEncoder(config), nn.Embedding(vocab, dim)
        head, tokens = LMHead(dim, vocab, "gelu", words.weight), torch.randint(4, vocab, shape)
        masked = torch.randperm(tokens.numel())[: int(0.15 * tokens.numel())].sort().values
        quarters = torch.arange(shape[0])[:, None] % 4  # 0, 1/6, 1/3 or 1/2 padding
        padding = torch.arange(shape[1]) >= shape[1] * (1 - quarters / 6) if padded else None
    model = nn.ModuleList([encoder, words, head]).train(train)
    model.to(torch.float32 if SMOKE else torch.bfloat16)
    how = {"dynamic": False, "backend": "aot_eager" if SMOKE else "inductor"}
    for layer in encoder.layers if compiled in ("all but attention", "layers") else []:
        if compiled == "all but attention":
            layer.self_attn.forward = torch.compiler.disable(layer.self_attn.forward)
        layer.compile(**how)
    if compiled == "encoder":
        encoder.compile(**how)
    # without fused: a loop over parameters, as fairseq's Adam
    adam = torch.optim.AdamW(model.parameters(), eps=1e-6, fused=fused, foreach=False)

    def step():
        with kernels(), torch.set_grad_enabled(train):
            x = encoder(words(tokens), padding, output_tokens=masked if train else None)
            if train:
                F.cross_entropy(head(x).float(), tokens.flatten()[masked]).backward()
        if train:
            adam.step()
            adam.zero_grad()

    of_token = training_flops(layers, dim, 4 * dim, vocab, shape[1], 0.15)
    return step, tokens.numel(), of_token if train else 0.0


def time_step(*arguments, **options):
    step, tokens, of_token = make_step(*arguments, **options)
    for _ in range(1 if SMOKE else 4):
        step()
    if SMOKE:
        return {"ms": milliseconds(step)}
    torch.cuda.reset_peak_memory_stats()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(13)]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    host = (time.perf_counter() - begin) / 12
    torch.cuda.synchronize()
    wall = (time.perf_counter() - begin) / 12
    times = sorted(a.elapsed_time(b) for a, b in itertools.pairwise(marks))
    values = {"ms": times[6], "from": times[0], "to": times[-1], "host ms": 1e3 * host}
    values["ktokens/s"] = tokens / wall / 1e3
    if peak := peak_flops(torch.cuda.get_device_name()):
        values["MFU"] = tokens / wall * of_token / peak
    return {**values, "GiB": torch.cuda.max_memory_allocated() / 2**30}


def steps():
    names, base, large = ("flash", "sdpa", "triton"), (32, 512), (128, 512)
    for name in names:
        for words, options in {
            "training": {},
            "training, unfused Adam": {"fused": False},
            "training, no dropout": {"dropout": 0.0},
            "inference": {"train": False},
            "inference, a quarter padding": {"train": False, "padded": True},
        }.items():
            yield f"{base} {name} {words}", functools.partial(time_step, name, base, **options)
        for shape in (large, (128, 128)):
            yield f"{shape} {name} training", functools.partial(time_step, name, shape)


def compiles():
    for name, pieces in (
        ("triton", ("encoder", "layers", "all but attention")),
        ("flash", ("encoder", "all but attention")),
        ("sdpa", ("all but attention", "encoder")),
    ):
        for piece in pieces:
            case = functools.partial(time_step, name, (32, 512), compiled=piece)
            yield f"(32, 512) {name} training, compiled: {piece}", case


def profile():
    def table(name):
        step, *_ = make_step(name, (32, 512))
        step()
        with torch.profiler.profile() as prof:
            for _ in range(1 if SMOKE else 3):
                step()
        by = "self_cpu_time_total" if SMOKE else "self_cuda_time_total"
        text = prof.key_averages().table(sort_by=by, row_limit=40, max_name_column_width=90)
        (OUT / f"profile_{name}.txt").write_text(text + "\n")
        print("\n".join(line[:150] for line in text.splitlines()[:24]))
        return f"profile_{name}.txt"

    for name in ("triton", "sdpa"):
        yield name, functools.partial(table, name)


PARTS = {"check": check, "ops": ops, "steps": steps, "profile": profile, "tiles": tiles}
PARTS["compile"] = compiles

if __name__ == "__main__":
    sys.exit(main())
