"""Trainings of tupe-finetune, made once for all tests."""

import pytest

from helpers.finetuning import GRID, call, finetuning, make_chain
from helpers.running import interrupt
from tupe_fairseq.files import locked


@pytest.fixture(scope="session", autouse=True)
def trainings_start_at_once(shim_folder):
    with pytest.MonkeyPatch.context() as patch:
        name = "tupe_fairseq.finetune.command.fairseq_train"
        patch.setattr(name, lambda: f"{shim_folder}/fairseq-train")
        yield


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("a chain"))


@pytest.fixture(scope="session")
def grid(chain, tmp_path_factory, shim_folder):
    """CoLA's 2 x 2 runs, interrupted in the second and then finished."""
    output = tmp_path_factory.mktemp("runs of")
    cola = output / "CoLA"
    command = finetuning(chain, "CoLA", output, *GRID)
    code, text = interrupt(command, cola / "lr5e-4-seed2" / "train.log", scripts=shim_folder)
    assert code == 130, text
    with locked(str(cola)):  # its fairseq-train has ended, too
        assert [path.parent.name for path in cola.glob("lr*/result.json")] == ["lr5e-4-seed1"]
    assert "lr5e-4-seed1" in (cola / "results.md").read_text()
    first = (cola / "lr5e-4-seed1" / "train.log").read_bytes()
    code, text = call(command)
    assert code == 0, text
    assert (cola / "lr5e-4-seed1" / "train.log").read_bytes() == first
    assert "CoLA: 3 of 4 runs left" in text
    return output, text
