"""How much longer than ``python -c pass`` each command takes to show its --help.

python scripts/benchmarks/start_up.py          # a minute; ends with 1 if one takes 0.2 s more
"""

import resource
import subprocess
import sys
import time
from statistics import median

from tupe_fairseq.cli.main import COMMANDS

ROUNDS, MOST = 5, 0.2


def seconds(words: list[str]) -> tuple[float, float]:
    """Wall clock and processor time of a process; the latter hardly depends on what else runs."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    calls = {name: ["-m", "tupe_fairseq", name, "--help"] for name in COMMANDS}
    calls = {"python -c pass": ["-c", "pass"], **calls}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):  # the first one, which fills caches, does not count
        for name, words in calls.items():
            found[name].append(seconds(words))
    times = {name: [median(x) for x in zip(*all_[1:])] for name, all_ in found.items()}
    bare = times["python -c pass"]
    for name, (wall, cpu) in times.items():
        print(f"{name:17} {wall:.3f} s, {wall - bare[0]:+.3f} s; processor {cpu - bare[1]:+.3f} s")
    return int(max(cpu for _, cpu in times.values()) - bare[1] > MOST)


if __name__ == "__main__":
    sys.exit(main())
