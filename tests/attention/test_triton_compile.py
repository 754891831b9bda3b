"""The kernels compile for an absent GPU, in a separate process."""

import os
import sys
import types

import torch

from helpers.attention_cases import as_bias
from helpers.triton_cases import needs_triton, padded
from tupe_fairseq.attention.triton import triton_attention


@needs_triton
def test_they_compile_for_hopper(run, request, tmp_path):
    is_thorough = request.config.getoption("--thorough")
    out = run(sys.executable, __file__, tmp_path, len(REQUESTS) if is_thorough else 1).stdout
    compiled = [line.split() for line in out.splitlines() if line.startswith("compiled ")]
    # the last request has no bias and no gradient of it
    assert len(compiled) == (2 * 5 + 4 if is_thorough else 5), out
    for _, name, shared_bytes, num_wgmma, bits in compiled:
        assert int(shared_bytes) <= 99 * 1024, name
        # the tensor cores of this generation, and no silent fall back from them
        assert (int(num_wgmma) > 0) == (bits == "16" and name != "delta_kernel"), name


# dtype, heads, length, size of a head, dropout, lengths
REQUESTS = [
    (torch.bfloat16, 12, 512, 64, 0.1, [512, 100]),
    (torch.bfloat16, 16, 37, 128, 0.0, None),
    (torch.float32, 2, 1, 5, 0.1, None),
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
            bits = 8 * arguments["out_ptr" if "out_ptr" in arguments else "q_ptr"].element_size()
            done = self.kernel.warmup(grid=(1,), **arguments)
            num_wgmma = done.asm["ptx"].count("wgmma.mma_async")
            print("compiled", self.name, done.metadata.shared, num_wgmma, bits)

    target = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
    )
    driver.set_active(target)
    for name in [name for name in dir(triton_kernels) if name.endswith("_kernel")]:
        setattr(triton_kernels, name, Compiled(name))
    for dtype, num_heads, seq_len, head_dim, dropout, lengths in requests:
        batch = 1 if seq_len == 1 else 2
        qkv = torch.zeros(batch, seq_len, 3, num_heads, head_dim, dtype=dtype)
        padding = None
        if lengths is not None:
            padding = padded(lengths, pack=True)
            qkv = padding.pack(qkv)
        bias = None
        if seq_len > 1:
            bias = torch.zeros(num_heads, seq_len, seq_len, requires_grad=True)
        qkv.requires_grad_()
        out = triton_attention(
            *qkv.unbind(-3), as_bias(bias), padding, scaling=0.4, dropout=dropout
        )
        out.sum().backward()


if __name__ == "__main__":
    compile_all(sys.argv[1], REQUESTS[: int(sys.argv[2])])
