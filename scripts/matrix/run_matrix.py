"""Runs the test suite on every line, and the check of their checkpoints against each other."""

import argparse
import fcntl
import sys
from pathlib import Path
from typing import Dict, List

from exchange import exchange
from lines import LINES
from suite import Suite, run_suite, set_up, versions
from table import row, table

# as in trained_models.py, which needs fairseq
MODELS = (
    "tupe-a,tupe-r,tupe-r-tie-cls,learned,sinusoidal,none,transformer-xl,enformer,rope,alibi,shaw,"
    "disentangled,classifier,stock-roberta"
).split(",")


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/matrix.sh",
        description="Test every line of Python and fairseq in an environment of its own, and "
        "compare what each computes and trains from the checkpoints of the others. The exit code "
        "is 1 if anything fails or a Python is missing.",
        epilog="example: scripts/matrix.sh /tmp/matrix --only official-3.8,fixed-3.12 --no-tests",
    )
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder for everything; its environments are kept")
    add("--only", metavar="LIST", help=f"comma-separated, of {', '.join(LINES)}")
    add("--no-tests", action="store_true", help="only what the lines make of each other's files")
    add("--no-exchange", action="store_true", help="only the tests")
    add("--tests", metavar="LIST", help="comma-separated files and folders of tests; default: all")
    add("--models", metavar="LIST", help=f"to train, comma-separated, of {', '.join(MODELS)}")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    names = _chosen("--only", args.only, LINES)
    models = _chosen("--models", args.models, MODELS)
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    lock = open(out / "lock", "w")  # open until this process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"scripts/matrix.sh: error: another one works in {out}", file=sys.stderr)
        sys.exit(2)
    tests = args.tests.split(",") if args.tests else []
    problems: Dict[str, List[str]] = {name: [] for name in names}
    suites: Dict[str, Suite] = {}
    for name in names:
        line, venv = LINES[name], out / name
        python = line.interpreter()
        if python is None:
            problems[name].append(f"no Python {line.python} found; set {line.variable}")
            continue
        print(f"== {name}: {python}, environment {venv}", flush=True)
        wrong = set_up(line, python, venv, out / f"{name}.set-up.log")
        if wrong:
            problems[name].append(wrong)
        elif not args.no_tests:
            suites[name] = run_suite(line, python, venv, out / f"{name}.tests.log", tests)
            problems[name] += [suites[name].problem] if suites[name].problem else []
    usable = [name for name in names if (out / name / ".installed").exists()]
    with_fairseq = [name for name in usable if LINES[name].fairseq and not _broken(problems[name])]
    exchanged = {}
    if not args.no_exchange:
        exchanged = exchange(out, with_fairseq, models)
    for name, found in exchanged.items():
        problems[name] += found.problems
    known = {name: versions(out / name) for name in usable}
    rows = [row(name, known.get(name, {}), suites.get(name), exchanged.get(name)) for name in names]
    print("\n" + table(rows))
    for name in names:
        for problem in problems[name]:
            print(f"{name}: {problem}")
    sys.exit(any(problems.values()))


def _chosen(flag: str, words, known) -> List[str]:
    """The names that a flag lists; all of them without it."""
    chosen = list(known) if words is None else words.split(",")
    for word in chosen:
        if word not in known:
            print(f"scripts/matrix.sh: error: {flag} {word} is not one of {', '.join(known)}",
                  file=sys.stderr)  # fmt: skip
            sys.exit(2)
    return chosen


def _broken(problems: List[str]) -> bool:
    return any(problem.startswith("no ") for problem in problems)


if __name__ == "__main__":
    main()
