"""Fixtures for all tests: real text and data; the order of files."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

# Two threads of two processes on two cores spin against each other; and bit-identical results
# need equal thread counts.
os.environ.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0")
# Beside a GPU that torch sees, fairseq's --cpu fails when it clips gradients.  The authors' numbers
# on a GPU: CUDA_VISIBLE_DEVICES=0 pytest tests/core/test_goldens.py
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TRITON_INTERPRET", "1")  # decided when triton is imported
# transformers copies an exported folder's code to a cache, which two processes cannot share
os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()
atexit.register(shutil.rmtree, os.environ["HF_MODULES_CACHE"], ignore_errors=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it

import pytest  # noqa: E402
import torch  # noqa: E402

from helpers.running import run_here  # noqa: E402

#: folders whose files take long come first, so that all workers end at the same time
LONG = ("readme", "compare", "fairseq", "finetune", "export")


def pytest_configure(config):
    gc.disable()  # while tests are collected, all of which stay: saves seconds in each worker
    # files in our order, not those of many tests first, which is xdist's since 3.7
    config.option.loadscopereorder = False


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    def place(item):
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=place)


def pytest_make_parametrize_id(val):
    """No names that hold a whole file, nor the time in it, which workers would not share."""
    return f"{len(val)} bytes" if isinstance(val, bytes) and len(val) > 16 else None


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """train.txt and valid.txt of real English that every Python ships, one paragraph per line."""
    from pydoc_data.topics import topics

    folder = tmp_path_factory.mktemp("text")
    blocks = [" ".join(b.split()) for t in topics.values() for b in t.split("\n\n")]
    # prose of bounded length; by words, because one long line would not fit the limit of tokens
    prose = [" ".join(b.split()[:25]) for b in blocks if b.endswith(".") and b.count(" ") > 8]
    lines = list(dict.fromkeys(prose))
    assert len(lines) > 800
    (folder / "valid.txt").write_text("\n".join(lines[:50]) + "\n")
    (folder / "train.txt").write_text("\n".join(lines[50:750]) + "\n")
    return folder


@pytest.fixture(scope="session")
def data(text, tmp_path_factory):
    """A data folder made by SentencePiece and fairseq-preprocess, with the model next to it."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("data")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text / "train.txt"), model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=300, user_defined_symbols=["<mask>"], minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    for split in ("train", "valid"):
        lines = (text / f"{split}.txt").read_text().splitlines()
        encoded = [" ".join(pieces.encode(line, out_type=str)) for line in lines]
        (folder / f"{split}.spm").write_text("\n".join(encoded) + "\n")
    run_here(
        "fairseq-preprocess", "--only-source", "--trainpref", folder / "train.spm",
        "--validpref", folder / "valid.spm", "--destdir", folder / "bin", "--workers", "1",
    )  # fmt: skip
    (folder / "sentencepiece.bpe.model").rename(folder / "bin" / "sentencepiece.bpe.model")
    return folder / "bin"
