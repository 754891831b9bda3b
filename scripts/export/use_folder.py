"""Tries a model folder written by tupe-export, with transformers and torch only.

    python scripts/export/use_folder.py FOLDER REFERENCE [--quick]

Run it in an environment without fairseq and without this project.  REFERENCE holds what the hub
interface gives for real sentences (``make_kinds.py`` writes it).  Prints a line for each check and
ends with 1 if one fails.  sentence-transformers, accelerate and onnxruntime are used if installed.
"""

import argparse
import functools
import importlib.util
import os
import sys
import time
import traceback
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is to be fetched

import torch
import transformers
from folder_checks import numbers, refusals, training, using, variants
from folder_checks.subject import Skip, Subject


def checks(quick):
    """{what is checked: a function of the subject}, in order."""
    found = {"tokenizer": numbers.tokens, "order of words": numbers.order}
    for name in ("eager", "sdpa"):
        for part in (numbers.features, numbers.logits, numbers.classes):
            found[f"{part.__name__}, {name}"] = functools.partial(part, attention=name)
    flex = functools.partial(numbers.features, attention="flex_attention", count=32)
    found.update({
        "features, flex_attention": flex,
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
    else:
        del found["features, flex_attention"]
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("reference")
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
    subject = Subject(args.folder, args.reference)
    print(f"{args.folder}: transformers {transformers.__version__}, torch {torch.__version__}")
    failed = 0
    for name, check in checks(args.quick).items():
        if args.only and not any(part in name for part in args.only):
            continue
        failed += not run(name, check, subject, args.traceback)
    if failed:
        sys.exit(f"{args.folder}: {failed} checks failed")


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
