"""One-line faults in the package, each of which the tests named beside it must catch.

    python tests/faults.py [--only NAME ...] [--list]

Each fault is put into a copy of the repository, never into the repository itself, and the tests run
there. First the copy without a fault must pass all of them: tests that fail anyway would seem to
catch everything. Exit code 1 if a fault is missed.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parents[1]
ENCODINGS = "tests/recorded/test_recorded.py -k encoding"
GOLDENS = "tests/core/test_goldens.py -k eager"
SCHEMES = "tests/core/test_schemes.py"
ENCODER = "tests/core/test_encoder.py"
ATTENTION = "tests/core/test_attention.py"
DECODERS = "tests/fairseq/test_decoders.py -k 'not train and not refused'"


class Fault(NamedTuple):
    """``new`` in place of ``old``, which is in the file exactly once.

    ``tests`` are the arguments of pytest: files, ``::`` and ``-k`` as usual.
    """

    name: str
    file: str  # in tupe_fairseq/
    old: str
    new: str
    tests: str


FAULTS = [
    # ---- Positions
    Fault(
        "sign of the absolute term",
        "position/tupe.py",
        "bias = self.scaling * torch.matmul(",
        "bias = -self.scaling * torch.matmul(",
        GOLDENS,
    ),
    Fault(
        "scaling for one term instead of two",
        "position/tupe.py",
        "scaling=(2 * embed_dim",
        "scaling=(1 * embed_dim",
        GOLDENS,
    ),
    Fault(
        "T5's far buckets off by one",
        "position/t5_bias.py",
        "far = (exact + (log",
        "far = (exact + 1 + (log",
        "tests/core/test_oracle.py",
    ),
    Fault(
        "before and after swapped in T5's buckets",
        "position/t5_bias.py",
        "(relative_position > 0).long() * half",
        "(relative_position < 0).long() * half",
        "tests/core/test_oracle.py",
    ),
    Fault(
        "distances in reverse where positions are counted",
        "position/t5_bias.py",
        "by_distance.unfold(1, n, 1).flip(1)",
        "by_distance.unfold(1, n, 1)",
        GOLDENS,
    ),
    Fault(
        "the column of [CLS] gets the row's value",
        "position/t5_bias.py",
        "torch.where(column_is_cls, other_to_cls[:, None, None], bias)",
        "torch.where(column_is_cls, cls_to_other[:, None, None], bias)",
        GOLDENS,
    ),
    Fault(
        "the column of [CLS] wins over the row",
        "position/t5_bias.py",
        "return torch.where(row_is_cls, cls_to_other",
        "return torch.where(row_is_cls & ~column_is_cls, cls_to_other",
        SCHEMES,
    ),
    Fault(
        "one row of the table for both directions of [CLS]",
        "position/tupe.py",
        "for r in (0, 1))",
        "for r in (0, 0))",
        GOLDENS,
    ),
    Fault(
        "the row of [CLS] among T5's buckets",
        "position/t5_bias.py",
        "num_buckets + 1 if causal else num_buckets // 2",
        "num_buckets + 1 if causal else num_buckets",
        "tests/core/test_oracle.py",
    ),
    Fault(
        "slopes of ALiBi",
        "position/alibi.py",
        "slopes = [2 ** (-8 * (h + 1) / lower)",
        "slopes = [2 ** (-8 * h / lower)",
        SCHEMES,
    ),
    Fault(
        "angles of RoPE",
        "position/rope.py",
        "10000.0 ** (-steps / half)",
        "10000.0 ** (-steps / (half + 1))",
        SCHEMES,
    ),
    Fault(
        "Shaw's distances cut one too early",
        "position/shaw.py",
        ".clamp(-reach, reach)",
        ".clamp(-reach, reach - 1)",
        SCHEMES,
    ),
    Fault(
        "shortest half-life of Enformer",
        "position/relative_keys.py",
        "linspace(3, math.log2(longest)",
        "linspace(2, math.log2(longest)",
        SCHEMES,
    ),
    Fault(
        "Transformer-XL's distance with the other sign",
        "position/relative_keys.py",
        "distances = -in_float64(distances)",
        "distances = in_float64(distances)",
        SCHEMES,
    ),
    Fault(
        "Transformer-XL's shift off by one",
        "position/relative_keys.py",
        "narrow(-1, num_queries - 1, num_queries * row)",
        "narrow(-1, num_queries - 2, num_queries * row)",
        SCHEMES,
    ),
    Fault(
        "a global bias scaled twice",
        "position/relative_keys.py",
        "self.bias_scaling = 1.0",
        "self.bias_scaling = self.scaling",
        SCHEMES,
    ),
    Fault(
        "disentangled attention forgets position to word",
        "position/disentangled.py",
        "+ pos_q @ k.transpose(-2, -1))",
        "+ q @ pos_k.transpose(-2, -1))",
        SCHEMES,
    ),
    Fault(
        "frequencies of the sinusoid",
        "position/absolute.py",
        "max(half - 1, 1)",
        "max(half, 1)",
        SCHEMES,
    ),
    Fault(
        "a causal query sees later keys",
        "position/base.py",
        "is_later = relative_positions(positions_q, positions_k, q.device) > 0",
        "is_later = relative_positions(positions_q, positions_k, q.device) > 1",
        "tests/core/test_properties.py -k causal",
    ),
    Fault(
        "a bias of 16 bits",
        "position/tupe.py",
        "dtype = torch.promote_types(q.dtype, torch.float32)",
        "dtype = q.dtype",
        SCHEMES,
    ),
    # ---- Attention and the encoder
    Fault(
        "padding hides queries instead of keys",
        "attention/sdpa.py",
        "padding.mask[:, None, None, :]",
        "padding.mask[:, None, :, None]",
        GOLDENS,
    ),
    Fault(
        "scores of 16 bits",
        "attention/eager.py",
        "scores.to(torch.promote_types(scores.dtype, torch.float32))",
        "scores.to(scores.dtype)",
        ATTENTION,
    ),
    Fault(
        "a mask of 16 bits around 0, not around its maximum",
        "attention/sdpa.py",
        "mask = mask - mask.detach().amax(dim=-1, keepdim=True)",
        "pass",
        ATTENTION,
    ),
    Fault(
        "dropout does not scale what it keeps",
        "attention/chunked.py",
        "2**16 / (2**16 - dropped) if dropped < 2**16",
        "1.0 if dropped < 2**16",
        ATTENTION,
    ),
    Fault(
        "dropout drops another share",
        "attention/chunked.py",
        "self.threshold = dropped - 2**15 - 1",
        "self.threshold = dropped - 2**15 + 999",
        ATTENTION,
    ),
    Fault(
        "dropout of attention in evaluation",
        "modules/tupe_multihead_attention.py",
        "dropout = self.dropout if self.training else 0.0",
        "dropout = self.dropout",
        ENCODER,
    ),
    Fault(
        "another dropout mask in the backward pass",
        "attention/chunked.py",
        "DropoutMask(dropout, seed), torch.promote_types",
        "DropoutMask(dropout, seed + 1), torch.promote_types",
        ATTENTION,
    ),
    Fault(
        "the seed of dropout is fixed",
        "attention/chunked.py",
        "int(torch.randint(2**62, ())) if dropout else 0",
        "1 if dropout else 0",
        ATTENTION,
    ),
    Fault(
        "the gradient of the bias is scaled",
        "attention/chunked.py",
        "+= grad_scores\n",
        "+= scaling * grad_scores\n",
        ATTENTION,
    ),
    Fault(
        "packed sequences begin at the wrong token",
        "attention/chunked.py",
        "        start += n\n",
        "        start += max(n - 1, 0)\n",
        ATTENTION,
    ),
    Fault(
        "positions of packed tokens off by one",
        "encoder.py",
        "torch.cat([torch.arange(n) for n in (0, *lengths)])",
        "torch.cat([1 + torch.arange(n) for n in (0, *lengths)]).clamp(max=3)",
        ENCODER,
    ),
    Fault(
        "documents of a row are not kept apart",
        "attention/sdpa.py",
        "hidden = hidden | (documents",
        "hidden = hidden & (documents",
        ENCODER,
    ),
    Fault(
        "documents share the positions of their row",
        "attention/padding.py",
        "places - (places * starts)",
        "places - 0 * (places * starts)",
        ENCODER,
    ),
    Fault(
        "positions are added again before the first layer",
        "encoder.py",
        "if number and added is not None",
        "if added is not None",
        ENCODER,
    ),
    Fault(
        "padding enters the layers",
        "encoder.py",
        "x = x.masked_fill(padding.mask.unsqueeze(-1), 0)",
        "pass",
        ENCODER,
    ),
    Fault(
        "rounding noise as the gradient of a constant row",
        "encoder.py",
        "position.cls_row_is_constant",
        "not position",
        "tests/core/test_oracle.py",
    ),
    Fault(
        "pre-LN without its final LayerNorm",
        "encoder.py",
        "        if self.layer_norm is not None:",
        "        if False:",
        "tests/core/test_oracle.py",
    ),
    Fault(
        "no residual around attention",
        "modules/tupe_encoder_layer.py",
        "x = x + F.dropout(y, self.dropout, self.training)",
        "x = F.dropout(y, self.dropout, self.training)",
        GOLDENS,
    ),
    Fault(
        "the mean counts padding",
        "modules/pooling.py",
        "/ weights.sum(dim=1)",
        "/ real.size(1)",
        ATTENTION,
    ),
    # ---- State dicts and checkpoints
    Fault(
        "a name in state dicts",
        "encoder.py",
        'RECORD = "position_version"',
        'RECORD = "options_version"',
        ENCODER,
    ),
    Fault(
        "position options are not compared",
        "options.py",
        "if saved.get(name) != ours.get(name)",
        "if type(saved.get(name)) is not type(ours.get(name))",
        ENCODER,
    ),
    Fault(
        "a default of the record",
        "options.py",
        "MAX_DISTANCE = 128",
        "MAX_DISTANCE = 64",
        ENCODER,
    ),
    Fault(
        "another vocabulary of the same size is taken",
        "models/tupe_roberta.py",
        "if int(version) != int(self.encoder.vocabulary_version):",
        "if version.shape != self.encoder.vocabulary_version.shape:",
        "tests/fairseq/test_refusals.py -k another_vocabulary",
    ),
    Fault(
        "the hash of a vocabulary forgets its order",
        "checkpoint/checkpoint.py",
        '"\\n".join(symbols)',
        '"\\n".join(sorted(symbols))',
        "tests/recorded/test_recorded.py -k another_vocabulary",
    ),
    Fault(
        "a checkpoint may name any architecture",
        "checkpoint/allowed_options.py",
        r'r"tupe_roberta(_\w+)?"',
        r'r"\w+"',
        "tests/checkpoint/test_doors.py -k 'wrong_kind or other_models'",
    ),
    Fault(
        "a checkpoint may name any activation",
        "checkpoint/allowed_options.py",
        '"pooler_activation_fn": _POOLER_ACTIVATIONS',
        '"pooler_activation_fn": str',
        "tests/checkpoint/test_doors.py -k 'wrong_kind or other_models'",
    ),
    Fault(
        "a checkpoint may ask for any class",
        "checkpoint/checkpoint.py",
        "if name not in substitutes and not _OF_TORCH.fullmatch(name):",
        "if name in ():",
        "tests/checkpoint/test_checkpoint.py -k instructions_that",
    ),
    Fault(
        "infinite weights are accepted",
        "checkpoint/checkpoint.py",
        "if not torch.isfinite(tensor).all():",
        "if torch.isnan(tensor).all():",
        "tests/fairseq/test_safety.py -k finite",
    ),
    Fault(
        "a conversion mixes up queries' and keys' projections",
        "checkpoint/from_authors.py",
        "pos_q_proj",
        "pos_k_proj",
        "tests/checkpoint/test_from_authors.py -k computes_the_same",
    ),
    # ---- Trainings
    Fault(
        "starts of documents are predicted",
        "tasks/masked_lm.py",
        '"target": target.masked_fill(is_start, self.pad)',
        '"target": target',
        "tests/fairseq/test_documents.py -k never_masked",
    ),
    Fault(
        "whole words are not known",
        "tasks/masked_lm.py",
        "if self.cfg.mask_whole_words:",
        "if not self.cfg.mask_whole_words:",
        "tests/fairseq/test_documents.py -k as_a_whole",
    ),
    Fault(
        "warm-up is rounded up",
        "fairseq_runs/schedule.py",
        "math.floor(ratio * total + 0.5)",
        "math.ceil(ratio * total)",
        "tests/fairseq/test_sentence_prediction.py -k warmup",
    ),
    Fault(
        "every seed is 1",
        "finetune/command.py",
        '"--seed", run.seed',
        '"--seed", 1',
        "tests/finetune/test_command.py",
    ),
    Fault(
        "the first of a truncated pair loses a token",
        "data/truncation.py",
        "(room + 1) // 2",
        "room // 2",
        "tests/data/test_truncation.py",
    ),
    Fault(
        "truncation drops </s>",
        "tasks/sentence_prediction.py",
        "torch.cat([item[: size - 1], item[-1:]])",
        "item[:size]",
        "tests/fairseq/test_sentence_prediction.py -k trunc",
    ),
    Fault(
        "windows for tagging begin too far apart",
        "data/truncation.py",
        "following <= begin + room // 2",
        "following <= begin + room",
        "tests/data/test_truncation.py",
    ),
    Fault(
        "class weights have no effect",
        "criterions/sentence_prediction.py",
        'dim=-1), targets, weights, reduction="sum")',
        'dim=-1), targets, None, reduction="sum")',
        "tests/fairseq/test_sentence_prediction.py -k class_weights",
    ),
    Fault(
        "--balance weighs frequent classes more",
        "finetune/scoring.py",
        "weights = compute_class_weight(",
        "weights = 1 / compute_class_weight(",
        "tests/finetune/test_scoring.py",
    ),
    # ---- Metrics and results
    Fault(
        "kappa instead of Matthews",
        "data/metrics.py",
        "from sklearn.metrics import matthews_corrcoef",
        "from sklearn.metrics import cohen_kappa_score as matthews_corrcoef",
        "tests/data/test_metrics.py",
    ),
    Fault(
        "F1 over both classes",
        "data/metrics.py",
        '"f1": Metric((CLASSIFICATION,), _f1("binary")',
        '"f1": Metric((CLASSIFICATION,), _f1("macro")',
        "tests/data/test_metrics.py",
    ),
    Fault(
        "Pearson and Spearman swapped",
        "data/metrics.py",
        '_correlation("pearsonr"), _correlation("spearmanr")',
        '_correlation("spearmanr"), _correlation("pearsonr")',
        "tests/data/test_metrics.py",
    ),
    Fault(
        "the worst run is taken for the best",
        "finetune/scoring.py",
        "return max(scores, key=scores.__getitem__",
        "return min(scores, key=scores.__getitem__",
        "tests/finetune/test_scoring.py",
    ),
    Fault(
        "the best seed instead of the median",
        "finetune/scoring.py",
        "medians[split][name] = median(values)",
        "medians[split][name] = max(values)",
        "tests/finetune/test_scoring.py",
    ),
    Fault(
        "differences with the other sign",
        "compare/results.py",
        "loss - target if both",
        "target - loss if both",
        "tests/compare/test_compare.py -k over_the_seeds",
    ),
    Fault(
        "one degree of freedom too many",
        "compare/results.py",
        "t.ppf(0.975, n - 1)",
        "t.ppf(0.975, n)",
        "tests/compare/test_compare.py -k over_the_seeds",
    ),
    # ---- Export and inference
    Fault(
        "a tensor's name in exported folders",
        "export/names.py",
        '(LM_HEAD, "lm_head.", "lm_head."),',
        '(LM_HEAD, "lm_head.x", "lm_head."),',
        "tests/export/test_modeling_tupe.py",
    ),
    Fault(
        "an option that is not exported",
        "export/names.py",
        '    "normalize_before": "encoder_normalize_before",\n',
        "",
        "tests/export/test_modeling_tupe.py",
    ),
    Fault(
        "ids of exported tokenizers off by one",
        "export/tokenizer.py",
        "return [*symbols, *(token",
        "return [*symbols[:4], *symbols[5:], *(token",
        "tests/export/test_tokenizer.py -k sentencepiece",
    ),
    Fault(
        "predictions in the order of lengths",
        "inference/texts.py",
        "zip(rows, outputs.cpu().numpy())",
        "zip(sorted(rows), outputs.cpu().numpy())",
        "tests/inference/test_texts.py",
    ),
    Fault(
        "pseudo-likelihood masks the token before",
        "scoring/pseudo_likelihood.py",
        "1 + copies % scored",
        "copies % scored",
        "tests/inference/test_scoring.py -k scores_are",
    ),
    Fault(
        "the unacceptable sentence is to win",
        "scoring/minimal_pairs.py",
        "right=good > bad",
        "right=good < bad",
        "tests/inference/test_scoring.py -k by_hand",
    ),
    # ---- Data
    Fault(
        "other Unicode normalisation",
        "data/text_files.py",
        'unicodedata.normalize("NFC", ',
        'unicodedata.normalize("NFKC", ',
        "tests/data/test_vocabularies.py -k cleaning",
    ),
    Fault(
        "of duplicates the last one stays",
        "data/corpus.py",
        "is_new[order[1:][ordered",
        "is_new[order[:-1][ordered",
        "tests/data/test_text.py -k valid_file",
    ),
    Fault(
        "a split takes the others' share",
        "data/corpus.py",
        "in itertools.accumulate(fractions)]",
        "in fractions]",
        "tests/recorded/test_recorded.py -k 'prepare_pretrain and learned-1'",
    ),
    Fault(
        "order of several workers",
        "data/parallel.py",
        "waiting.append(pool.submit(_call, item))",
        "waiting.appendleft(pool.submit(_call, item))",
        "tests/data/test_vocabularies.py -k several",
    ),
    Fault(
        "sentences of STS-B swapped",
        "data/glue.py",
        '"STS-B", (8, 9)',
        '"STS-B", (9, 8)',
        "tests/data/test_glue.py",
    ),
    Fault(
        "order of RTE's labels",
        "data/glue.py",
        '("entailment", "not_entailment")',
        '("not_entailment", "entailment")',
        "tests/data/test_glue.py",
    ),
    Fault(
        "a dropped row of GLUE is not counted",
        "data/glue.py",
        "(rows.warnings if is_test else rows.dropped)[reason] += 1",
        "rows.warnings[reason] += is_test",
        "tests/data/test_glue.py",
    ),
    Fault(
        "an unmarked label is taken for the class after it",
        "tasks/sentence_prediction.py",
        "classes = [symbol - first for symbol",
        "classes = [symbol - first + 1 for symbol",
        "tests/fairseq/test_sentence_prediction.py -k order_of_the_dictionary",
    ),
    # ---- Decoders
    Fault(
        "no bias where there is a cache",
        "models/tupe_decoder.py",
        "bias = None if self.position is None else",
        "bias = None if self.position is None or x.size(1) == 1 else",
        DECODERS,
    ),
    Fault(
        "the row before in the bias of a step",
        "models/tupe_decoder.py",
        "last = torch.tensor([length - 1]",
        "last = torch.tensor([max(length - 2, 0)]",
        DECODERS,
    ),
    Fault(
        "one head's bias for all heads",
        "models/tupe_decoder.py",
        "bias = bias.to(x.device)",
        "bias = bias.to(x.device)[..., :1, :, :] if bias.dim() > 2 else bias",
        DECODERS,
    ),
    Fault(
        "a beam keeps another one's past",
        "models/tupe_decoder.py",
        "x.index_select(0, new_order) for name, x in cache",
        "x.index_select(0, new_order.sort()[0]) for name, x in cache",
        DECODERS,
    ),
    Fault(
        "left padding is seen",
        "models/tupe_decoder.py",
        "hidden = padding if hidden is None else hidden | padding",
        "hidden = hidden",
        DECODERS,
    ),
]


def copy_repository(folder: Path) -> None:
    for name in ("tupe_fairseq", "tests", "examples", "scripts", "README.md", "pyproject.toml"):
        source = REPO / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".hypothesis")
            shutil.copytree(source, folder / name, ignore=ignored)
        elif source.exists():
            shutil.copy2(source, folder / name)


def run_tests(folder: Path, tests: list[str]) -> tuple[int, str]:
    """pytest in the copy, from which the package must come."""
    env = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    code = (
        "import sys, pytest, tupe_fairseq\n"
        f"assert tupe_fairseq.__path__[0] == {str(folder / 'tupe_fairseq')!r}\n"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "-q", "-x", "--tb=no", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else "nothing printed"


def check_control(folder: Path, faults: list[Fault]) -> bool:
    """Whether all tests pass without a fault; those without ``-k`` in one call, for speed."""
    named = dict.fromkeys(fault.tests for fault in faults)
    files = dict.fromkeys(word for t in named if " -k " not in t for word in t.split())
    calls = [" ".join(files)] * bool(files) + [tests for tests in named if " -k " in tests]
    passed = True
    for tests in calls:
        code, output = run_tests(folder, shlex.split(tests))
        if code or not re.search(r"\d+ passed", output):
            passed = False
            found = re.search(r"(FAILED|ERROR) .+", output)
            why = found.group() if found else last_line(output)
            print(f"without a fault: {tests}: exit code {code}: {why}", flush=True)
    return passed


def put_in(folder: Path, fault: Fault) -> Path:
    """Write the fault into the copy, and give back the file."""
    path = folder / "tupe_fairseq" / fault.file
    text = path.read_text("utf-8")
    count = text.count(fault.old)
    if count != 1:
        sys.exit(f"{fault.name}: {fault.old!r} is {count} times in {fault.file}, not once")
    path.write_text(text.replace(fault.old, fault.new), "utf-8")
    # Python recognizes a changed file by its time in seconds and its size
    when = time.time() + 10 * (1 + FAULTS.index(fault))
    os.utime(path, (when, when))
    return path


def try_fault(folder: Path, fault: Fault) -> bool:
    """Whether a test fails; a collection error, or a test that is not there, does not count."""
    path = put_in(folder, fault)
    code, output = run_tests(folder, shlex.split(fault.tests))
    shutil.copy2(REPO / "tupe_fairseq" / fault.file, path)
    is_caught = code == 1 and re.search(r"\d+ failed", output) is not None
    failed = re.search(r"FAILED (\S+)", output)
    by = failed.group(1) if failed and is_caught else f"exit code {code}: {last_line(output)}"
    print(f"{'caught' if is_caught else 'MISSED'}  {fault.name:54} {by}", flush=True)
    return is_caught


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults")
    parser.add_argument("--list", action="store_true", help="check the texts, and run nothing")
    args = parser.parse_args()
    faults = [fault for fault in FAULTS if not args.only or fault.name in args.only]
    if args.only and len(faults) != len(args.only):
        parser.error(f"there is no fault {sorted(set(args.only) - {f.name for f in faults})}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copy_repository(folder)
        if args.list:
            for fault in faults:
                shutil.copy2(REPO / "tupe_fairseq" / fault.file, put_in(folder, fault))
                print(f"{fault.name:54} {fault.file}")
            return
        if not check_control(folder, faults):
            sys.exit("the copy without a fault fails: nothing can be said of the faults")
        print(f"without a fault all pass; {len(faults)} faults:", flush=True)
        missed = [fault for fault in faults if not try_fault(folder, fault)]
        print(f"{len(faults) - len(missed)} of {len(faults)} caught")
        sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
