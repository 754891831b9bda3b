"""Trains with several processes in every way, and compares what they learn."""

import argparse
import sys
from pathlib import Path

from deaths import DEATHS, LIMIT
from one_training import REPO, UPDATES
from trials import Trials
from ways import WAYS

sys.path.append(str(REPO / "scripts" / "soak"))

from forks import programs_for  # noqa: E402

NAMES = [*(name for name in WAYS if WAYS[name].like or WAYS[name].refused), *DEATHS]


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/distributed.sh",
        description=f"Train a small model for {UPDATES} updates with several processes on the CPU, "
        "by hand, by torchrun and on two machines (two torchrun on the loopback interface), with "
        "several settings; compare every logged loss and the weights after every tenth update with "
        "one process of the same total batch. Kill a worker, while it trains or before it has met "
        f"the others, which must end within {LIMIT} seconds with a message, and give the same "
        "command again.",
        epilog="example: scripts/distributed.sh /tmp/distributed --only hand-2,machines",
    )
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder for everything; data in it are kept")
    add("--only", metavar="LIST", help=f"comma-separated, of {', '.join(NAMES)}")
    add(
        "--quick",
        action="store_true",
        help="start commands as forks of a process that has imported torch and fairseq",
    )
    return parser


def main() -> None:
    args = get_parser().parse_args()
    names = NAMES if args.only is None else args.only.split(",")
    for name in names:
        if name not in NAMES:
            sys.exit(
                f"scripts/distributed.sh: error: --only {name} is not one of {', '.join(NAMES)}"
            )
    with programs_for(args.quick, args.out.resolve()) as programs:
        trials = Trials(args.out.resolve(), programs)
        lines = [trials.line(name) for name in names]
    print("\n" + "\n".join(lines))
    sys.exit(any("FAILED" in line for line in lines))


if __name__ == "__main__":
    main()
