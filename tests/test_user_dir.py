"""The package is imported once, for every spelling of its path and every order."""

import json
import subprocess
import sys

import pytest

from helpers.running import ENV, INSTALLED, REPO, USER_DIR

SHORT = "tupe_fairseq"
needs_install = pytest.mark.skipif(
    not INSTALLED, reason="an editable install is not next to fairseq: only the full path is found"
)

PROGRAM = """
import argparse, sys
from fairseq import utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

for step in sys.argv[1:]:
    if step == "import":
        import tupe_fairseq
    else:
        utils.import_user_module(argparse.Namespace(user_dir=step))
        getattr(utils.import_user_module, "memo", set()).clear()  # as in a new call of fairseq
import tupe_fairseq
assert MODEL_REGISTRY["tupe_roberta"] is tupe_fairseq.TupeRobertaModel
from fairseq.tasks import TASK_REGISTRY
assert "glue_sentence_prediction" in TASK_REGISTRY
archs = sorted(name for name in ARCH_MODEL_REGISTRY if name.startswith("tupe_"))
print(" ".join(archs))
"""


@pytest.fixture
def python(shim_folder, tmp_path):
    """Runs Python, in which fairseq is imported already: where that is first, or no matter."""

    def run(*arguments):
        return finished(f"{shim_folder}/python", *arguments, cwd=tmp_path)

    return run


def finished(*command, cwd):
    return subprocess.run(
        command, cwd=cwd, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(["import", USER_DIR], id="import-path"),
        pytest.param([USER_DIR, "import", USER_DIR], id="path-import-path"),
        pytest.param(["import", SHORT], id="import-short", marks=needs_install),
        pytest.param([SHORT, SHORT], id="short-short", marks=needs_install),
        pytest.param([SHORT, USER_DIR], id="short-path", marks=needs_install),
        pytest.param([USER_DIR, SHORT, "import"], id="path-short", marks=needs_install),
    ],
)
def test_registered_once_in_every_order(steps, python):
    process = python("-c", PROGRAM, *steps)
    assert process.returncode == 0, process.stdout
    assert process.stdout.splitlines()[-1].split() == [
        "tupe_roberta", "tupe_roberta_base", "tupe_roberta_large", "tupe_roberta_medium",
        "tupe_roberta_mini", "tupe_roberta_small", "tupe_roberta_tiny",
    ]  # fmt: skip


IMPORTED_FIRST = """
import logging, sys
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.position import build_position_encoding
import tupe_fairseq.checkpoint.convert
assert not [name for name in sys.modules if name.split(".")[0] in ("fairseq", "hydra")]
assert not logging.root.handlers and logging.root.level == logging.WARNING
"""
FAIRSEQ_LATER = [
    "import fairseq",
    "from tupe_fairseq import TupeRobertaModel",
    # while this part is itself being imported
    "import tupe_fairseq.plugin.glue.task",
    "import tupe_fairseq.text.foreign_vocabulary",
]


# each in a fork, as it would be in a process of its own, and what fairseq imports before the forks
FORKS = f"""
{IMPORTED_FIRST}
import json, os
import bitarray, hydra.experimental, omegaconf, regex, sacrebleu, sklearn.metrics, tqdm
import torch.distributed.fsdp, torch.utils.tensorboard
assert not [name for name in sys.modules if name.split(".")[0] == "fairseq"]
program, steps = json.loads(sys.argv[1])
for step, words in steps:
    print("==", step, flush=True)
    if not os.fork():
        sys.argv = ["-c", *words]
        exec(step + "\\n" + program)
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0, step
"""


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """What is printed after each step."""
    steps = [(step, [USER_DIR] if step == "import fairseq" else []) for step in FAIRSEQ_LATER]
    words = ["-c", FORKS, json.dumps([PROGRAM, steps])]
    process = finished(sys.executable, *words, cwd=tmp_path_factory.mktemp("later"))
    assert process.returncode == 0, process.stdout
    printed = process.stdout.split("== ")[1:]
    return dict(part.split("\n", 1) for part in printed)


@pytest.mark.parametrize("step", FAIRSEQ_LATER)
def test_registered_when_fairseq_is_imported_after_it(step, later):
    """And not before: who wants a position encoding alone does not pay for fairseq."""
    assert "tupe_roberta_tiny" in later[step].splitlines()[-1]


def test_path_into_a_clone_without_installing(python):
    """The folder of the clone, although another copy may be installed."""
    program = PROGRAM + f"assert tupe_fairseq.__path__[0] == {str(REPO / SHORT)!r}\n"
    process = python("-c", program, str(REPO / SHORT))
    assert process.returncode == 0, process.stdout


def test_a_spawned_worker_imports_it_again(python, tmp_path):
    program = f"""
import argparse, multiprocessing
from fairseq import utils

def worker(args):
    utils.import_user_module(args)
    from fairseq.models import MODEL_REGISTRY
    assert "tupe_roberta" in MODEL_REGISTRY

if __name__ == "__main__":
    args = argparse.Namespace(user_dir={USER_DIR!r})
    utils.import_user_module(args)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=worker, args=(args,))
    process.start()
    process.join()
    assert process.exitcode == 0
"""
    (tmp_path / "main.py").write_text(program)
    process = python("main.py")
    assert process.returncode == 0, process.stdout
