"""What the tests of the Triton kernels share."""

from importlib import metadata

import pytest
import torch

from tupe_fairseq.attention import Padding


def has_triton():
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return False
    return tuple(int(number) for number in version.split(".")[:2]) >= (3, 7)


needs_triton = pytest.mark.skipif(
    not has_triton(), reason="needs triton >= 3.7: the interpreters before fail on numpy >= 2.4"
)


def padded(lengths, pack=False, seq_len=None):
    seq_len = max(lengths) if seq_len is None else seq_len
    return Padding(torch.arange(seq_len) >= torch.tensor(lengths)[:, None], pack=pack)
