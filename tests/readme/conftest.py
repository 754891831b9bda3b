"""Where the commands of a README run."""

import pytest

from helpers.glue_files import write_glue
from helpers.readmes import link
from helpers.running import ENV, INSTALLED


@pytest.fixture
def folder(text, tmp_path, shim_folder, monkeypatch):
    """What the READMEs take for given: text, the GLUE files, and the package."""
    monkeypatch.setitem(ENV, "SHIMS", shim_folder)
    for split in ("train", "valid"):
        lines = (text / f"{split}.txt").read_text().splitlines()
        documents = ("\n".join(lines[n : n + 5]) for n in range(0, len(lines), 5))
        (tmp_path / f"{split}.txt").write_text("\n\n".join(documents) + "\n")
    write_glue(tmp_path / "glue_data", ["CoLA", "SST-2", "STS-B"])
    if not INSTALLED:  # not next to fairseq, so the name must be a path
        link(tmp_path, "tupe_fairseq")
    return tmp_path
