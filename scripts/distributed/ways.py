"""Ways to start one training: which processes, and with which one it must agree."""

import shlex
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Optional

from one_training import hydra, train, words_of


@dataclass(frozen=True)
class Way:
    """Commands that are one training.

    Args:
        commands (callable): data folder and --save-dir to commands, each a list of words.
        like (str): the way that it must agree with; None for one that others are compared with.
        refused (str): what it must say, and end, instead of training.
    """

    commands: Callable[[Path, Path], List[List[str]]]
    like: Optional[str] = None
    refused: Optional[str] = None


def free_port() -> int:
    """A TCP port that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def by_hand(workers: int, *flags) -> Callable[[Path, Path], List[List[str]]]:
    """A command for each worker."""

    def commands(data: Path, save_dir: Path) -> List[List[str]]:
        common = [
            *_GLOO, "--distributed-world-size", workers,
            "--distributed-init-method", f"tcp://127.0.0.1:{free_port()}",
        ]  # fmt: skip
        return [
            train(data, save_dir, *common, "--distributed-rank", rank, *flags)
            for rank in range(workers)
        ]

    return commands


def by_torchrun(workers: int, machines: int = 1) -> Callable[[Path, Path], List[List[str]]]:
    """torchrun on each machine; each worker writes its process id next to --save-dir."""

    def commands(data: Path, save_dir: Path) -> List[List[str]]:
        words = " ".join(map(shlex.quote, train(data, save_dir, *_GLOO)))
        written = shlex.quote(f"{save_dir}-pid-")
        # not $$, which torchrun makes $ of
        return _agents(
            machines, workers, f"echo $BASHPID > {written}$RANK; exec {words} "
            "--distributed-init-method env:// --distributed-world-size $WORLD_SIZE "
            "--distributed-rank $RANK",
        )  # fmt: skip

    return commands


def hydra_by_torchrun(data: Path, save_dir: Path) -> List[List[str]]:
    """Two machines of two workers, as examples/pretraining has it."""
    words = " ".join(map(shlex.quote, hydra(data, save_dir)))
    return _agents(
        2, 2, f"exec {words} distributed_training.distributed_init_method=env:// "
        "distributed_training.distributed_no_spawn=true "
        "distributed_training.distributed_world_size=$WORLD_SIZE "
        "distributed_training.distributed_rank=$RANK "
        "distributed_training.distributed_backend=gloo distributed_training.ddp_backend=legacy_ddp",
    )  # fmt: skip


def _agents(machines: int, workers: int, command: str) -> List[List[str]]:
    where = ["--standalone"]
    if machines > 1:
        where = ["--master_addr", "127.0.0.1", "--master_port", free_port()]
    return [
        words_of(
            "torchrun", "--nnodes", machines, "--node_rank", rank, "--nproc_per_node", workers,
            *where, "--no_python", "bash", "-c", command,
        )
        for rank in range(machines)
    ]  # fmt: skip


_GLOO = [
    "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--distributed-no-spawn"
]  # fmt: skip
_C10D = ["--ddp-backend", "c10d"]
_FIND = "--find-unused-parameters"
# one batch an update in the same order, however large it is, as each of them draws its layers
_DROPS = ["--encoder-layerdrop", 0.3, "--curriculum", 9]
# to which no gradient is the same as one of zeros, which legacy_ddp makes of it
_SGD = ["--optimizer", "sgd", "--lr", 0.5]
# as this is drawn on the CPU like the layers, each worker then leaves out other ones
_APART = [*_DROPS, *_SGD, "--dropout", 0.1]


def _alone(*flags) -> Way:
    return Way(lambda data, save_dir: [train(data, save_dir, *flags)])


WAYS: Dict[str, Way] = {
    "one-2": _alone("--update-freq", 2),
    "one-4": _alone("--update-freq", 4),
    "one-hydra-4": Way(
        lambda data, save_dir: [hydra(data, save_dir, "optimization.update_freq=[4]")]
    ),
    "hand-2": Way(by_hand(2), "one-2"),
    "hand-4": Way(by_hand(4), "one-4"),
    "torchrun-2": Way(by_torchrun(2), "one-2"),
    "torchrun-4": Way(by_torchrun(4), "one-4"),
    "machines": Way(hydra_by_torchrun, "one-hydra-4"),
    "update-freq": Way(by_hand(2, "--update-freq", 2), "one-4"),
    "activations": Way(by_hand(2, "--checkpoint-activations"), "one-2"),
    "c10d": Way(by_hand(2, *_C10D), "one-2"),
    "c10d-update-freq": Way(by_hand(2, *_C10D, "--update-freq", 2), "one-4"),
    "c10d-activations": Way(by_hand(2, *_C10D, "--checkpoint-activations"), "one-2"),
    "one-layerdrop": _alone(*_DROPS, "--batch-size", 8),
    "one-layerdrop-sgd": _alone(*_DROPS, *_SGD, "--batch-size", 8),
    "layerdrop": Way(by_hand(2, *_DROPS, *_SGD), "one-layerdrop-sgd"),
    "c10d-layerdrop": Way(by_hand(2, *_C10D, *_DROPS, _FIND), "one-layerdrop"),
    "layerdrop-apart": Way(by_hand(2, *_APART), "c10d-apart"),
    "c10d-apart": Way(by_hand(2, *_C10D, *_APART, _FIND)),
    "c10d-refused": Way(by_hand(2, *_C10D, *_DROPS), refused=_FIND),
}
