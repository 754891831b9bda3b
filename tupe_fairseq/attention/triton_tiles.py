"""How the Triton kernels cut their work."""

from typing import Dict


def _tiles(forward, grad_q, grad_kv, grad_bias) -> Dict[str, Dict[str, int]]:
    """The constants of each kernel, from (queries, keys, number of warps, stages of its loop)."""
    tiles = {
        "forward_kernel": forward,
        "grad_q_kernel": grad_q,
        "grad_kv_kernel": grad_kv,
        "grad_bias_kernel": grad_bias,
    }
    return {
        name: dict(zip(("BLOCK_Q", "BLOCK_K", "num_warps", "num_stages"), tile))
        for name, tile in tiles.items()
    }


# By whether elements have 16 bits, the head_dim is above 64, and the bias is in factors.
# Untimed: what Triton 3.9, asked for capability 9.0, compiles with hardly a register spilled and
# in less than the 99 KiB of shared memory that smaller GPUs have.  Keys are a multiple of 16.
TILES = {
    (True, False, False): _tiles((128, 64, 8, 2), (128, 64, 8, 2), (64, 64, 4, 2), (64, 64, 4, 2)),
    (True, False, True): _tiles((128, 32, 8, 2), (64, 32, 4, 2), (64, 64, 4, 1), (64, 64, 4, 2)),
    (True, True, False): _tiles((64, 32, 4, 2), (64, 32, 4, 2), (64, 32, 4, 2), (64, 32, 4, 2)),
    (True, True, True): _tiles((64, 32, 4, 1), (64, 32, 4, 1), (32, 32, 4, 2), (64, 32, 4, 2)),
    # full float32 products, which are not for the tensor cores; with two stages, grad_kv spilled
    # kilobytes of registers
    (False, False, False): _tiles((32, 32, 4, 2), (32, 32, 4, 2), (32, 32, 4, 1), (32, 32, 4, 2)),
    (False, False, True): _tiles((32, 32, 4, 2), (32, 32, 4, 2), (32, 32, 4, 1), (32, 32, 4, 2)),
    (False, True, False): _tiles((32, 32, 8, 2), (32, 32, 8, 2), (32, 32, 8, 1), (32, 32, 8, 2)),
    (False, True, True): _tiles((32, 32, 8, 2), (32, 32, 8, 1), (32, 32, 8, 1), (32, 32, 8, 2)),
}
