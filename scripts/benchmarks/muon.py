"""CPU time of an update with --optimizer muon, compared with fused_adam.

    python scripts/benchmarks/muon.py DATA     # 12 minutes

DATA is a folder of tupe-prepare-pretrain. An update's time is the difference between a longer and a
shorter training, by the updates that one has more. The trainings take turns, on the CPU with one
thread. What muon gains in losses is in examples/pretraining.
"""

import argparse
import os
import resource
import subprocess
from statistics import median

from tupe_fairseq.recipe import PRE_TRAINING
from tupe_fairseq.runs.process import PACKAGE

FOUR_LAYERS = (
    "--encoder-layers 4 --encoder-embed-dim 192 --encoder-ffn-embed-dim 768 "
    "--dropout 0 --attention-dropout 0"
)
# architecture, further flags, updates of a shorter and of a longer training, rounds
SIZES = {
    "4 layers of 192": ("tupe_roberta_tiny", FOUR_LAYERS, 10, 50, 3),
    "12 layers of 768": ("tupe_roberta_base", "", 1, 4, 1),
}
OPTIMIZERS = ("fused_adam", "muon")


def cpu_seconds(data: str, arch: str, flags: str, optimizer: str, updates: int) -> float:
    command = ["fairseq-train", data, "--user-dir", PACKAGE, "--arch", arch, "--rel-pos"]
    command += ["--task", "tupe_masked_lm", "--criterion", "masked_lm", "--max-positions", "128"]
    command += ["--tokens-per-sample", "128", "--sample-break-mode", "complete", "--cpu"]
    command += [*PRE_TRAINING, "--optimizer", optimizer, "--lr", "1e-3", "--batch-size", "16"]
    command += ["--skip-invalid-size-inputs-valid-test", "--no-save", "--disable-validation"]
    command += [*flags.split(), "--max-update", str(updates)]
    env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env={**os.environ, **env}, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA")
    data = parser.parse_args().data
    for name, (arch, flags, short, long, number) in SIZES.items():
        rounds: dict[str, list[float]] = {optimizer: [] for optimizer in OPTIMIZERS}
        for _ in range(number):
            for optimizer, seconds in rounds.items():
                less, more = (
                    cpu_seconds(data, arch, flags, optimizer, updates) for updates in (short, long)
                )
                seconds.append((more - less) / (long - short))
        ratios = [muon / adam for adam, muon in zip(*rounds.values())]
        row = " ".join(f"{optimizer} {median(x):.3f}" for optimizer, x in rounds.items())
        ends = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{name}: {row} seconds, ratio {median(ratios):.2f} ({ends})", flush=True)


if __name__ == "__main__":
    main()
