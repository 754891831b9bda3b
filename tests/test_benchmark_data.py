"""scripts/benchmark_data.py, on little text."""

import json
import sys

from conftest import REPO


def test_speeds_and_memory(run, tmp_path):
    run(sys.executable, REPO / "scripts" / "benchmark_data.py", "--output-dir", tmp_path,
        "--input", REPO / "README.md", "--sizes-mb", "1", "--rounds", 1, "--workers", 1,
        "--vocab-size", 400)  # fmt: skip
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["cleaning_mb_per_s"]["median"] > 0
    assert results["encoding"]["ratio_to_ids"]["median"] > 0
    (whole,) = results["runs"]
    assert whole["finished"] and whole["mb"] == 1.0
    assert whole["peak_pss_mb"] == max(step["pss_mb"] for step in whole["after_step"].values()) > 50
    assert (tmp_path / "results.md").read_text().count("\n| 1 |") == 1
