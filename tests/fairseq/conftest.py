"""Data folders and trained models that several files use, each made once."""

import pytest

from helpers import cli


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder for masked_lm, with documents."""
    return cli.write_text_data(tmp_path_factory.mktemp("text") / "data")


@pytest.fixture(scope="session")
def pretrained(data, tmp_path_factory):
    """The --save-dir of a TUPE-R after 10 updates, with checkpoints after 5 and 10."""
    folder = tmp_path_factory.mktemp("pretrained")
    cli.pretrain(data, folder, "--rel-pos", "--save-interval-updates", 5)
    return folder
