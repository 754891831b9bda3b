"""Whether what is computed is recorded, to be run on other batches later."""

import torch


def is_recorded() -> bool:
    """Whether ``torch.jit.trace`` or ``torch.export`` is at work.

    Then nothing may depend on the values or the sizes of the batch at hand.
    """
    is_exporting = getattr(getattr(torch, "compiler", None), "is_exporting", None)  # torch 2.7
    return torch.jit.is_tracing() or (is_exporting is not None and is_exporting())
