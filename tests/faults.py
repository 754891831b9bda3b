"""Faults of one line in the package, each of which a test must catch.

    python tests/faults.py [PART_OF_A_FILE_NAME]

Each fault is put into a copy of the repository, where its test must pass without the fault and
fail with it. The exit code is 1 if a fault is missed.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
GOLDENS = "core/test_goldens.py -k eager"
SCHEMES = "core/test_schemes.py"

# fmt: off
#: a file of tupe_fairseq/, pytest's arguments below tests/, a text that occurs once, the fault
FAULTS = [
    ("position/tupe.py", GOLDENS,
     "bias = self.scaling * torch.matmul(", "bias = -self.scaling * torch.matmul("),
    ("position/t5_bias.py", SCHEMES,
     "far = (exact + (log", "far = (exact + 1 + (log"),
    ("position/t5_bias.py", GOLDENS,
     "torch.where(column_is_cls, other_to_cls[:, None, None], bias)",
     "torch.where(column_is_cls, cls_to_other[:, None, None], bias)"),
    ("position/alibi.py", SCHEMES,
     "slopes = [2 ** (-8 * (h + 1) / lower)", "slopes = [2 ** (-8 * h / lower)"),
    ("position/fire.py", SCHEMES,
     "larger = i - j, torch.maximum(i, j)", "larger = i - j, i + 0 * j"),
    ("position/kerple.py", SCHEMES, "torch.log1p(r2 * distance", "r2 * torch.log1p(distance"),
    ("position/pope.py", SCHEMES, "cos * x - sin * y", "cos * x + sin * y"),
    ("position/deberta.py", SCHEMES, "torch.matmul(k, table_q), rows)",
     "torch.matmul(k, table_q), rows.transpose(-2, -1))"),
    ("position/rope.py", SCHEMES, "both[1, ..., self.num_rotated :] = 0", "pass"),
    ("position/base.py", "core/test_oracle.py -k one_way",
     "(distance > 0, distance < 0)", "(distance > 0, distance <= 0)"),
    ("position/relative_keys.py", SCHEMES,
     "narrow(-1, num_queries - 1, num_queries * row)",
     "narrow(-1, num_queries - 2, num_queries * row)"),
    ("position/disentangled.py", SCHEMES,
     "+ pos_q @ k.transpose(-2, -1))", "+ q @ pos_k.transpose(-2, -1))"),
    ("position/base.py", f"{SCHEMES} -k half_precision",
     "x.dtype.itemsize > 2", "x.dtype.itemsize"),
    ("position/base.py", "core/test_properties.py -k causal",
     "is_later = relative_positions(positions_q, positions_k, q.device) > 0",
     "is_later = relative_positions(positions_q, positions_k, q.device) > 1"),
    ("attention/chunked.py", "core/test_attention.py",
     "2**16 / (2**16 - dropped) if dropped < 2**16", "1.0 if dropped < 2**16"),
    ("attention/sequences.py", "core/test_encoder.py",
     "starts[:, 0] = True", "starts[:] = torch.arange(starts.size(1)) == 0"),
    ("modules/record.py", "core/test_encoder.py",
     "if old != new and not", "if type(old) is not type(new) and not"),
    ("modules/record.py", "checkpoint/test_old_checkpoints.py -k from_pretrained",
     'RECORD = "position_version"', 'RECORD = "options_version"'),
    ("checkpoint/fit.py", "fairseq/test_refusals.py -k another_vocabulary",
     "if version not in (None, int(vocabulary_version(symbols))):", "if False:"),
    ("checkpoint/fit.py", "fairseq/test_refusals.py -k another_model",
     "for name in {**own, **tensors}", "for name in own"),
    ("checkpoint/checkpoint.py", "checkpoint/test_checkpoint.py -k instructions_that",
     "if name not in substitutes and not _OF_TORCH.fullmatch(name):", "if name in ():"),
    ("data/truncation.py", "data/test_tokens.py -k context",
     "following <= begin + room // 2", "following <= begin + room"),
    ("tasks/masked_lm.py", "fairseq/test_documents.py -k those_of_fairseq",
     "(self.seed, self.epoch.item(), index)", "(self.seed, 1, index)"),
    ("data/corpus.py", "data/test_text.py -k share",
     "np.uint64(fraction * 2**64)", "np.uint64(fraction * 2**63)"),
    ("finetune/results.py", "finetune/test_scoring.py",
     "name: median(one[split][name]", "name: max(one[split][name]"),
    ("runs/study.py", "finetune/test_scoring.py -k chosen_apart",
     "for x in common or own)", "for x in own)"),
    ("results/intervals.py", "compare/test_compare.py -k over_the_seeds",
     "t.ppf(0.975, n - 1)", "t.ppf(0.975, n)"),
    ("export/names.py", "export/test_modeling_tupe.py",
     '    "normalize_before": "encoder_normalize_before",\n', ""),
    ("position/base.py", "export/test_modeling_tupe.py -k where_transformers",
     'self.register_buffer("unit", torch.ones((), device="cpu"), persistent=False)',
     'self.unit = torch.ones((), device="cpu")'),
    ("inference/texts.py", "cli/test_predict.py -k 'endings or vectors'",
     "zip(rows, outputs.cpu().numpy())", "zip(sorted(rows), outputs.cpu().numpy())"),
    ("data/metrics.py", "cli/test_evaluate.py -k draws",
     "number = len(sizes) if of_all else", "number = len(sizes) if True else"),
    ("data/metrics.py", "cli/test_evaluate.py -k draws",
     "n.cumsum() - (n - 1) / 2", "n.cumsum() - n + 1"),
    ("results/evaluation.py", "cli/test_evaluate.py -k calibration",
     "np.ceil(sure * _BINS).astype(int) - 1", "(sure * _BINS).astype(int) - 1"),
    ("models/tupe_decoder.py", "fairseq/test_decoders.py -k 'not train and not refused'",
     "x.index_select(0, new_order) for name, x in cache",
     "x.index_select(0, new_order.sort()[0]) for name, x in cache"),
]
# fmt: on


def passes(folder: Path, tests: str) -> bool:
    """Whether the tests pass with the package of the copy."""
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *shlex.split(tests)]
    done = subprocess.run(command, cwd=folder / "tests", env=env, capture_output=True, text=True)
    if done.returncode > 1:  # no tests were run
        sys.exit(done.stdout + done.stderr)
    return done.returncode == 0


def main(part: str = "") -> None:
    missed = 0
    for file, tests, old, new in FAULTS:
        if part not in file:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for entry in ("tupe_fairseq", "tests", "examples", "scripts", "pyproject.toml"):
                copy = shutil.copytree if (REPO / entry).is_dir() else shutil.copy
                copy(REPO / entry, folder / entry)
            if not passes(folder, tests):
                sys.exit(f"{tests} fails without a fault")
            path = folder / "tupe_fairseq" / file
            path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
            caught = not passes(folder, tests)
        missed += not caught
        print("caught" if caught else "MISSED", file, "by", tests, flush=True)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
