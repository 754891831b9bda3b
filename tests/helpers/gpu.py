"""Tests that need a CUDA device."""

import pytest
import torch

IS_THERE = torch.cuda.is_available()


def needs_gpu(test):
    """Marks a test that is skipped without one."""
    return pytest.mark.gpu(pytest.mark.skipif(not IS_THERE, reason="needs a GPU")(test))
