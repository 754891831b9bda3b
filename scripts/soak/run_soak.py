"""Kills commands with SIGKILL at random moments, and compares what they leave in the end."""

import argparse
import random
import shutil
import sys
import time
from pathlib import Path

from forks import REPO, programs_for
from killing import Ended, Kill, attempt
from subjects import Subject, environment, prepare_glue, prepare_pretrain, pretrain, subjects

NAMES = list(subjects(Path(), Path(), 0))


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/soak.sh",
        description="Kill trainings and commands with SIGKILL, half of the times at a random "
        "moment and half while they write a file, alone or with what they have started; give the "
        "same command again; and compare what is there in the end with a run that was never "
        "killed: bytes of data, and weights, optimizer, losses and results of trainings.",
        epilog="example: scripts/soak.sh /tmp/soak --only tupe-r,finetune --kills 20 --seed 1",
    )
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder for everything; inputs in it are kept")
    add("--only", metavar="LIST", help=f"comma-separated, of {', '.join(NAMES)}")
    add("--kills", type=int, default=20, metavar="N", help="of each; default %(default)s")
    add("--seed", type=int, default=1, metavar="N", help="of the moments; default %(default)s")
    add(
        "--quick",
        action="store_true",
        help="start commands as forks of a process that has imported torch and fairseq, as the "
        "tests do; a kill then reaches them some milliseconds later",
    )
    add("--updates", type=int, default=24, metavar="N", help="of a training; default %(default)s")
    add(
        "--glue",
        type=Path,
        default=REPO.parent / "shared" / "data" / "glue",
        metavar="DIR",
        help="the official files of CoLA and MRPC; default %(default)s",
    )
    return parser


def main() -> None:
    args = get_parser().parse_args()
    names = NAMES if args.only is None else args.only.split(",")
    for name in names:
        if name not in NAMES:
            sys.exit(f"scripts/soak.sh: error: --only {name} is not one of {', '.join(NAMES)}")
    if {"prepare-glue", "finetune"} & set(names) and not (args.glue / "MRPC").is_dir():
        sys.exit(f"scripts/soak.sh: error: --glue {args.glue} has no folder MRPC")
    with programs_for(args.quick, args.out.resolve()) as folder:
        lines = _soak(args, names, folder)
    print("\n" + "\n".join(lines))
    sys.exit(any("FAILED" in line for line in lines))


def _soak(args: argparse.Namespace, names: list[str], programs: Path) -> list[str]:
    """The line of the table of each subject."""
    folder = args.out.resolve()
    write_inputs(folder, programs, args.glue, {"prepare-glue", "finetune"} & set(names))
    known, lines = subjects(folder, args.glue, args.updates), []
    for name in names:
        soak = Soak(name, known[name], programs, folder / name, args.kills, args.seed)
        lines.append(soak.run())
        print(lines[-1], flush=True)
    return lines


def write_inputs(folder: Path, programs: Path, glue: Path, needs_glue: bool) -> None:
    """Text, data and a model to fine-tune, made once, without kills."""
    text = folder / "text"
    if not (text / "valid.txt").exists():
        from pydoc_data.topics import topics

        blocks = [" ".join(b.split()) for t in topics.values() for b in t.split("\n\n")]
        lines = list(dict.fromkeys(" ".join(b.split()[:25]) for b in blocks if b.count(" ") > 8))
        text.mkdir(parents=True, exist_ok=True)
        (text / "train.txt").write_text("\n\n".join(lines[50:]) + "\n")
        (text / "valid.txt").write_text("\n\n".join(lines[:50]) + "\n")
    data, model = folder / "data", folder / "model"
    _once(folder, programs, prepare_pretrain(text / "train.txt", text / "valid.txt", data))
    _once(folder, programs, pretrain(data, model, 6, "--rel-pos", "--no-epoch-checkpoints"))
    if needs_glue:
        cut = folder / "glue-cut"
        for path in glue.glob("*/*.tsv"):
            if path.parent.name in ("CoLA", "MRPC") and not (cut / path.parent.name).is_dir():
                _cut(glue / path.parent.name, cut / path.parent.name)
        _once(folder, programs, prepare_glue(cut, data, folder / "glue"))


def _cut(folder: Path, out: Path, rows: int = 300) -> None:
    out.mkdir(parents=True)
    for path in folder.glob("*.tsv"):
        with open(path, encoding="utf-8", newline="") as file:
            head = [line for line, _ in zip(file, range(rows + 1))]
        (out / path.name).write_bytes("".join(head).encode())


def _once(folder: Path, programs: Path, command: list[str]) -> None:
    ended = attempt([command], programs, folder, folder / "inputs.log", environment())
    if ended.code:
        sys.exit(f"scripts/soak.sh: error: an input was not made; see {folder / 'inputs.log'}")


class Soak:
    """The kills of one subject.

    Args:
        name (str): of the subject.
        subject (Subject): what is killed.
        programs (Path): the folder of the programs.
        folder (Path): for its outputs; emptied first.
        kills (int): how many.
        seed (int): of the moments.
    """

    def __init__(
        self, name: str, subject: Subject, programs: Path, folder: Path, kills: int, seed: int
    ):
        self.name, self.subject, self.programs = name, subject, programs
        self.folder, self.kills = folder, kills
        self.chance = random.Random(f"{name} {seed}")
        self.ends: list[Ended] = []
        self.problems: list[str] = []

    def run(self) -> str:
        """Kill and compare; the line of the table."""
        begun = time.monotonic()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        whole, expected = self._finish(self.folder / "unkilled", 0, 0.0)
        if self.problems:
            return f"{self.name:<18}FAILED without kills: {self.problems[0]}"
        number, done = 0, 0
        while done < self.kills and number < 3 * self.kills:
            number += 1
            out = self.folder / f"killed-{number}"
            kills = min(self.chance.randint(3, 7), self.kills - done)
            before = len(self.problems)
            found = self._finish(out, kills, whole)[1]
            done = sum(end.killed for end in self.ends)
            if len(self.problems) == before:
                self._compare(out, expected, found)
            if len(self.problems) == before:
                shutil.rmtree(out)
        killed = [end for end in self.ends if end.killed]
        amid = sum(bool(end.half) for end in killed)
        refused = sum(end.refused for end in self.ends)
        for problem in self.problems:
            print(f"{self.name}: {problem}", flush=True)
        verdict = f"FAILED ({len(self.problems)})" if self.problems else "the same"
        seconds = time.monotonic() - begun
        return (
            f"{self.name:<18}{len(killed)} kills, {amid} of them amid a file, {refused} restarts "
            f"refused at first, {number} runs finished: {verdict} ({seconds:.0f} s)"
        )

    def _finish(self, out: Path, kills: int, duration: float):
        """Kill so often, or until it is finished; then let it finish."""
        log = out.with_suffix(".log")
        out.mkdir(parents=True)
        moments = [Kill.chosen(self.chance, duration) for _ in range(kills)]
        for kill in [*moments, None]:
            commands = self.subject.commands(out)
            ended = attempt(commands, self.programs, out, log, environment(), kill)
            self.ends.append(ended)
            if not ended.killed:
                break
            with open(log, "a") as file:
                file.write(f"\n==== killed: {kill}; half: {', '.join(ended.half) or 'none'}\n")
        if ended.code:
            self.problems.append(f"exit code {ended.code} after kills; see {log}")
            return ended.seconds, {}
        return ended.seconds, self.subject.result(out, log.read_text(errors="replace"))

    def _compare(self, out: Path, expected: dict[str, object], found: dict[str, object]) -> None:
        names = [*expected, *(name for name in found if name not in expected)]
        wrong = [name for name in names if expected.get(name) != found.get(name)]
        if wrong:
            self.problems.append(
                f"{out}: not as without kills: {', '.join(wrong[:6])} ({len(wrong)} in all)"
            )


if __name__ == "__main__":
    main()
