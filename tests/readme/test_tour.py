"""The notebook examples/tour.ipynb is short, has its outputs, and runs."""

import json

import pytest

from helpers.running import REPO
from tupe_fairseq.files import read_json

TOUR = REPO / "examples" / "tour.ipynb"


def test_the_tour_is_short_and_has_its_outputs():
    cells = [x for x in json.loads(TOUR.read_text())["cells"] if x["cell_type"] == "code"]
    assert TOUR.stat().st_size <= 400_000
    assert max(len("".join(cell["source"]).splitlines()) for cell in cells) <= 15
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result"}
    assert all(output.get("name") != "stderr" for output in outputs)
    assert sum("image/png" in output.get("data", ()) for output in outputs) == 5


@pytest.mark.slow
def test_the_tour_runs(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    for name in ("examples", "scripts"):
        (tmp_path / name).symlink_to(REPO / name)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(nbformat.read(TOUR, 4), timeout=600, resources=where).execute()
    for folder, low, high in (("runs", 0.8, 1), ("no-pretraining", 0.3, 0.7)):
        results = read_json(str(tmp_path / "tour" / folder / "order" / "results.json"))
        assert low < results["best_run_score"] <= high
