"""Tries model folders written by tupe-export, with transformers and torch only.

    python scripts/export/use_folder.py REFERENCES FOLDER [FOLDER ...] [--quick]

Run it in an environment without fairseq and without this project.  REFERENCES/NAME.pt holds
what the hub interface gives for real sentences with the model of FOLDER, whose name is NAME
(``make_kinds.py`` writes it).  Prints a line for each check and
ends with 1 if one fails.  A folder that has passed all of them is not tried again before it or
they are changed.  sentence-transformers, accelerate and onnxruntime are used if installed.
"""

import argparse
import functools
import importlib.util
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is to be fetched

import torch
import transformers
from folder_checks import numbers, refusals, training, using, variants
from folder_checks.subject import Skip, Subject

# what a folder has passed before counts while these are as they were
CHECKS = [Path(__file__), *Path(numbers.__file__).parent.glob("*.py")]


def checks(quick):
    """{what is checked: a function of the subject}, in order."""
    found = {"tokenizer": numbers.tokens, "order of words": numbers.order}
    for name in ("eager", "sdpa"):
        for part in (numbers.features, numbers.logits, numbers.classes):
            found[f"{part.__name__}, {name}"] = functools.partial(part, attention=name)
    found.update({
        "one by one, empty text": numbers.one_by_one,
        "outputs and inputs_embeds": numbers.outputs,
        "pipelines": using.pipelines,
        "saved again, two processes": variants.saved_again,
        "bfloat16": variants.half,
        "gradient checkpointing": training.checkpointing,
        "gradients of attentions": training.attentions_agree,
        "resized embeddings": variants.resized,
        "refused attention": refusals.attention,
        "refused batches": refusals.batches,
        "sentence-transformers": using.sentences,
        "onnx": using.onnx,
    })  # fmt: skip
    if not quick:
        found.update({
            "other heads": using.heads,
            "Trainer": training.trainer,
            "torch.compile": variants.compiled,
            "int8": variants.quantised,
            "device_map": variants.device_map,
        })  # fmt: skip
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("references", type=Path)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--quick", action="store_true", help="leave out what takes long")
    parser.add_argument("--only", nargs="+", help="checks whose names contain one of these")
    parser.add_argument("--traceback", action="store_true", help="show where a check fails")
    args = parser.parse_args()
    for package in ("fairseq", "tupe_fairseq"):
        if importlib.util.find_spec(package) is not None:
            sys.exit(f"use_folder.py: {package} is installed here; use another environment")
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    failed = [str(folder) for folder in args.folders if not kept(folder, args)]
    if failed:
        sys.exit(f"use_folder.py: checks failed: {', '.join(failed)}")


def kept(folder, args):
    """Make all checks of a folder unless it has passed them before; whether it has."""
    versions = f"transformers-{transformers.__version__}-torch-{torch.__version__}"
    mark = args.references / f"{folder.name}.{versions}.passed"
    reference = args.references / f"{folder.name}.pt"
    written = max(path.stat().st_mtime for path in [*folder.rglob("*"), *CHECKS, reference])
    if mark.is_file() and mark.stat().st_mtime > written and not args.only and not args.quick:
        print(f"{folder}\n{mark.read_text()}", end="", flush=True)
        return True
    passed = tried(folder, args)
    if passed and not args.only and not args.quick:
        mark.write_text(f"  all checks have passed at {time.strftime('%Y-%m-%d %H:%M')}\n")
    return passed


def tried(folder, args):
    """Make all checks of a folder; whether they have passed."""
    print(folder, flush=True)
    passed = True
    subject = Subject(str(folder), args.references / f"{folder.name}.pt")
    for name, check in checks(args.quick).items():
        if not args.only or any(part in name for part in args.only):
            passed &= run(name, check, subject, args.traceback)
    return passed


def run(name, check, subject, show):
    """Make a check and print its line; whether it has passed."""
    start, passed = time.monotonic(), True
    try:
        said = check(subject)
    except Skip as reason:
        said = f"not checked: {reason}"
    except Exception as error:
        passed = False
        said = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
        if show:
            traceback.print_exc()
    first, *more = [said] if isinstance(said, str) else said
    print(f"  {name:28} {first}  [{time.monotonic() - start:.1f} s]", flush=True)
    for line in more:
        print(f"  {'':28} {line}", flush=True)
    return passed


if __name__ == "__main__":
    main()
