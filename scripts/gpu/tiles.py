"""Tiles of the Triton kernels, timed over a small grid: the table for attention/triton_tiles.py."""

import argparse
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import torch
from attending import Request, distance
from kept_results import KeptResults, machine
from tupe_fairseq.attention.triton_tiles import TILES

NAME = "triton"
# tried for each constant of a kernel's tile; a kernel has one or two of BLOCK_..., and with the
# bias in factors, which take room, one stage less
GRID = {"BLOCK": (32, 64, 128), "num_warps": (4, 8), "num_stages": (2, 3)}
TOY_GRID = {"BLOCK": (16,), "num_warps": (4,), "num_stages": (2,)}
DROPOUTS = (0.0, 0.1)
# (16 bits, head_dim above 64, bias in factors) -> batch, length, heads, size of a head
SHAPES = {
    (True, False, False): (32, 512, 12, 64),
    (True, False, True): (2, 4096, 12, 64),
    (True, True, False): (32, 512, 6, 128),
    (True, True, True): (2, 4096, 6, 128),
    (False, False, False): (8, 512, 12, 64),
    (False, True, False): (8, 512, 6, 128),
}
TOY_SHAPES = {(False, False, False): (1, 20, 1, 8), (False, False, True): (1, 20, 1, 8)}
# of the answer with the table as it is, in eps: sums in another order
SAME = 8


class Candidate(NamedTuple):
    """Another tile for one kernel."""

    kind: Tuple[bool, bool, bool]
    kernel: str
    tile: Dict[str, int]

    def __str__(self):
        values = " ".join(f"{name}={value}" for name, value in self.tile.items())
        return f"{self.kind} {self.kernel} {values}"


def candidates(kind, kernel: str, grid) -> Iterator[Candidate]:
    """The table's own first."""
    own = TILES[kind][kernel]
    yield Candidate(kind, kernel, own)
    stages = [number - int(kind[2]) for number in grid["num_stages"]]
    grid = {**grid, "num_stages": stages}
    choices = [grid["BLOCK" if name.startswith("BLOCK") else name] for name in own]
    for values in itertools.product(*choices):
        tile = dict(zip(own, values))
        if tile != own:
            yield Candidate(kind, kernel, tile)


class Timer:
    """Forward and backward with one kernel's tile exchanged, beside the table as it is."""

    def __init__(self, device: str, toy: bool):
        self.device, self.rounds = device, 1 if toy else 3
        self.dropouts = DROPOUTS[1:] if toy else DROPOUTS
        self.shapes = TOY_SHAPES if toy else SHAPES
        self._requests: Dict[Any, Request] = {}

    def request(self, kind, batch=None) -> Request:
        if (kind, batch) not in self._requests:
            sizes = (batch or self.shapes[kind][0], *self.shapes[kind][1:])
            dtype = torch.bfloat16 if kind[0] else torch.float32
            given = {"device": self.device, "in_factors": kind[2]}
            self._requests[kind, batch] = Request(*sizes, dtype, **given)
        return self._requests[kind, batch]

    def attend(self, request: Request, dropout: float):
        torch.manual_seed(1)
        answer = request.answer(NAME, dropout=dropout)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return answer

    def measure(self, candidate: Candidate) -> Dict[str, Any]:
        request, table = self.request(candidate.kind), TILES[candidate.kind]
        own, ratios, error = table[candidate.kernel], [], 0.0
        try:
            for dropout in self.dropouts:
                expected = self.attend(request, dropout)
                table[candidate.kernel] = candidate.tile
                found = self.attend(request, dropout)
                table[candidate.kernel] = own
                eps = torch.finfo(request.qkv.dtype).eps
                pairs = zip(request.compared(found), request.compared(expected))
                error = max([error, *(distance(a, b) / eps for a, b in pairs)])
                ratios.append(self._ratio(request, dropout, candidate, own))
        except Exception as failure:  # whatever the compiler and the driver say to a tile
            if "CUDA error" in str(failure):  # nothing works in this process any more
                raise
            return {"failed": f"{type(failure).__name__}: {failure}".splitlines()[0][:120]}
        finally:
            table[candidate.kernel] = own
        return {"ratios": ratios, "error": error}

    def _ratio(self, request, dropout, candidate, own) -> float:
        """The least of each, in turns: what disturbs makes a call longer, never shorter."""
        table, least = TILES[candidate.kind], {}
        for _ in range(self.rounds):
            for name, tile in (("own", own), ("other", candidate.tile)):
                table[candidate.kernel] = tile
                begin = time.perf_counter()
                times = 1 if self.device == "cpu" else 20
                for _ in range(times):
                    request.answer(NAME, dropout=dropout)
                if self.device == "cuda":
                    torch.cuda.synchronize()
                least[name] = min(least.get(name, 1e9), (time.perf_counter() - begin) / times)
        return least["other"] / least["own"]


def compile_some(args, some: List[Candidate], timer: Timer) -> None:
    """Into Triton's cache, which the timed process reads; what fails does so there again."""
    for candidate in some:
        table = TILES[candidate.kind]
        own, table[candidate.kernel] = table[candidate.kernel], candidate.tile
        for dropout in timer.dropouts:
            try:
                timer.attend(timer.request(candidate.kind, batch=1), dropout)
            except Exception:  # see Timer.measure
                continue
        table[candidate.kernel] = own


def best_table(kept: KeptResults, grid, shapes) -> Dict[Any, Dict[str, Dict[str, int]]]:
    """The least mean ratio of those whose answer is the same; the own where nothing is measured."""
    table = {kind: dict(kernels) for kind, kernels in TILES.items()}
    for kind in shapes:
        for kernel in TILES[kind]:
            least = 1.0
            for candidate in candidates(kind, kernel, grid):
                result = kept.cases.get(str(candidate), {})
                if result == "begun" or "ratios" not in result or not result["error"] <= SAME:
                    continue
                ratio = sum(result["ratios"]) / len(result["ratios"])
                if ratio < least:
                    least, table[kind][kernel] = ratio, candidate.tile
    return table


def source(table) -> str:
    """As Python, for attention/triton_tiles.py."""
    lines = ["TILES = {"]
    for kind, kernels in table.items():
        lines.append(f"    {kind}: {{")
        for name, tile in kernels.items():
            values = ", ".join(f'"{key}": {value}' for key, value in tile.items())
            lines.append(f'        "{name}": {{{values}}},')
        lines.append("    },")
    return "\n".join([*lines, "}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--compile", metavar="I/N", help="only compile, this share")
    args = parser.parse_args()
    timer, grid = Timer(args.device, args.toy), TOY_GRID if args.toy else GRID
    every = [
        candidate
        for kind in timer.shapes
        for kernel in TILES[kind]
        for candidate in candidates(kind, kernel, grid)
    ]
    if args.compile:
        first, step = map(int, args.compile.split("/"))
        return compile_some(args, every[first::step], timer)
    about = machine(args.device, toy=args.toy, table=str(TILES))
    kept = KeptResults(args.out / "tiles.json", about, args.seconds)
    if args.device == "cuda":
        start_compilers(args)

    def say(name, result):
        if "failed" in result:
            print(f"{name}: {result['failed']}", flush=True)
        else:
            ratios = " ".join(f"{ratio:.3f}" for ratio in result["ratios"])
            wrong = "" if result["error"] <= SAME else f"  WRONG by {result['error']:.1f} eps"
            print(f"{name}: {ratios}{wrong}", flush=True)

    print("time of forward and backward, of that with the table as it is, dropout", *timer.dropouts)
    try:
        cases = ((str(one), lambda one=one: timer.measure(one)) for one in every)
        kept.run(cases, say)
    finally:
        table = best_table(kept, grid, timer.shapes)
        text = source(table)
        (args.out / "tiles.py").write_text(text + "\n")
        target = "tupe_fairseq/attention/triton_tiles.py"
        print(f"\nfor {target}, also in {args.out / 'tiles.py'}:\n{text}")
    for kind in timer.shapes:
        print(f"{kind}: all of them together: {together(timer, kind, table[kind])}", flush=True)


def start_compilers(args) -> None:
    """Processes that compile ahead of the timing, which waits for them: they share the GPU."""
    count = max((os.cpu_count() or 2) - 2, 1)
    words = [sys.executable, __file__, args.out, "--device", args.device, "--compile"]
    running = [
        subprocess.Popen([*map(str, words), f"{number}/{count}"], stdout=subprocess.DEVNULL)
        for number in range(count)
    ]
    end = time.monotonic() + args.seconds * 0.6
    for process in running:
        try:
            process.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def together(timer: Timer, kind, tiles) -> str:
    """The ratio of the whole new table for one kind, in turns with the old."""
    request, table, found = timer.request(kind), TILES[kind], []
    own = dict(table)
    for dropout in timer.dropouts:
        least = {}
        for _ in range(timer.rounds):
            for name, other in (("own", own), ("new", tiles)):
                table.update(other)
                timer.attend(request, dropout)
                begin = time.perf_counter()
                for _ in range(1 if timer.device == "cpu" else 20):
                    request.answer(NAME, dropout=dropout)
                if timer.device == "cuda":
                    torch.cuda.synchronize()
                least[name] = min(least.get(name, 1e9), time.perf_counter() - begin)
        table.update(own)
        found.append(f"{least['new'] / least['own']:.3f}")
    return " ".join(found)


if __name__ == "__main__":
    sys.exit(main())
