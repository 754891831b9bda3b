"""What the Triton kernels do not support."""

import functools
import os
from typing import Optional

import torch
from torch import Tensor

from tupe_fairseq.attention.bias import Bias, shared_bias_refusal
from tupe_fairseq.attention.kernel_bias import dotted_columns, padded_width
from tupe_fairseq.attention.padding import Padding

# 3.2, 3.7 and 3.9 compile the kernels for capability 9.0; 3.0 crashes on one of them
MIN_TRITON = (3, 2)
MIN_CAPABILITY = (8, 0)
MAX_HEAD_DIM = 128
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def triton_refusal(
    q: Tensor, attn_bias: Optional[Bias], padding: Optional[Padding]
) -> Optional[str]:
    """Why ``triton_attention`` cannot serve this request; None if it can."""
    layout = None if attn_bias is None else attn_bias.layout
    width = 0 if layout is None else dotted_columns(layout.width)
    if os.environ.get("TRITON_INTERPRET") != "1":
        if not q.is_cuda:
            return f"triton runs on CUDA devices only, and the tensors are on {q.device.type}"
        capability = torch.cuda.get_device_capability(q.device)
        if capability < MIN_CAPABILITY:
            least, found = (".".join(map(str, pair)) for pair in (MIN_CAPABILITY, capability))
            return f"its kernels need CUDA devices of capability {least}, and this one has {found}"
    elif q.dtype == torch.bfloat16 or (q.dtype == torch.float16 and width):  # factors in two parts
        return "triton's interpreter (TRITON_INTERPRET=1) cannot multiply bfloat16 numbers"
    if q.dtype not in DTYPES:
        return f"its kernels take float32, float16 and bfloat16, not {q.dtype}"
    if q.size(-1) > MAX_HEAD_DIM:
        return f"its kernels take a head_dim of at most {MAX_HEAD_DIM}, not {q.size(-1)}"
    if width > padded_width(q.size(-1)):
        return f"its tiles have no room for {width} columns of a bias at a head_dim of {q.size(-1)}"
    return shared_bias_refusal(q, attn_bias, padding) or _library_refusal()


@functools.lru_cache(maxsize=None)
def _library_refusal() -> Optional[str]:
    try:
        import triton
    except ImportError:
        return "triton is not installed"
    if tuple(int(number) for number in triton.__version__.split(".")[:2]) < MIN_TRITON:
        return f"triton is {triton.__version__}, older than {'.'.join(map(str, MIN_TRITON))}"
    return None
