"""What the tests of the Triton kernels share."""

import os
from importlib import metadata

import pytest
import torch
from tupe_fairseq.attention.triton_tiles import TILES

from tupe_fairseq.attention import Padding

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


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


def hasten_interpreter():
    """Spare Triton's interpreter to put itself into the language at each call within a kernel.

    It does so once a kernel is started, too, and that is enough; it takes a quarter of the time.
    """
    from triton.runtime import interpreter

    language, put_in = interpreter.tl, interpreter._patch_lang

    def put_in_once(function):
        names = function.__globals__.values()
        seen = [x for x in (language, language.core) if any(x is value for value in names)]
        if any(language.core.is_builtin(x.load) for x in seen):
            return put_in(function)
        return interpreter._LangPatchScope()

    interpreter._patch_lang = put_in_once


def set_tiles(monkeypatch, queries, keys):
    """Of float32."""
    for (has_16_bits, *_), tiles in TILES.items():
        if not has_16_bits:
            for name, tile in tiles.items():
                changed = {**tile, "BLOCK_Q": queries, "BLOCK_K": keys}
                monkeypatch.setitem(tiles, name, changed)


def bfloat16_products(monkeypatch):
    """Triton 3.7's interpreter multiplies the bits of bfloat16 numbers as if integers: not now."""
    from triton import language
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def create_dot(builder, *operands):
        *factors, accumulator = operands[:3]
        factors = (
            TensorHandle((x.data.astype("uint32") << 16).view("float32"), language.float32)
            if x.dtype.scalar == language.bfloat16
            else x
            for x in factors
        )
        return original(builder, *factors, accumulator, *operands[3:])

    original = InterpreterBuilder.create_dot
    monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)
