"""Why Triton does not serve; these reasons need no kernels, on any Python."""

import re
import sys
import types

import pytest
import torch
from tupe_fairseq.attention.triton_refusal import _library_refusal, triton_refusal

from tupe_fairseq.attention import Bias, Padding


@pytest.fixture
def any_device(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def test_the_cpu(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    reason = triton_refusal(torch.zeros(2, 17, 3, 5), None, None)
    assert reason == "triton runs on CUDA devices only, and the tensors are on cpu"


def of_columns(width):
    return Bias.of_factors(*torch.zeros(2, 3, 17, width).unbind(), None)


def test_requests(any_device):
    q, bias = torch.zeros(2, 17, 3, 5), Bias(torch.zeros(3, 17, 17))
    mask = torch.zeros(2, 17, dtype=torch.bool)
    mask[0, 0] = True
    for arguments, reason in (
        ((q.double(), bias, None), "not torch.float64"),
        ((q.bfloat16(), bias, None), "interpreter"),
        ((q.half(), of_columns(5), None), "interpreter"),
        ((q, of_columns(21), None), "no room for 21 columns of a bias at a head_dim of 5"),
        ((torch.zeros(2, 17, 3, 136), bias, None), "at most 128, not 136"),
        ((q, Bias(bias.values[:1]), None), "one attn_bias for the whole batch"),
        ((q, bias, Padding(mask)), "padding at the end"),
    ):
        found = triton_refusal(*arguments)
        assert found is not None and re.search(reason, found), found


@pytest.mark.parametrize(
    "module, reason",
    [
        (None, "triton is not installed"),
        (types.SimpleNamespace(__version__="2.1.0"), "triton is 2.1.0, older than 3.2"),
    ],
)
def test_the_library(module, reason, any_device, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", module)
    _library_refusal.cache_clear()
    q = torch.zeros(2, 17, 3, 5)
    # which is the last reason: as many columns fit as these
    for arguments in ((q, None), (q, of_columns(20)), (q.half(), of_columns(4))):
        assert triton_refusal(*arguments, None) == reason
    _library_refusal.cache_clear()
