"""Data folders and trained models that several files use, each made once."""

import pytest

from helpers import training


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder for masked_lm, with documents."""
    return training.write_text_data(tmp_path_factory.mktemp("text") / "data")


@pytest.fixture(scope="session")
def pretrained(data, tmp_path_factory):
    """The --save-dir of a TUPE-R after 10 updates, with checkpoints after 5 and 10."""
    folder = tmp_path_factory.mktemp("pretrained")
    training.pretrain(data, folder, "--rel-pos", "--save-interval-updates", 5)
    return folder


@pytest.fixture(scope="session")
def subwords_trained(subwords, tmp_path_factory):
    """The --save-dir of a model trained with isolated documents and whole-word masking."""
    folder = tmp_path_factory.mktemp("subwords_trained")
    flags = ["--isolate-documents", "--mask-whole-words", "--sample-break-mode", "none"]
    training.pretrain(subwords, folder, "--rel-pos", *flags, "--checkpoint-activations")
    return folder
