"""Checks of GPUs, and of a step of training on each device."""

import glob
from collections.abc import Iterator

from tupe_fairseq.doctor.finding import ERROR, OK, WARNING, Finding, brief

_LENGTH, _HEADS = 256, 2


def check_devices() -> Iterator[Finding]:
    """Train a small model for one step on each device that torch can use."""
    import torch

    yield _attention("cpu", "cpu", torch.float32)
    yield _gpus(torch)
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            device = f"cuda:{number}"
            is_new = torch.cuda.get_device_capability(device) >= (8, 0)
            dtype = torch.bfloat16 if is_new else torch.float16
            yield _attention(device, torch.cuda.get_device_name(device), dtype)


def _gpus(torch) -> Finding:
    built = torch.version.cuda or getattr(torch.version, "hip", None)
    found = f"torch {torch.__version__}, built for {f'CUDA {built}' if built else 'the CPU'}"
    if torch.cuda.is_available():
        return Finding("gpu", OK, f"{found}, {torch.cuda.device_count()} to use")
    if not glob.glob("/dev/nvidia[0-9]*"):
        return Finding("gpu", OK, f"{found}; this machine has none, so training needs --cpu")
    if built is None:
        command = "pip install --force-reinstall torch (without an index of builds for the CPU)"
        return Finding("gpu", WARNING, found, "this machine has one that is not used", command)
    wrong = f"this machine has one that torch cannot use: {_reason(torch)}"
    command = f"nvidia-smi (it must have a driver for CUDA {built}, or torch be older)"
    return Finding("gpu", WARNING, found, wrong, command)


def _reason(torch) -> str:
    try:
        torch.cuda.init()
    except Exception as error:  # of many kinds
        return brief(error)
    return "torch.cuda.is_available() is False"


def _attention(device: str, name: str, dtype) -> Finding:
    """One step of training of one layer."""
    import torch

    from tupe_fairseq.encoder import TupeEncoder
    from tupe_fairseq.options import TupeConfig

    check = f"attention on {device}"
    config = TupeConfig(
        embed_dim=64 * _HEADS, num_heads=_HEADS, num_layers=1, ffn_embed_dim=64,
        max_positions=_LENGTH,
    )  # fmt: skip
    try:
        encoder = TupeEncoder(config).to(device, dtype).train()
        x = torch.zeros(2, _LENGTH, 64 * _HEADS, device=device, dtype=dtype)
        loss = encoder(x).float().sum()
        loss.backward()
        is_finite = bool(torch.isfinite(loss))
    except Exception as error:  # such as a GPU that this torch has no kernels for
        wrong = f"a step of training fails: {brief(error)}"
        return Finding(check, ERROR, name, wrong, "pip install --upgrade torch")
    if not is_finite:
        wrong = "a step of training gives NaN"
        return Finding(check, ERROR, name, wrong, "fairseq-train ... --attn-impl eager")
    found = f"{name}, {str(dtype)[6:]}: a step of training works"
    return Finding(check, OK, found)
