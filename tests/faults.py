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
GOLDENS = "core/test_goldens.py -k eager"
SCHEMES = "core/test_schemes.py"
ENCODER = "core/test_encoder.py"
ATTENTION = "core/test_attention.py"
DECODERS = "fairseq/test_decoders.py -k 'not train and not refused'"


class Fault(NamedTuple):
    """``new`` in place of ``old``, which is once in a file; ``tests``: pytest's, below tests/."""

    name: str
    file: str  # in tupe_fairseq/
    tests: str
    old: str
    new: str


# fmt: off
FAULTS = [Fault(*fault) for fault in [
    # ---- Positions
    ("sign of the absolute term", "position/tupe.py", GOLDENS,
     "bias = self.scaling * torch.matmul(", "bias = -self.scaling * torch.matmul("),
    ("scaling for one term instead of two", "position/tupe.py", GOLDENS,
     "scaling=(2 * embed_dim", "scaling=(1 * embed_dim"),
    ("T5's far buckets off by one", "position/t5_bias.py", "core/test_oracle.py",
     "far = (exact + (log", "far = (exact + 1 + (log"),
    ("before and after swapped in T5's buckets", "position/t5_bias.py", "core/test_oracle.py",
     "(relative_position > 0).long() * half", "(relative_position < 0).long() * half"),
    ("distances in reverse where positions are counted", "position/t5_bias.py", GOLDENS,
     "by_distance.unfold(1, n, 1).flip(1)", "by_distance.unfold(1, n, 1)"),
    ("the column of [CLS] gets the row's value", "position/t5_bias.py", GOLDENS,
     "torch.where(column_is_cls, other_to_cls[:, None, None], bias)",
     "torch.where(column_is_cls, cls_to_other[:, None, None], bias)"),
    ("the column of [CLS] wins over the row", "position/t5_bias.py", SCHEMES,
     "return torch.where(row_is_cls, cls_to_other",
     "return torch.where(row_is_cls & ~column_is_cls, cls_to_other"),
    ("one row of the table for both directions of [CLS]", "position/tupe.py", GOLDENS,
     "for r in (0, 1))", "for r in (0, 0))"),
    ("the row of [CLS] among T5's buckets", "position/t5_bias.py", SCHEMES,
     "num_buckets + 1 if causal else num_buckets // 2",
     "num_buckets + 1 if causal else num_buckets"),
    ("slopes of ALiBi", "position/alibi.py", SCHEMES,
     "slopes = [2 ** (-8 * (h + 1) / lower)", "slopes = [2 ** (-8 * h / lower)"),
    ("angles of RoPE", "position/rope.py", SCHEMES,
     "10000.0 ** (-steps / half)", "10000.0 ** (-steps / (half + 1))"),
    ("Shaw's distances cut one too early", "position/shaw.py", SCHEMES,
     ".clamp(-reach, reach)", ".clamp(-reach, reach - 1)"),
    ("shortest half-life of Enformer", "position/relative_keys.py", SCHEMES,
     "linspace(3, math.log2(longest)", "linspace(2, math.log2(longest)"),
    ("Transformer-XL's distance with the other sign", "position/relative_keys.py", SCHEMES,
     "distances = -in_float64(distances)", "distances = in_float64(distances)"),
    ("Transformer-XL's shift off by one", "position/relative_keys.py", SCHEMES,
     "narrow(-1, num_queries - 1, num_queries * row)",
     "narrow(-1, num_queries - 2, num_queries * row)"),
    ("a global bias scaled twice", "position/relative_keys.py", SCHEMES,
     "self.bias_scaling = 1.0", "self.bias_scaling = self.scaling"),
    ("disentangled attention forgets position to word", "position/disentangled.py", SCHEMES,
     "+ pos_q @ k.transpose(-2, -1))", "+ q @ pos_k.transpose(-2, -1))"),
    ("frequencies of the sinusoid", "position/absolute.py", SCHEMES,
     "max(half - 1, 1)", "max(half, 1)"),
    ("a causal query sees later keys", "position/base.py", "core/test_properties.py -k causal",
     "is_later = relative_positions(positions_q, positions_k, q.device) > 0",
     "is_later = relative_positions(positions_q, positions_k, q.device) > 1"),
    ("a bias of 16 bits", "position/tupe.py", SCHEMES,
     "dtype = torch.promote_types(q.dtype, torch.float32)", "dtype = q.dtype"),
    # ---- Attention and the encoder
    ("padding hides queries instead of keys", "attention/sequences.py", GOLDENS,
     "(~is_token)[:, None, None, :]", "(~is_token)[:, None, :, None]"),
    ("scores of 16 bits", "attention/eager.py", ATTENTION,
     "scores.to(torch.promote_types(scores.dtype, torch.float32))", "scores.to(scores.dtype)"),
    ("a mask of 16 bits around 0, not around its maximum", "attention/mask.py", ATTENTION,
     "mask = mask - mask.detach().amax(dim=-1, keepdim=True)", "pass"),
    ("dropout does not scale what it keeps", "attention/chunked.py", ATTENTION,
     "2**16 / (2**16 - dropped) if dropped < 2**16", "1.0 if dropped < 2**16"),
    ("dropout drops another share", "attention/chunked.py", ATTENTION,
     "self.threshold = dropped - 2**15 - 1", "self.threshold = dropped - 2**15 + 999"),
    ("dropout of attention in evaluation", "modules/tupe_multihead_attention.py", ENCODER,
     "dropout = self.dropout if self.training else 0.0", "dropout = self.dropout"),
    ("another dropout mask in the backward pass", "attention/chunked.py", ATTENTION,
     "DropoutMask(dropout, seed), torch.promote_types",
     "DropoutMask(dropout, seed + 1), torch.promote_types"),
    ("the seed of dropout is fixed", "attention/chunked.py", ATTENTION,
     "int(torch.randint(2**62, ())) if dropout else 0", "1 if dropout else 0"),
    ("the gradient of the bias is scaled", "attention/chunked.py", ATTENTION,
     "+= grad_scores\n", "+= scaling * grad_scores\n"),
    ("packed sequences begin at the wrong token", "attention/chunked.py", ATTENTION,
     "        start += n\n", "        start += max(n - 1, 0)\n"),
    ("positions of packed tokens off by one", "attention/sequences.py", ENCODER,
     "places % longest)", "(1 + places % longest).clamp(max=3))"),
    ("documents of a row are not kept apart", "attention/sequences.py", ENCODER,
     "if has_documents:\n            begins", "if False:\n            begins"),
    ("a layer run again for its gradient takes the bias of the first run",
     "attention/sequences.py", ENCODER, "self.kept[0] is bias and ", ""),
    ("positions are added again before the first layer", "encoder.py", ENCODER,
     "if number and added is not None", "if added is not None"),
    ("rounding noise as the gradient of a constant row", "encoder.py", "core/test_oracle.py",
     "position.cls_row_is_constant", "not position"),
    ("pre-LN without its final LayerNorm", "encoder.py", "core/test_oracle.py",
     "        if self.layer_norm is not None:", "        if False:"),
    ("no residual around attention", "modules/tupe_encoder_layer.py", GOLDENS,
     "x = x + F.dropout(y, self.dropout, self.training)",
     "x = F.dropout(y, self.dropout, self.training)"),
    ("the mean counts padding", "modules/pooling.py", ATTENTION,
     "/ weights.sum(dim=1)", "/ real.size(1)"),
    # ---- State dicts and checkpoints
    ("a name in state dicts", "modules/record.py", "checkpoint/test_old_checkpoints.py",
     'RECORD = "position_version"', 'RECORD = "options_version"'),
    ("position options are not compared", "modules/record.py", ENCODER,
     "if saved.get(name) != own.get(name)",
     "if type(saved.get(name)) is not type(own.get(name))"),
    ("a default of the record", "options.py", ENCODER,
     "MAX_DISTANCE = 128", "MAX_DISTANCE = 64"),
    ("another vocabulary of the same size is taken", "checkpoint/fit.py",
     "fairseq/test_refusals.py -k another_vocabulary",
     "if int(recorded) != int(vocabulary_version(symbols)):",
     "if recorded.shape != vocabulary_version(symbols).shape:"),
    ("the hash of a vocabulary forgets its order", "checkpoint/checkpoint.py",
     "fairseq/test_refusals.py -k another_vocabulary",
     '"\\n".join(symbols)', '"\\n".join(sorted(symbols))'),
    ("a checkpoint may name any architecture", "checkpoint/allowed_options.py",
     "checkpoint/test_doors.py -k 'wrong_kind or other_models'",
     'r"tupe_roberta(_\\w+)?"', 'r"\\w+"'),
    ("a checkpoint may name any activation", "checkpoint/allowed_options.py",
     "checkpoint/test_doors.py -k 'wrong_kind or other_models'",
     '"pooler_activation_fn": _POOLER_ACTIVATIONS', '"pooler_activation_fn": str'),
    ("a checkpoint may ask for any class", "checkpoint/checkpoint.py",
     "checkpoint/test_checkpoint.py -k instructions_that",
     "if name not in substitutes and not _OF_TORCH.fullmatch(name):", "if name in ():"),
    ("infinite weights are accepted", "checkpoint/checkpoint.py",
     "checkpoint/test_doors.py -k no_weights",
     "if not torch.isfinite(tensor).all():", "if torch.isnan(tensor).all():"),
    ("a conversion mixes up queries' and keys' projections", "checkpoint/from_authors.py",
     "checkpoint/test_conversions.py -k computes_the_same",
     "pos_q_proj", "pos_k_proj"),
    # ---- Trainings
    ("starts of documents are predicted", "tasks/masked_lm.py",
     "fairseq/test_documents.py -k never_masked",
     '"target": target.masked_fill(is_start, self.pad)', '"target": target'),
    ("whole words are not known", "tasks/masked_lm.py", "fairseq/test_documents.py -k as_a_whole",
     "if self.cfg.mask_whole_words:", "if not self.cfg.mask_whole_words:"),
    ("warm-up is rounded up", "optim/schedule.py",
     "fairseq/test_sentence_prediction.py -k warmup",
     "math.floor(ratio * total + 0.5)", "math.ceil(ratio * total)"),
    ("every seed is 1", "finetune/command.py", "finetune/test_command.py",
     '"--seed", self.seed', '"--seed", 1'),
    ("the first of a truncated pair loses a token", "data/truncation.py",
     "data/test_tokens.py -k pairs",
     "(room + 1) // 2", "room // 2"),
    ("truncation drops </s>", "tasks/sentence_prediction.py",
     "fairseq/test_sentence_prediction.py -k trunc",
     "torch.cat([item[: size - 1], item[-1:]])", "item[:size]"),
    ("windows for tagging begin too far apart", "data/truncation.py",
     "data/test_tokens.py -k context",
     "following <= begin + room // 2", "following <= begin + room"),
    ("class weights have no effect", "criterions/sentence_prediction.py",
     "fairseq/test_sentence_prediction.py -k class_weights",
     'dim=-1), targets, weights, reduction="sum")', 'dim=-1), targets, None, reduction="sum")'),
    ("--balance weighs frequent classes more", "finetune/scoring.py", "finetune/test_scoring.py",
     "weights = compute_class_weight(", "weights = 1 / compute_class_weight("),
    # ---- Metrics and results
    ("kappa instead of Matthews", "data/metrics.py", "finetune/test_scoring.py",
     "from sklearn.metrics import matthews_corrcoef",
     "from sklearn.metrics import cohen_kappa_score as matthews_corrcoef"),
    ("F1 over both classes", "data/metrics.py", "finetune/test_scoring.py",
     '"f1": Metric((CLASSIFICATION,), _f1("binary")',
     '"f1": Metric((CLASSIFICATION,), _f1("macro")'),
    ("Pearson and Spearman swapped", "data/metrics.py", "finetune/test_scoring.py",
     '_correlation("pearsonr"), _correlation("spearmanr")',
     '_correlation("spearmanr"), _correlation("pearsonr")'),
    ("the worst run is taken for the best", "finetune/scoring.py", "finetune/test_scoring.py",
     "return max(scores, key=scores.__getitem__", "return min(scores, key=scores.__getitem__"),
    ("the best seed instead of the median", "finetune/scoring.py", "finetune/test_scoring.py",
     "medians[split][name] = median(values)", "medians[split][name] = max(values)"),
    ("differences with the other sign", "compare/results.py",
     "compare/test_compare.py -k over_the_seeds",
     "loss - target if both", "target - loss if both"),
    ("one degree of freedom too many", "compare/results.py",
     "compare/test_compare.py -k over_the_seeds",
     "t.ppf(0.975, n - 1)", "t.ppf(0.975, n)"),
    # ---- Export and inference
    ("a tensor's name in exported folders", "export/names.py", "export/test_modeling_tupe.py",
     '(LM_HEAD, "lm_head.", "lm_head."),', '(LM_HEAD, "lm_head.x", "lm_head."),'),
    ("an option that is not exported", "export/names.py", "export/test_modeling_tupe.py",
     '    "normalize_before": "encoder_normalize_before",\n', ""),
    ("ids of exported tokenizers off by one", "export/tokenizer.py",
     "export/test_tokenizer.py -k sentencepiece",
     "return [*symbols, *(token", "return [*symbols[:4], *symbols[5:], *(token"),
    ("predictions in the order of lengths", "inference/texts.py",
     "cli/test_predict.py -k 'endings or vectors'",
     "zip(rows, outputs.cpu().numpy())", "zip(sorted(rows), outputs.cpu().numpy())"),
    ("pseudo-likelihood masks the token before", "scoring/pseudo_likelihood.py",
     "cli/test_score.py -k scores_are",
     "1 + copies % scored", "copies % scored"),
    ("the unacceptable sentence is to win", "scoring/minimal_pairs.py",
     "cli/test_score.py -k by_hand",
     "right=good > bad", "right=good < bad"),
    # ---- Data
    ("other Unicode normalisation", "data/text_files.py", "data/test_tokens.py -k cleaning",
     'unicodedata.normalize("NFC", ', 'unicodedata.normalize("NFKC", '),
    ("of duplicates the last one stays", "data/corpus.py", "data/test_text.py -k valid_file",
     "is_new[order[1:][ordered", "is_new[order[:-1][ordered"),
    ("a split takes the others' share", "data/corpus.py",
     "data/test_text.py -k share",
     "in itertools.accumulate(fractions)]", "in fractions]"),
    ("order of several workers", "data/parallel.py", "data/test_tokens.py -k several",
     "waiting.append(_submit(pool, item))", "waiting.appendleft(_submit(pool, item))"),
    ("sentences of STS-B swapped", "data/glue.py", "data/test_glue.py",
     '"STS-B", (8, 9)', '"STS-B", (9, 8)'),
    ("order of RTE's labels", "data/glue.py", "data/test_glue.py",
     '("entailment", "not_entailment")', '("not_entailment", "entailment")'),
    ("a dropped row of GLUE is not counted", "data/glue.py", "data/test_glue.py",
     "(rows.warnings if is_test else rows.dropped)[reason] += 1",
     "rows.warnings[reason] += is_test"),
    ("an unmarked label is taken for the class after it", "tasks/sentence_prediction.py",
     "fairseq/test_sentence_prediction.py -k order_of_the_dictionary",
     "classes = [symbol - first for symbol", "classes = [symbol - first + 1 for symbol"),
    # ---- Decoders
    ("no bias where there is a cache", "models/tupe_decoder.py", DECODERS,
     "bias = None if self.position is None else",
     "bias = None if self.position is None or x.size(1) == 1 else"),
    ("the row before in the bias of a step", "models/tupe_decoder.py", DECODERS,
     "last = torch.tensor([length - 1]", "last = torch.tensor([max(length - 2, 0)]"),
    ("one head's bias for all heads", "models/tupe_decoder.py", DECODERS,
     "bias = bias.to(x.device)",
     "bias = bias.to(x.device)[..., :1, :, :] if bias.dim() > 2 else bias"),
    ("a beam keeps another one's past", "models/tupe_decoder.py", DECODERS,
     "x.index_select(0, new_order) for name, x in cache",
     "x.index_select(0, new_order.sort()[0]) for name, x in cache"),
    ("left padding is seen", "models/tupe_decoder.py", DECODERS,
     "hidden = padding if hidden is None else hidden | padding", "hidden = hidden"),
]]
# fmt: on


def copy_repository(folder: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    for name in ("tupe_fairseq", "tests", "examples", "scripts"):
        shutil.copytree(REPO / name, folder / name, ignore=ignored)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy2(REPO / name, folder / name)


def run_tests(folder: Path, tests: str) -> tuple[int, str]:
    """pytest in the copy, from which the package must come: its exit code, and what it printed."""
    env = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    code = (
        "import sys, pytest, tupe_fairseq\n"
        f"assert tupe_fairseq.__path__[0] == {str(folder / 'tupe_fairseq')!r}\n"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    words = ["-q", "-x", "--tb=no", "-p", "no:cacheprovider", *shlex.split(tests)]
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=folder / "tests", env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def reason(code: int, output: str) -> str:
    """The first test that failed, or the last line."""
    failed = re.search(r"(FAILED|ERROR) (\S+)", output)
    return failed.group(2) if failed else f"exit code {code}: {output.strip()[-200:]}"


def passes_without(folder: Path, faults: list[Fault]) -> bool:
    """Whether all tests pass without a fault; those without ``-k`` in one call, for speed."""
    named = dict.fromkeys(fault.tests for fault in faults)
    files = " ".join(tests for tests in named if " -k " not in tests)
    passed = True
    for tests in filter(None, [files, *(tests for tests in named if " -k " in tests)]):
        code, output = run_tests(folder, tests)
        if code or not re.search(r"\d+ passed", output):
            passed = False
            print(f"without a fault: {tests}: {reason(code, output)}", flush=True)
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


def is_caught(folder: Path, fault: Fault) -> bool:
    """Whether a test fails; a collection error, or a test that is not there, does not count."""
    path = put_in(folder, fault)
    code, output = run_tests(folder, fault.tests)
    shutil.copy2(REPO / "tupe_fairseq" / fault.file, path)
    caught = code == 1 and re.search(r"\d+ failed", output) is not None
    print(f"{'caught' if caught else 'MISSED'}  {fault.name:54} {reason(code, output)}", flush=True)
    return caught


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
        if not passes_without(folder, faults):
            sys.exit("the copy without a fault fails: nothing can be said of the faults")
        print(f"without a fault all pass; {len(faults)} faults:", flush=True)
        missed = [fault for fault in faults if not is_caught(folder, fault)]
        print(f"{len(faults) - len(missed)} of {len(faults)} caught")
        sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
