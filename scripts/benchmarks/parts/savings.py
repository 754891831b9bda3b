"""Ways to do a training step on the CPU with less, beside how it is done; CPU time of a thread."""

import ctypes
import time
from typing import Callable, Dict, List, Optional

import torch
import torch.nn.functional as F
from fairseq.optim.adam import Adam

from parts.models import build, masked_batch
from tupe_fairseq.plugin.model import hastened_adam

# of glibc's malloc.h: from which size on a block has pages of its own, and how much may be free at
# the end of the heap before it is given back
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_USUAL, _ALL = (32 * 2**20, 64 * 2**20), (2**30, 2**31 - 1)


def savings(options, seq_len: int) -> Dict[str, Dict[str, List[float]]]:
    """Name -> ways, the usual first -> CPU seconds of each round."""
    device = torch.device("cpu")
    batch = masked_batch(max(options.tokens // seq_len, 1), seq_len, 0.0, device)
    models = {
        dtype: build("tupe", "measured", seq_len, device, dtype).train()
        for dtype in (torch.float32, torch.bfloat16)
    }

    def pass_through(dtype=torch.float32):
        models[dtype].zero_grad()
        logits, _ = models[dtype](batch.tokens, masked_tokens=batch.masked)
        F.cross_entropy(logits.float(), batch.targets).backward()

    def with_memory(thresholds):
        _set_thresholds(*thresholds)
        pass_through()  # takes it

    optimizer = Adam(list(models[torch.float32].parameters()), lr=1e-4)
    found = {}
    found["forward and backward, freed memory"] = _alternated(
        {"given back": pass_through, "kept": pass_through},
        options.rounds,
        {"given back": lambda: with_memory(_USUAL), "kept": lambda: with_memory(_ALL)},
    )
    _set_thresholds(*_USUAL)
    found["Adam"] = _alternated(
        {
            "fairseq's": lambda: hastened_adam._fairseqs_step(optimizer),
            "ours": lambda: hastened_adam._step(optimizer),
        },
        options.rounds,
    )
    found["forward and backward, dtype"] = _alternated(
        {"float32": pass_through, "bfloat16": lambda: pass_through(torch.bfloat16)}, options.rounds
    )
    return found


def _set_thresholds(mapped: int, trimmed: int) -> None:
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, mapped)
    libc.mallopt(_M_TRIM_THRESHOLD, trimmed)
    libc.malloc_trim(0)


def _alternated(
    calls: Dict[str, Callable], rounds: int, before: Optional[Dict[str, Callable]] = None
) -> Dict[str, List[float]]:
    """Seconds of each, after a round that is not counted; nor is what is called before each."""
    found: Dict[str, List[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            if before is not None:
                before[name]()
            begin = time.process_time()
            call()
            if number:
                found[name].append(time.process_time() - begin)
    return found
