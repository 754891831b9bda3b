"""How the trainings of tupe-finetune are started in these tests."""

import pytest


@pytest.fixture(scope="module")
def trainings_start_at_once(shim_folder):
    """Those of commands in this process, as those of a command of the same folder do."""
    with pytest.MonkeyPatch.context() as patch:
        name = "tupe_fairseq.finetune.experiment.fairseq_train"
        patch.setattr(name, lambda: f"{shim_folder}/fairseq-train")
        yield
