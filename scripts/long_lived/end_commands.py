"""Ends every command by Ctrl-C and by SIGTERM, from its first moments to its last."""

import argparse
import gc
import random
import re
import shutil
import signal
import sys
from pathlib import Path

import ending
import working as known

sys.path.append(str(known.REPO / "scripts" / "soak"))
import run_soak  # noqa: E402

import tupe_fairseq.models.tupe_roberta  # noqa: E402, F401  for the forks
from tupe_fairseq.commands.start import NEEDS  # noqa: E402

NAMES = list(known.commands(Path(), Path()))
WAYS = {
    "Ctrl-C": (signal.SIGINT, True),
    "SIGINT": (signal.SIGINT, False),
    "SIGTERM": (signal.SIGTERM, False),
}
_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# seconds after the start of the command's own code: amid its imports
_EARLY = (0.0, 0.5)
# of the work; what is done later is done before, too
_LATEST = 30.0


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/long_lived/end_commands.py",
        description="Send SIGINT to every command and its children (Ctrl-C in a terminal) and to "
        "the command alone, and SIGTERM to it alone: during its imports, and at random moments of "
        f"its work. It is to end within {ending.LIMIT:.0f} seconds, with all that it has started, "
        "with one line on stderr, and without a half-written file under a final name.",
        epilog="example: scripts/long_lived/end_commands.py /tmp/ended --only score,finetune",
    )
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder for everything; inputs in it are kept")
    add("--only", metavar="LIST", help=f"comma-separated, of {', '.join(NAMES)}")
    add("--moments", type=int, default=3, metavar="N", help="of its work; default %(default)s")
    add("--seed", type=int, default=1, metavar="N", help="of the moments; default %(default)s")
    add(
        "--glue",
        type=Path,
        default=known.REPO.parent / "shared" / "data" / "glue",
        metavar="DIR",
        help="the official files of CoLA and MRPC; default %(default)s",
    )
    return parser


def main() -> None:
    args = get_parser().parse_args()
    names = NAMES if args.only is None else re.split(",(?! )", args.only)
    for name in names:
        if name not in NAMES:
            sys.exit(f"{get_parser().prog}: error: --only {name}: not one of {', '.join(NAMES)}")
    _check_names()
    gc.freeze()  # forks need not copy what is imported
    folder = args.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    run_soak.write_inputs(folder, Path(sys.executable).parent, args.glue, True)
    known.write_inputs(folder)
    glue = folder / "glue-cut"
    lines, failures = [], 0
    head = f"{'command':<18}{'signal':<9}{'at':>7}{'children':>9}{'ended':>7}{'all':>6}{'code':>5}"
    print(head, flush=True)
    for name in names:
        command = known.commands(folder, glue)[name]
        for line in end(name, command, folder / "ended" / name, args.moments, args.seed):
            print(line, flush=True)
            failures += "FAILED" in line
            lines.append(line)
    print(f"{len(lines)} ends, {failures} of them not as they are to be")
    gc.unfreeze()
    sys.exit(failures > 0)


def _check_names() -> None:
    missing = {name.replace("_", "-") for name in NEEDS} - set(NAMES)
    if missing:
        sys.exit(f"working.py has nothing for {', '.join(sorted(missing))}")


def end(name: str, command: known.Command, folder: Path, number_of_moments: int, seed: int):
    """End one command again and again; the lines of the table."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env, chance = run_soak.environment(), random.Random(f"{name} {seed}")
    words = command.words(folder / "unkilled")
    (folder / "unkilled").mkdir()
    whole = ending.run(words, env, folder / "unkilled.log")
    if whole.code not in (0, 1):  # tupe-doctor has found something
        yield f"{name:<18}FAILED without a signal: see {folder / 'unkilled.err'}"
        return
    moments = [(False, at) for at in _EARLY] if not command.is_fairseqs else []
    moments += [
        (True, chance.uniform(0.05, min(whole.at, _LATEST))) for _ in range(number_of_moments)
    ]
    for way, (number, to_group) in WAYS.items():
        for is_fork, at in moments:
            out = folder / f"{way}-{at:.3f}"
            out.mkdir()
            log = folder / f"{out.name}.log"
            one = ending.run(
                command.words(out), env, log, at, number, to_group, is_fork, command.limit
            )
            problems = []
            if one.code != whole.code:  # otherwise all was done
                problems = _problems(command, one, number, words[0])
            problems += [f"not whole: {x}" for x in ending.not_whole(out, folder / "unkilled")]
            line = (
                f"{name:<18}{way:<9}{one.at:>7.2f}{one.had_children:>9}{one.seconds:>7.2f}"
                f"{one.all_seconds:>6.2f}{one.code:>5}"
            )
            yield line + (f"  FAILED: {'; '.join(problems)}" if problems else "")
            if not problems:
                shutil.rmtree(out)


def _problems(command: known.Command, one: ending.Ended, number: int, prog: str) -> list[str]:
    problems = [f"left: {child}" for child in one.children]
    if one.all_seconds > command.limit:
        problems.append(f"{one.all_seconds:.1f} s")
    if command.is_fairseqs:
        return problems
    if one.code != 128 + number:
        problems.append(f"exit code {one.code}")
    told = [line for line in one.lines if line.startswith(f"{prog}: {_WORDS[number]}")]
    # of what it was doing when the signal came
    more = [line for line in one.lines if not line.startswith(f"{prog}: ")]
    if len(told) != 1 or told[0] != one.lines[-1] or more:
        problems.append(f"stderr: {' / '.join(one.lines)[-300:]!r}")
    return problems


if __name__ == "__main__":
    main()
