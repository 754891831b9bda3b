"""Calls one model from several threads for a long time: the same numbers, and flat memory."""

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Dict, List, Tuple

import torch

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests"), str(REPO)]

from helpers import exporting  # noqa: E402
from tupe_fairseq import TupeRobertaModel  # noqa: E402

HEADS, WARM = 4, 1000
_VARIANTS = 3


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/long_lived/calls_from_threads.py",
        description="Call extract_features of one from_pretrained model on texts of all lengths "
        "from several threads. Each result is to be that of one thread, bit for bit, and the "
        f"memory after {WARM} calls that of the end: what is kept is bounded.",
        epilog="example: scripts/long_lived/calls_from_threads.py --calls 10000 --threads 4",
    )
    add = parser.add_argument
    add("--calls", type=int, default=10_000, metavar="N", help="in all; default %(default)s")
    add("--threads", type=int, default=4, metavar="N", help="default %(default)s")
    add("--longest", type=int, default=128, metavar="N", help="tokens; default %(default)s")
    add("--seed", type=int, default=1, metavar="N", help="of the texts; default %(default)s")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    if args.calls < 2 * WARM:
        sys.exit(f"{get_parser().prog}: error: --calls ({args.calls}) must be at least {2 * WARM}")
    with tempfile.TemporaryDirectory() as folder:
        hub = _model(Path(folder), args.longest)
    texts = _texts(hub, args.longest, args.seed)
    with torch.no_grad():
        expected = {key: hub.extract_features(tokens) for key, tokens in texts.items()}
    calls = Calls(hub, texts, expected, args.calls)
    threads = [threading.Thread(target=calls.make, args=(n,)) for n in range(args.threads)]
    begun = time.monotonic()
    [thread.start() for thread in threads]
    print(f"{'calls':>7}{'MiB':>9}")
    seen: Dict[int, float] = {}
    for mark in range(WARM, args.calls + 1, WARM):
        while calls.made < mark and any(thread.is_alive() for thread in threads):
            time.sleep(0.05)
        seen[mark] = _resident()
        print(f"{calls.made:>7}{seen[mark]:>9.1f}", flush=True)
    [thread.join() for thread in threads]
    bound, growth = _bound(args.threads, args.longest), max(seen.values()) - seen[WARM]
    print(
        f"{calls.made} calls from {args.threads} threads in {time.monotonic() - begun:.0f} s, "
        f"{len(calls.failures)} not as from one thread; memory grew by {growth:.1f} MiB after the "
        f"first {WARM}, {bound:.1f} at most"
    )
    for failure in calls.failures[:5]:
        print(f"FAILED: {failure}")
    sys.exit(bool(calls.failures) or growth > bound or calls.made < args.calls)


def _model(folder: Path, longest: int) -> TupeRobertaModel:
    torch.manual_seed(1)
    data = exporting.write_vocabulary(folder / "data")
    exporting.write_model(
        folder / "model", data, rel_pos=True, max_positions=longest,
        encoder_embed_dim=16 * HEADS, encoder_attention_heads=HEADS,
    )  # fmt: skip
    hub = TupeRobertaModel.from_pretrained(
        str(folder / "model"), exporting.CHECKPOINT, str(data), tokens_per_sample=longest
    )
    return hub.eval()


def _texts(hub, longest: int, seed: int) -> Dict[Tuple[int, int], torch.Tensor]:
    """{(length, variant): tokens}."""
    generator, words = torch.Generator().manual_seed(seed), len(hub.task.source_dictionary)
    texts = {}
    for length in range(2, longest + 1):
        for variant in range(_VARIANTS):
            tokens = torch.randint(4, words, (length,), generator=generator)
            tokens[0], tokens[-1] = 0, 2
            texts[length, variant] = tokens
    return texts


def _resident() -> float:
    """MiB of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _bound(threads: int, longest: int) -> float:
    """MiB between the least and the most that calls can leave in memory.

    Each thread may have freed, and its allocator not given back, what a call of the longest text
    computes: scores, probabilities, a bias and its parts, of the size of a bias each, and as much
    again, since what is freed does not fit what comes next.
    """
    bias = HEADS * longest**2 * 4 / 2**20
    return 2 * 6 * threads * bias


class Calls:
    """What threads have to call, and what they have seen.

    Args:
        hub: the model.
        texts (dict): the tokens of each text.
        expected (dict): their features.
        number (int): calls to make in all.
    """

    def __init__(self, hub, texts, expected, number: int):
        self._hub, self._texts, self._expected, self._number = hub, texts, expected, number
        self._lock = threading.Lock()
        self.made = 0
        self.failures: List[str] = []

    def make(self, seed: int) -> None:
        """Call until all is called."""
        order, keys = random.Random(seed), list(self._texts)
        try:
            while True:
                with self._lock:
                    if self.made >= self._number:
                        return
                    self.made += 1
                key = order.choice(keys)
                # grad mode is of each thread, and begins as on
                with torch.no_grad():
                    features = self._hub.extract_features(self._texts[key])
                if not features.equal(self._expected[key]):
                    self.failures.append(f"other features of the text {key}")
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
