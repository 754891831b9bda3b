"""Trainings that are made once, compared, and put into a line of the table."""

import shutil
import sys
from pathlib import Path
from typing import Dict, List, Tuple

from agreement import Trained, distance, furthest, trained
from deaths import DEATHS, LIMIT
from launching import launched
from one_training import UPDATES, preprocess
from ways import WAYS


class Trials:
    """Trainings, each made once.

    Args:
        out (Path): folder for everything.
        programs (Path): the folder of the programs.
    """

    def __init__(self, out: Path, programs: Path):
        self.out, self.programs = out, programs
        self.data = out / "data"
        self._made: Dict[str, Trained] = {}
        self._seconds: Dict[str, float] = {}
        self._inputs()

    def line(self, name: str) -> str:
        """Train and compare; the line of the table, which is also printed."""
        way = WAYS[name] if name in WAYS else DEATHS[name]
        try:
            if name in DEATHS:
                verdict = self._death(name)
            elif way.refused is not None:
                verdict = self._refusal(name, way.refused)
            else:
                found = distance(self._training(name), self._training(way.like))
                verdict = found.verdict()
        except (ValueError, TimeoutError) as error:
            verdict = f"FAILED: {error}"
        line = f"{name:<18}{way.like or '':<19}{verdict} ({self._seconds.get(name, 0):.0f} s)"
        print(line, flush=True)
        return line

    def _training(self, name: str) -> Trained:
        if name not in self._made:
            codes, said = self._run(name)
            if any(codes):
                raise ValueError(f"{name} ended with {codes}; see {self.out / name}-0.log")
            self._made[name] = trained(self.out / name, said)
        return self._made[name]

    def _refusal(self, name: str, words: str) -> str:
        codes, said = self._run(name)
        if not all(codes) or words not in said:
            raise ValueError(f"ended with {codes}, without naming {words}")
        last = [line for line in said.splitlines() if words in line][-1]
        return f"refused: {last.strip()}"

    def _death(self, name: str) -> str:
        death, save_dir = DEATHS[name], self._new_folder(name)
        log = self.out / f"{name}-killed"
        with launched(death.commands(self.data, save_dir), self.programs, log) as running:
            death.strike(running, save_dir)
            killed = running.seconds()
            codes = running.wait(LIMIT)
            until_end, said = running.seconds() - killed, running.said()
        if not all(codes) or not any(words in said for words in death.words):
            raise ValueError(f"ended with {codes}, without {death.words}; see {log}-0.log")
        with launched(death.commands(self.data, save_dir), self.programs, save_dir) as running:
            codes, said = running.wait(), running.said()
        self._seconds[name] = running.seconds()
        if any(codes) or ("checkpoint_last.pt (epoch 1 @ 10 updates)" in said) == death.is_early:
            raise ValueError(f"did not go on: {codes}; see {save_dir}-0.log")
        like = self._training(death.like).weights
        if furthest(trained(save_dir, said).weights[UPDATES], like[UPDATES]):
            raise ValueError("went on to other weights")
        return f"the other ended after {until_end:.0f} s, and it went on to the same weights"

    def _new_folder(self, name: str) -> Path:
        shutil.rmtree(self.out / name, ignore_errors=True)
        for path in self.out.glob(f"{name}-pid-*"):
            path.unlink()
        return self.out / name

    def _run(self, name: str) -> Tuple[List[int], str]:
        save_dir = self._new_folder(name)
        commands = WAYS[name].commands(self.data, save_dir)
        with launched(commands, self.programs, save_dir) as running:
            codes = running.wait()
            self._seconds[name] = running.seconds()
            return codes, running.said()

    def _inputs(self) -> None:
        text = self.out / "text"
        if (self.data / "valid.idx").exists():
            return
        from pydoc_data.topics import topics

        blocks = [" ".join(b.split()) for t in topics.values() for b in t.split("\n\n")]
        lines = list(dict.fromkeys(" ".join(b.split()[:25]) for b in blocks if b.count(" ") > 8))
        text.mkdir(parents=True, exist_ok=True)
        (text / "train.txt").write_text("\n".join(lines[20:520]) + "\n")
        (text / "valid.txt").write_text("\n".join(lines[:20]) + "\n")
        shutil.rmtree(self.data, ignore_errors=True)
        with launched([preprocess(text, self.data)], self.programs, self.out / "inputs") as made:
            if any(made.wait()):
                sys.exit(f"scripts/distributed.sh: error: no data; see {made.logs[0]}")
