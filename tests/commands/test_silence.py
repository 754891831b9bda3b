"""Imports, and loading a model in Python, print nothing, in a process that has imported nothing.

That nothing foreign is printed by the work itself, helpers/running.py checks whenever a test calls
a command.
"""

import re
import subprocess
import sys
import warnings

import pytest

from helpers.exporting import write_model, write_vocabulary
from helpers.running import ENV, call_program
from helpers.silence import no_foreign_lines

LOADING = """
import importlib, sys
from tupe_fairseq import TupeRobertaModel

TupeRobertaModel.from_pretrained(*sys.argv[1:])

from tupe_fairseq.commands.program import set_up_log
from tupe_fairseq.commands.start import NEEDS

for name in NEEDS:
    set_up_log("tupe-x")
    importlib.import_module(f"tupe_fairseq.commands.{name}")
# what commands import later
import tupe_fairseq.figures.canvas, tupe_fairseq.figures.plot_input
"""


def test_what_is_imported_says_nothing(tmp_path):
    write_vocabulary(tmp_path / "data")
    checkpoint = write_model(tmp_path / "model", tmp_path / "data", tokens_per_sample=24)
    process = subprocess.run(
        [sys.executable, "-c", LOADING, checkpoint.parent, checkpoint.name, tmp_path / "data"],
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    # fairseq itself, on every import
    lines = [line for line in process.stdout.splitlines() if "tensorboardX" not in line]
    assert lines == [] and process.returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "/lib/hydra/compose.py:56: UserWarning: ", "INFO:fairseq.tasks.masked_lm:9 types",
        "2026-11-23 18:00:00 | INFO | fairseq_cli.train | {}",
    ],
)  # fmt: skip
def test_what_is_foreign(line):
    no_foreign_lines("tupe-x: warning: a\n0.1 INFO: b")
    with pytest.raises(AssertionError, match=re.escape(str([line]))):
        no_foreign_lines(f"tupe-x: warning: a\n{line}\n0.1 INFO: b")


def test_a_warning_of_a_library_is_a_failure():
    with pytest.raises(AssertionError, match="odd"):
        call_program(lambda words: warnings.warn("odd", FutureWarning), [])  # noqa: B028
    assert call_program(lambda words: warnings.warn("old", DeprecationWarning), []) == (0, "")  # noqa: B028
