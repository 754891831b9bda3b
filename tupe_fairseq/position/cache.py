"""A module's results, kept for as long as its parameters stay what they were."""

from collections import OrderedDict
from typing import Callable, Hashable, List

import torch
from torch import Tensor, nn

# Validation and inference meet few lengths at a time.
SIZE = 8


class ResultCache:
    """The last few results of a module that depend on its parameters and a key alone.

    The parameters themselves are compared, each time: no counter of theirs tells of every change
    (``parameter.data.copy_()`` leaves it alone, and fairseq's optimizers and moving averages write
    that way), and comparing costs little beside a forward pass.

    Args:
        module (nn.Module): whose parameters the results depend on.
    """

    def __init__(self, module: nn.Module):
        # in a list, so that an owner that is a module does not register it a second time
        self._module = [module]
        self._parameters: List[Tensor] = []
        self._results: OrderedDict[Hashable, object] = OrderedDict()

    def clear(self) -> None:
        self._parameters = []
        self._results.clear()

    def get(self, key: Hashable, compute: Callable[[], object]) -> object:
        """The result for ``key``, from before where it is still valid."""
        if not self._is_valid():
            self.clear()
            self._parameters = [p.detach().clone() for p in self._module[0].parameters()]
        if key not in self._results:
            self._results[key] = compute()
            if len(self._results) > SIZE:
                self._results.popitem(last=False)
        self._results.move_to_end(key)
        return self._results[key]

    def _is_valid(self) -> bool:
        now = list(self._module[0].parameters())
        return len(now) == len(self._parameters) and all(
            a.dtype == b.dtype and a.device == b.device and torch.equal(a, b)
            for a, b in zip(now, self._parameters)
        )
