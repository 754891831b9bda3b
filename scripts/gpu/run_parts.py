"""Runs the parts of scripts/gpu_check.sh, each in a process of its own, and keeps what they say."""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Dict, List

FOLDER = Path(__file__).resolve().parent
REPO = FOLDER.parents[1]
PARTS = ("tests", "agreement", "tiles", "operators", "steps", "words")
UNFINISHED = 75  # of kept_results.py, which needs torch
LIMIT = 480  # seconds of a part; what begins a case before GIVEN ends well before
GIVEN = 400


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh",
        description="Try and measure the plugin on a GPU, in parts of at most eight minutes. Each "
        "writes PART.txt and JSON into OUT as it goes; one that is started again goes on.",
        epilog="tests: those that need a GPU. agreement: every attention implementation beside "
        "eager in float64. tiles: a table for attention/triton_tiles.py. operators: attention "
        "beside FlashAttention-2. steps: training steps beside stock RoBERTa. words: "
        "fairseq-train in fp16 and bf16.",
    )
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder for what is written")
    add("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="default %(default)s")
    add("--interpret", action="store_true", help="kernels in Triton's interpreter, at toy sizes; "
        "with --device cpu")  # fmt: skip
    add("--wheels", type=Path, metavar="DIR", help="wheels that are unpacked and come first on the "
        "path: fairseq, and what it needs")  # fmt: skip
    add("--data", type=Path, metavar="DIR", help="data of tupe-prepare-pretrain for words; "
        "default: made, which needs this package installed")  # fmt: skip
    add("--reference-repo", type=Path, metavar="PATH", help="a checkout of the authors' code")
    return parser


def parse(words=None) -> argparse.Namespace:
    parser = get_parser()
    args = parser.parse_args(words)
    for part in args.parts:
        if part not in PARTS:
            parser.error(f"PART {part} is not one of {', '.join(PARTS)}")
    args.parts = args.parts or list(PARTS)
    if args.interpret != (args.device == "cpu"):
        parser.error("--device cpu and --interpret go together: its speed means nothing")
    if args.wheels is not None and not list(args.wheels.glob("*.whl")):
        parser.error(f"--wheels {args.wheels} holds no file *.whl")
    if args.data is not None and not (args.data / "dict.txt").exists():
        parser.error(f"--data {args.data} has no dict.txt; tupe-prepare-pretrain makes one")
    if args.reference_repo is not None and not (args.reference_repo / "fairseq").is_dir():
        parser.error(f"--reference-repo {args.reference_repo} has no folder fairseq")
    return args


def commands(part: str, args: argparse.Namespace) -> List[List]:
    """What a part runs, one after the other."""
    out, device, toy = args.out.resolve(), args.device, ["--toy"] if args.interpret else []
    python = [sys.executable]
    if part == "tests":
        return [[*python, FOLDER / "gpu_tests.py", out]]
    if part == "words":
        given = ["--data", args.data.resolve()] if args.data else []
        sizes = ["--layers", 1, "--width", 64, "--tokens-per-sample", 64, "--batch-size", 2,
                 "--updates", 20, "--rounds", 1] if toy else \
                ["--layers", 12, "--width", 768, "--batch-size", 32, "--rounds", 1]  # fmt: skip
        dtypes = ("fp32",) if toy else ("fp16", "bf16")
        program = REPO / "scripts" / "benchmarks" / "training.py"
        return [
            [*python, program, *given, *sizes, "--dtype", dtype, "--output-dir",
             out / f"words-{dtype}"]
            for dtype in dtypes
            if not (out / f"words-{dtype}" / "results.json").exists()
        ]  # fmt: skip
    common = ["--device", device, "--seconds", GIVEN, *toy]
    if part in ("operators", "steps"):
        theirs = ["--reference-repo", args.reference_repo.resolve()] if args.reference_repo else []
        return [[*python, FOLDER / "comparisons.py", part, out, *common, *theirs]]
    return [[*python, FOLDER / f"{part}.py", out, *common]]


def environment(args: argparse.Namespace) -> Dict[str, str]:
    """This checkout and the wheels on the path; the kernels that are compiled stay in OUT."""
    path = [str(REPO), os.environ.get("PYTHONPATH", "")]
    if args.wheels is not None:
        site = args.out.resolve() / "site"
        for wheel in sorted(args.wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as file:
                file.extractall(site)
        path.insert(0, str(site))
    own = {"PYTHONPATH": os.pathsep.join(word for word in path if word), "PYTHONUNBUFFERED": "1"}
    if args.interpret:
        own["TRITON_INTERPRET"] = "1"
    else:
        own["TRITON_CACHE_DIR"] = str(args.out.resolve() / "triton-cache")
    return {**os.environ, **own}


def run(part: str, args: argparse.Namespace, env: Dict[str, str]) -> str:
    """A verdict; what the part prints goes to OUT/PART.txt, too."""
    end = time.monotonic() + LIMIT
    with (args.out / f"{part}.txt").open("a") as log:
        for words in commands(part, args):
            code = UNFINISHED
            # one that a tile has ended goes on with the next, as long as there is time
            while code == UNFINISHED or code < 0:
                left = end - time.monotonic()
                if left < LIMIT - GIVEN:
                    return "not finished: run it again"
                code = tee([str(word) for word in words], env, log, left)
            if code:
                return f"FAILED ({code})"
    return "done"


def tee(words: List[str], env: Dict[str, str], log, seconds: float) -> int:
    """The exit code; that of an unfinished part if time is over."""
    process = subprocess.Popen(
        words, env=env, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            log.write(line)
            log.flush()
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        timer.cancel()
    return UNFINISHED if is_over.is_set() else code


def main() -> None:
    args = parse()
    args.out.mkdir(parents=True, exist_ok=True)
    env = environment(args)
    verdicts = {}
    for part in args.parts:
        print(f"== {part}", flush=True)
        verdicts[part] = run(part, args, env)
    print("".join(f"\n{part:<12}{verdict}" for part, verdict in verdicts.items()))
    sys.exit(any(verdict != "done" for verdict in verdicts.values()))


if __name__ == "__main__":
    main()
