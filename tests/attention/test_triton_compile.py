"""The kernels compile for an absent GPU, in a separate process."""

import os
import sys
import types
from typing import List, NamedTuple, Optional, Tuple, Union

import torch
from tupe_fairseq.attention.triton import triton_attention

from helpers.triton_cases import needs_triton, padded
from tupe_fairseq.attention import Bias


@needs_triton
def test_they_compile_for_hopper(run, request, tmp_path):
    number = len(REQUESTS) if request.config.getoption("--thorough") else 2
    out = run(sys.executable, __file__, tmp_path, number).stdout
    compiled = [line.split() for line in out.splitlines() if line.startswith("compiled ")]
    assert len(compiled) == sum(len(request.kernels) for request in REQUESTS[:number]), out
    for _, name, shared_bytes, num_wgmma, num_mma, bits, is_wide in compiled:
        assert int(shared_bytes) <= 99 * 1024, name
        # the tensor cores of this generation, and no silent fall back from them; the one before's
        # for one kernel alone, whose tiles are too small where wide heads have a bias in factors
        is_small = name == "grad_kv_kernel" and is_wide == "True"
        on_tensor_cores = int(num_mma if is_small else num_wgmma) > 0
        assert on_tensor_cores == (bits == "16" and name != "delta_kernel"), name


class Request(NamedTuple):
    """``bias``: None, "whole", or in factors the number of columns beyond those of a head."""

    dtype: torch.dtype
    heads: int
    length: int
    head_dim: int
    dropout: float
    lengths: Optional[List[int]]
    bias: Union[None, str, int]
    kernels: Tuple[str, ...]


OF_BIAS = "forward", "delta", "grad_q", "grad_kv", "grad_bias"
REQUESTS = [
    Request(torch.bfloat16, 12, 512, 64, 0.1, [512, 100], "whole", OF_BIAS),
    # the others have the same parts
    Request(torch.bfloat16, 12, 512, 64, 0.1, [512, 100], 2, ("grad_kv",)),
    Request(torch.bfloat16, 12, 512, 64, 0.1, [512, 100], 2, ("forward", "grad_q", "grad_bias")),
    Request(torch.bfloat16, 16, 37, 128, 0.0, None, "whole", OF_BIAS),
    Request(torch.bfloat16, 16, 512, 128, 0.1, [512, 100], 2, OF_BIAS),
    Request(torch.float32, 2, 40, 16, 0.1, None, 2, OF_BIAS),
    Request(torch.float32, 1, 1, 5, 0.0, None, 2, OF_BIAS),
    Request(torch.float32, 2, 1, 5, 0.1, None, None, OF_BIAS[:-1]),
]


def compile_all(cache, requests):
    """Run the host side on the CPU with kernels that are compiled for capability 9.0 only."""
    os.environ["TRITON_CACHE_DIR"] = cache
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    from tupe_fairseq.attention import triton_kernels

    class Compiled:
        def __init__(self, name):
            self.name, self.kernel = name, getattr(triton_kernels, name)

        def __getitem__(self, grid):
            return self.compile

        def compile(self, **arguments):
            if self.name not in wanted:
                return
            bits = 8 * arguments["out_ptr" if "out_ptr" in arguments else "q_ptr"].element_size()
            done = self.kernel.warmup(grid=(1,), **arguments)
            used = [done.asm["ptx"].count(name) for name in ("wgmma.mma_async", "mma.sync")]
            is_wide = arguments.get("factors_ptr") is not None and arguments["HEAD_DIM"] > 64
            print("compiled", self.name, done.metadata.shared, *used, bits, is_wide)

    target = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
    )
    driver.set_active(target)
    for name in [name for name in dir(triton_kernels) if name.endswith("_kernel")]:
        setattr(triton_kernels, name, Compiled(name))
    wanted = set()
    for request in requests:
        wanted.clear()
        wanted.update(f"{name}_kernel" for name in request.kernels)
        heads, length, head_dim = request.heads, request.length, request.head_dim
        batch = 1 if length == 1 else 2
        qkv = torch.zeros(batch, length, 3, heads, head_dim, dtype=request.dtype)
        padding = None
        if request.lengths is not None:
            padding = padded(request.lengths, pack=True)
            qkv = padding.pack(qkv)
        bias = None
        if request.bias == "whole":
            bias = Bias(torch.zeros(heads, length, length, requires_grad=True))
        elif request.bias is not None:
            factors = torch.zeros(2, heads, length, head_dim + request.bias).unbind()
            by_distance = torch.zeros(heads, 2 * length - 1, requires_grad=True)
            bias = Bias.of_factors(*factors, by_distance, spares_first=True)
        q, k, v = qkv.requires_grad_().unbind(-3)
        out = triton_attention(q, k, v, bias, padding, scaling=0.4, dropout=request.dropout)
        out.sum().backward()


if __name__ == "__main__":
    compile_all(sys.argv[1], REQUESTS[: int(sys.argv[2])])
