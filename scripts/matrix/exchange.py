"""Lets lines write checkpoints and read each other's, and gathers what came of it."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
#: relative to the largest number: float32, between releases of torch, whose kernels sum in other
#: orders; of training, after four more updates
BOUND, BOUND_OF_TRAINING = 2e-6, 2e-5


class Read(NamedTuple):
    """What a line made of the others' files.

    Args:
        checks (int): how many results were compared.
        largest (float): the largest difference of outputs.
        trained (float): the largest difference after training on.
        refused (int): checkpoints that only fairseq's own way refuses, and that load otherwise.
        problems (list of str): what does not agree.
    """

    checks: int
    largest: float
    trained: float
    refused: int
    problems: List[str]


def exchange(out: Path, names: List[str], models: List[str]) -> Dict[str, Read]:
    """Let each line train models, and each other line load them and train them on.

    Args:
        out (Path): folder of the environments; exchange/ in it is made anew.
        names (list of str): the lines.
        models (list of str): what is trained.
    """
    if len(names) < 2:
        return {}
    folder, found = out / "exchange", {}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    written = []
    for name in names:
        print(f"== {name} trains {len(models)} models", flush=True)
        code = _run(out, name, "write_line.py", folder / name, *models)
        if code:
            log = folder / f"{name}.log"
            found[name] = Read(0, 0, 0, 0, [f"writing checkpoints: exit code {code}, see {log}"])
        else:
            written.append(name)
    for name in names:
        others = [other for other in written if other != name]
        if not others or name not in written:
            continue
        print(f"== {name} reads those of {', '.join(others)}", flush=True)
        code = _run(out, name, "read_line.py", folder, name, ",".join(others), *models)
        found[name] = _judged(folder / f"{name}.jsonl", code, folder / f"{name}.log")
    return found


def _run(out: Path, name: str, program: str, *words) -> int:
    env = {**os.environ, "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    python = str(out / name / "bin" / "python")
    command = [python, "-W", "ignore", str(HERE / program), *map(str, words)]
    with open(out / "exchange" / f"{name}.log", "a") as log:
        # not here, where the plugin would be found twice
        return subprocess.run(
            command, env=env, cwd=str(out), stdout=log, stderr=subprocess.STDOUT
        ).returncode  # fmt: skip


def _judged(records: Path, code: int, log: Path) -> Read:
    checks, largest, trained, refused = 0, 0.0, 0.0, 0
    problems = [f"reading checkpoints: exit code {code}, see {log}"] if code else []
    for text in records.read_text().splitlines() if records.exists() else []:
        record = json.loads(text)
        what = f"{record['model']} of {record['writer']}, {record['way']}"
        if "refused" in record:
            refused += 1
            continue
        checks += 1
        if "problem" in record:
            problems.append(f"{what}: {record['problem']}")
            continue
        difference, is_training = record["difference"], record["way"] == "continued"
        bound = BOUND_OF_TRAINING if is_training else BOUND
        if is_training:
            trained = max(trained, difference)
        else:
            largest = max(largest, difference)
        if not difference <= bound:
            problems.append(f"{what}: {difference:.1e} apart, more than {bound:.0e}")
    return Read(checks, largest, trained, refused, problems)
