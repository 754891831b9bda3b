"""fairseq knows the package however it is imported, and keeps almost all its own functions."""

import re
import sys

from helpers.running import PARENT, USER_DIR, run_process
from helpers.training import MODEL, PRETRAINING

# all functions, classes and methods that the package might replace; then one way to load it
SNAPSHOT = """
import sys, types
import torch, fairseq, fairseq_cli.train, fairseq.checkpoint_utils, fairseq.optim.adam
from fairseq.utils import import_user_module

def snapshot():
    found = {("sys.meta_path", n): finder for n, finder in enumerate(sys.meta_path)}
    modules = [name for name in sys.modules if name.partition(".")[0] in ("fairseq", "fairseq_cli")]
    for name in [*modules, "torch.serialization", "torch.optim.adam", "torch.nn.parallel"]:
        for key, value in list(vars(sys.modules[name]).items()):
            if isinstance(value, (types.FunctionType, type)):
                found[name, key] = value
                if isinstance(value, type) and value.__module__ == name:
                    found.update({(name, key, k): v for k, v in vars(value).items() if isinstance(
                                  v, (types.FunctionType, staticmethod, classmethod))})
    return found

before = snapshot()
assert len(before) > 5000
"""
DIFFERENT = """
after = snapshot()
# torch's optimizers wrap their own step when they are built
found = [name for name in before if after[name] is not before[name] and name[-1] != "step"]
print("REPLACED", sorted(found, key=str))
"""
CHECK = """
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.tasks import TASK_REGISTRY
assert {"tupe_masked_lm", "glue_sentence_prediction", "token_tagging"} <= set(TASK_REGISTRY)
assert {"glue_sentence_prediction", "token_tagging"} <= set(CRITERION_REGISTRY)
assert "tupe_roberta_base" in ARCH_MODEL_REGISTRY
assert {"fused_adam", "muon"} <= set(OPTIMIZER_REGISTRY)
"""
IMPORT = """
import argparse
from fairseq.utils import import_user_module
import_user_module(argparse.Namespace(user_dir={!r}))
"""


def python(*parts, **options):
    return run_process(sys.executable, "-c", "".join(parts), **options).stdout


def training(data, save_dir, task):
    words = ["train", data, *MODEL, *PRETRAINING, "--task", task, "--save-dir", save_dir]
    words += ["--max-update", 1]
    return f"sys.argv = {list(map(str, words))}\nfairseq_cli.train.cli_main()\n"


def test_what_is_replaced(data, pretrained, tmp_path):
    parts = [
        "import tupe_fairseq\n",
        IMPORT.format(USER_DIR),
        "from tupe_fairseq import TupeRobertaModel\n"
        f"TupeRobertaModel.from_pretrained({str(pretrained)!r}, 'checkpoint_last.pt')\n",
        training(data, tmp_path / "a", "masked_lm"),
        training(data, tmp_path / "b", "tupe_masked_lm"),
    ]
    output = python(SNAPSHOT, *[part + DIFFERENT for part in parts])
    # only fairseq prints something on import and loading
    said = re.compile(r"tensorboardX|INFO(:| \| )fairseq|has already been imported")
    lines = [line for line in output.splitlines() if not said.search(line)]
    *others, last = [line for line in lines if line.startswith("REPLACED")]
    assert others[:3] == lines[:3]
    loads = "('fairseq.checkpoint_utils', 'load_checkpoint_to_cpu')"
    assert others == [f"REPLACED [{loads}]"] * 4
    assert last == f"REPLACED [('fairseq.checkpoint_utils', 'PathManager'), {loads}]"


WAYS = {
    "roundabout": IMPORT.format(f"{USER_DIR}/../tupe_fairseq/"),
    "by name": IMPORT.format("tupe_fairseq"),  # a folder here, in fairseq, or beside it
    "twice": IMPORT.format(USER_DIR) + IMPORT.format(f"{PARENT}/./tupe_fairseq"),
    "by import": "import tupe_fairseq\n",
    "a part first": "import tupe_fairseq.tasks.tagging\n",
}
# each way in a child of one process that has imported fairseq, which takes seconds
IN_CHILDREN = """
import os, fairseq, fairseq_cli.train
for name, code in {}.items():
    if os.fork() == 0:
        try:
            exec(code)
            print("REGISTERED", name, flush=True)
        except ImportError as error:
            print("REFUSED", name, error, flush=True)
        finally:
            os._exit(0)
    os.wait()
"""


def test_registration_after_fairseq(tmp_path):
    (tmp_path / "tupe_fairseq").symlink_to(USER_DIR)
    (tmp_path / "a" / "tupe_fairseq").mkdir(parents=True)
    (tmp_path / "a" / "tupe_fairseq" / "__init__.py").touch()
    another = "import tupe_fairseq\n" + IMPORT.format(str(tmp_path / "a" / "tupe_fairseq"))
    ways = {name: code + CHECK for name, code in WAYS.items()}
    output = python(IN_CHILDREN.format({**ways, "another copy": another}), cwd=tmp_path)
    registered = [x[11:] for x in output.splitlines() if x.startswith("REGISTERED")]
    assert registered == list(WAYS), output
    assert "REFUSED another copy" in output and "not globally unique" in output
