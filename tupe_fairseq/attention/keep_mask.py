"""Random dropout masks on the CPU, several times cheaper than torch's own."""

import importlib.util
import math
from typing import Optional

import torch
from torch import Tensor

# Each element of a mask takes so many random bits; the probability is a multiple of 2 ** -BITS.
BITS = 16
#: numpy draws the random numbers; who does not have it is served by torch's own dropout
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


class KeepMask:
    """One stream of dropout masks, which a second stream of the same seed repeats.

    torch draws one random number for each element, in one thread: at the default recipe that
    takes longer than the attention it is for.  Here one 64-bit draw of numpy's SFC64 serves four
    elements.  A stream that can be repeated need not be kept for the backward pass.

    Args:
        p (float): probability to drop an element, 0 .. 1; rounded to a multiple of 2^-16.
        seed (int, optional): of the stream; None draws one from torch's generator, so that
            ``torch.manual_seed`` and fairseq's restored random state fix the masks.
    Raises:
        MissingPackage: if numpy is not installed.
    """

    def __init__(self, p: float, seed: Optional[int] = None):
        from numpy.random import SFC64

        self.seed = int(torch.randint(2**62, ())) if seed is None else seed
        levels = 2**BITS
        dropped = round(p * levels)
        # of the integers -levels / 2 .. levels / 2 - 1, those up to the threshold are dropped
        self._threshold = dropped - levels // 2 - 1
        #: what kept elements are multiplied by, so that the expectation stays
        self.scale = levels / (levels - dropped) if dropped < levels else 0.0
        self._stream = SFC64
        self._draws = SFC64(self.seed)

    def begin(self, *part: int) -> None:
        """Go on with the stream of a part of the whole, which the seed and its numbers decide.

        So the masks do not depend on the order of the parts, nor on what is done at a time.
        """
        self._draws = self._stream([self.seed, *part])

    def drop(self, x: Tensor, out: Tensor) -> Tensor:
        """``out`` = ``x`` where the stream's next elements keep it, 0 elsewhere.

        Not yet multiplied by ``scale``.  ``out`` may be ``x``.
        """
        words = self._draws.random_raw(math.ceil(x.numel() * BITS / 64)).view("int16")
        random = torch.from_numpy(words)[: x.numel()].view(x.shape).to(x.dtype)
        # x where random > threshold, else 0, in one pass: faster than a comparison and a product
        torch.ops.aten.threshold_backward.grad_input(x, random, self._threshold, grad_input=out)
        return out
