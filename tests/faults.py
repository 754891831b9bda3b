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
GOLDENS = "tests/test_goldens.py -k 'eager and (tupe_a or tupe_r-)'"


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
        "position/untied_absolute.py",
        "bias = self.scaling * torch.matmul(",
        "bias = -self.scaling * torch.matmul(",
        GOLDENS,
    ),
    Fault(
        "scaling for one term instead of two",
        "position/schemes/tupe.py",
        "scaling = (2 * head_dim_of(",
        "scaling = (1 * head_dim_of(",
        GOLDENS,
    ),
    Fault(
        "T5's far buckets off by one",
        "position/relative_position_bias.py",
        "far = (exact + (ratio",
        "far = (exact + 1 + (ratio",
        "tests/position/test_relative_position_bias.py",
    ),
    Fault(
        "before and after swapped in T5's buckets",
        "position/relative_position_bias.py",
        "(relative_position > 0).long() * half",
        "(relative_position < 0).long() * half",
        "tests/position/test_relative_position_bias.py",
    ),
    Fault(
        "the column of [CLS] gets the row's value",
        "position/reset_cls.py",
        "torch.where(column_is_cls, other_to_cls[:, None, None], bias)",
        "torch.where(column_is_cls, cls_to_other[:, None, None], bias)",
        "tests/position/test_untie_cls.py",
    ),
    Fault(
        "the column of [CLS] wins over the row",
        "position/reset_cls.py",
        "return torch.where(row_is_cls, cls_to_other",
        "return torch.where(row_is_cls & ~column_is_cls, cls_to_other",
        "tests/position/test_untie_cls.py",
    ),
    Fault(
        "one row of the table for both directions of [CLS]",
        "position/untied_absolute.py",
        "OTHER_TO_CLS_ROW = 1",
        "OTHER_TO_CLS_ROW = 0",
        GOLDENS,
    ),
    Fault(
        "slopes of ALiBi",
        "position/schemes/alibi.py",
        "slopes = [2 ** (-8 * (h + 1) / lower)",
        "slopes = [2 ** (-8 * h / lower)",
        "tests/position/schemes/test_alibi.py",
    ),
    Fault(
        "angles of RoPE",
        "position/schemes/rope.py",
        "BASE ** (-steps / half)",
        "BASE ** (-steps / (half + 1))",
        "tests/position/schemes/test_rope.py",
    ),
    Fault(
        "Shaw's distances cut one too early",
        "position/schemes/shaw.py",
        "relative.clamp(-reach, reach)",
        "relative.clamp(-reach, reach - 1)",
        "tests/position/schemes/test_shaw.py",
    ),
    Fault(
        "shortest half-life of Enformer",
        "position/schemes/enformer.py",
        "3.0, math.log2(max_range)",
        "2.0, math.log2(max_range)",
        "tests/position/schemes/test_enformer.py",
    ),
    Fault(
        "Transformer-XL's distance with the other sign",
        "position/schemes/transformer_xl.py",
        "distance_sinusoid(-relative_positions",
        "distance_sinusoid(relative_positions",
        "tests/position/schemes/test_transformer_xl.py",
    ),
    Fault(
        "Transformer-XL's shift off by one",
        "position/relative_keys.py",
        "narrow(-1, num_queries - 1, num_queries * row)",
        "narrow(-1, num_queries - 2, num_queries * row)",
        "tests/position/schemes/test_transformer_xl.py",
    ),
    Fault(
        "disentangled attention forgets position to word",
        "position/schemes/disentangled.py",
        "self.scaling * (word_position + position_word)",
        "self.scaling * (word_position + word_position)",
        "tests/position/schemes/test_disentangled.py",
    ),
    Fault(
        "frequencies of the sinusoid",
        "position/schemes/sinusoidal.py",
        "max(half - 1, 1)",
        "max(half, 1)",
        "tests/position/schemes/test_sinusoidal.py",
    ),
    # ---- Attention and the encoder
    Fault(
        "padding hides queries instead of keys",
        "attention/eager.py",
        "padding.mask[:, None, None, :]",
        "padding.mask[:, None, :, None]",
        GOLDENS,
    ),
    Fault(
        "bias of 16 bits",
        "position/relative_position_bias.py",
        "return table.to(torch.promote_types(table.dtype, torch.float32))",
        "return table",
        "tests/position/test_relative_position_bias.py",
    ),
    Fault(
        "dropout does not scale what it keeps",
        "attention/keep_mask.py",
        "levels / (levels - dropped) if dropped < levels",
        "1.0 if dropped < levels",
        "tests/attention/test_keep_mask.py",
    ),
    Fault(
        "dropout of attention in evaluation",
        "modules/tupe_multihead_attention.py",
        "dropout = self.dropout if self.training else 0.0",
        "dropout = self.dropout",
        "tests/modules/test_tupe_multihead_attention.py",
    ),
    Fault(
        "another dropout mask in the backward pass",
        "modules/dropout.py",
        "KeepMask(ctx.p, ctx.seed)",
        "KeepMask(ctx.p, ctx.seed + 1)",
        "tests/modules/test_dropout.py",
    ),
    Fault(
        "packed sequences begin at the wrong token",
        "attention/padding.py",
        "starts.append(starts[-1] + length)",
        "starts.append(max(0, starts[-1] + length - 1))",
        "tests/recorded/test_recorded.py -k 'unpad and tupe-r'",
    ),
    Fault(
        "positions of packed tokens off by one",
        "attention/padding.py",
        "return self.real % self.seq_len",
        "return (self.real + 1) % self.seq_len",
        "tests/modules/test_tupe_multihead_attention.py",
    ),
    Fault(
        "documents of a row are not kept apart",
        "attention/packed_documents.py",
        "rows.pack(starts | is_first)",
        "rows.pack(starts & is_first)",
        "tests/test_encoder_documents.py",
    ),
    Fault(
        "positions are added again before the first layer",
        "encoder_stack.py",
        "if index and added is not None and self.config.position_each_layer:\n"
        "                x = x + added.to(x.dtype)\n            x = self.call_layer(",
        "if added is not None and self.config.position_each_layer:\n"
        "                x = x + added.to(x.dtype)\n            x = self.call_layer(",
        "tests/test_encoder_of_every_position_encoding.py -k forward_attn",
    ),
    Fault(
        "pre-LN without its final LayerNorm",
        "encoder_stack.py",
        "if self.layer_norm is not None:",
        "if False:",
        "tests/test_encoder.py",
    ),
    Fault(
        "the mean counts padding",
        "modules/pooling.py",
        "/ weights.sum(dim=1)",
        "/ real.size(1)",
        "tests/modules/test_pooling.py",
    ),
    # ---- State dicts and checkpoints
    Fault(
        "a name in state dicts",
        "recorded_options.py",
        'NAME = "position_version"',
        'NAME = "options_version"',
        "tests/models/test_tupe_roberta.py -k names_are",
    ),
    Fault(
        "position options are not compared",
        "config.py",
        "if theirs.get(name) != ours.get(name)",
        "if type(theirs.get(name)) is not type(ours.get(name))",
        "tests/position/test_properties.py -k other_options",
    ),
    Fault(
        "another vocabulary of the same size is taken",
        "plugin/model/sentence_encoder.py",
        "saved.tolist() != self.vocabulary_version.tolist()",
        "saved.shape != self.vocabulary_version.shape",
        "tests/recorded/test_recorded.py -k another_vocabulary",
    ),
    Fault(
        "the hash of a vocabulary forgets its order",
        "checkpoint/contents.py",
        '"\\n".join(symbols)',
        '"\\n".join(sorted(symbols))',
        "tests/recorded/test_recorded.py -k another_vocabulary",
    ),
    Fault(
        "a checkpoint may name any architecture",
        "checkpoint/checked_options.py",
        r'_named(r"tupe_roberta(_\w+)?"',
        r'_named(r"\w+"',
        "tests/checkpoint/test_checked_options.py",
    ),
    Fault(
        "a checkpoint may name any activation",
        "checkpoint/checked_options.py",
        '"pooler_activation_fn": _one_of(*_POOLER_ACTIVATIONS)',
        '"pooler_activation_fn": _named(".{1,99}", "a name")',
        "tests/checkpoint/test_checked_options.py",
    ),
    Fault(
        "a checkpoint may ask for any class",
        "checkpoint/restricted_unpickler.py",
        'raise RefusedGlobal(f"it asks for {module}.{name}, which no checkpoint needs")',
        "return _Global(_placeholder)",
        "tests/checkpoint/test_restricted_load.py -k names_that",
    ),
    Fault(
        "infinite weights are accepted",
        "checkpoint/checked_tensors.py",
        "if not torch.isfinite(tensor).all():",
        "if torch.isnan(tensor).all():",
        "tests/checkpoint/test_checked_options.py -k no_weights",
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
        "plugin/model/isolated_documents.py",
        '"target": target.masked_fill(is_start, self.pad)',
        '"target": target',
        "tests/plugin/model/test_isolated_documents.py -k never_masked",
    ),
    Fault(
        "whole words are not known",
        "plugin/model/whole_words.py",
        'if not safe_getattr(task_config, "mask_whole_words") or',
        'if safe_getattr(task_config, "mask_whole_words") or',
        "tests/plugin/model/test_whole_words.py -k as_a_whole",
    ),
    Fault(
        "warm-up is rounded up",
        "programs/schedule.py",
        "math.floor(ratio * total + 0.5)",
        "math.ceil(ratio * total)",
        "tests/recorded/test_recorded.py -k fine_tuning_results",
    ),
    Fault(
        "every seed is 1",
        "finetune/experiment.py",
        '"--seed", run.seed',
        '"--seed", 1',
        "tests/finetune/test_experiment.py tests/finetune/test_protocol.py",
    ),
    Fault(
        "the first of a truncated pair loses a token",
        "tasks/pair_lengths.py",
        "(room + 1) // 2",
        "room // 2",
        "tests/plugin/glue/test_truncate_pair.py",
    ),
    Fault(
        "truncation drops </s>",
        "plugin/glue/truncate_pair.py",
        "torch.cat([item[: size - 1], item[-1:]])",
        "item[:size]",
        "tests/plugin/glue/test_truncate_pair.py",
    ),
    Fault(
        "windows for tagging begin too far apart",
        "tasks/windows.py",
        "following <= begin + room // 2",
        "following <= begin + room",
        "tests/tasks/test_windows.py",
    ),
    Fault(
        "class weights have no effect",
        "plugin/glue/criterion.py",
        'F.nll_loss(lprobs, targets, weights, reduction="sum")',
        'F.nll_loss(lprobs, targets, None, reduction="sum")',
        "tests/plugin/glue/test_labels.py -k weights_of_classes",
    ),
    Fault(
        "--balance weighs frequent classes more",
        "finetune/class_weights.py",
        "len(train) / (task.num_classes * np.maximum(counts, 1))",
        "(task.num_classes * np.maximum(counts, 1)) / len(train)",
        "tests/finetune/test_own_baselines.py tests/finetune/test_own_protocol.py",
    ),
    # ---- Metrics and results
    Fault(
        "kappa instead of Matthews",
        "tasks/metrics.py",
        "from sklearn.metrics import matthews_corrcoef",
        "from sklearn.metrics import cohen_kappa_score as matthews_corrcoef",
        "tests/tasks/test_metrics.py",
    ),
    Fault(
        "F1 over both classes",
        "tasks/metrics.py",
        '"f1": Metric((CLASSIFICATION,), _f1("binary")',
        '"f1": Metric((CLASSIFICATION,), _f1("macro")',
        "tests/tasks/test_metrics.py",
    ),
    Fault(
        "Pearson and Spearman swapped",
        "tasks/metrics.py",
        '_correlation("pearsonr"), _correlation("spearmanr")',
        '_correlation("spearmanr"), _correlation("pearsonr")',
        "tests/tasks/test_metrics.py",
    ),
    Fault(
        "the worst run is taken for the best",
        "finetune/scores.py",
        "return max(scores, key=scores.__getitem__",
        "return min(scores, key=scores.__getitem__",
        "tests/finetune/test_scores.py",
    ),
    Fault(
        "the best seed instead of the median",
        "finetune/scores.py",
        "medians[split][name] = median(values)",
        "medians[split][name] = max(values)",
        "tests/finetune/test_scores.py",
    ),
    Fault(
        "differences with the other sign",
        "compare/aggregate.py",
        "loss - targets[seed]",
        "targets[seed] - loss",
        "tests/compare/test_aggregate.py",
    ),
    Fault(
        "one degree of freedom too many",
        "compare/aggregate.py",
        "t_quantile(n - 1)",
        "t_quantile(n)",
        "tests/compare/test_aggregate.py",
    ),
    # ---- Export and inference
    Fault(
        "a tensor's name in exported folders",
        "export/folder_tensors.py",
        '"lm_head.layer_norm."',
        '"lm_head.norm."',
        "tests/recorded/test_recorded.py -k exported",
    ),
    Fault(
        "an option that is not exported",
        "export/folder_config.py",
        '    "normalize_before": "encoder_normalize_before",\n',
        "",
        "tests/export/test_folder_config.py",
    ),
    Fault(
        "ids of exported tokenizers off by one",
        "export/tokenizer/from_sentencepiece.py",
        "for symbol in (*order.symbols, *order.unlisted):",
        "for symbol in (*order.symbols[1:], *order.unlisted):",
        "tests/export/test_tokenizers.py -k sentencepiece",
    ),
    Fault(
        "predictions in the order of lengths",
        "prediction/batched_encoder.py",
        "zip(rows, results.cpu().numpy())",
        "zip(sorted(rows), results.cpu().numpy())",
        "tests/prediction/test_batched_encoder.py",
    ),
    Fault(
        "pseudo-likelihood masks the token before",
        "scoring/pseudo_likelihood.py",
        "1 + copies % pieces",
        "copies % pieces",
        "tests/scoring/test_pseudo_likelihood.py -k loop",
    ),
    Fault(
        "the unacceptable sentence is to win",
        "scoring/shares.py",
        "self.right += good > bad",
        "self.right += good < bad",
        "tests/scoring/test_shares.py",
    ),
    # ---- Data
    Fault(
        "other Unicode normalisation",
        "text/treatment.py",
        'unicodedata.normalize("NFC", text)',
        'unicodedata.normalize("NFKC", text)',
        "tests/text/test_treatment.py",
    ),
    Fault(
        "of duplicates the last one stays",
        "text/deduplication.py",
        'entries["line"][order[1:][',
        'entries["line"][order[:-1][',
        "tests/text/test_deduplication.py",
    ),
    Fault(
        "a split takes the others' share",
        "text/splitting.py",
        "total += fraction",
        "total = fraction",
        "tests/recorded/test_recorded.py -k 'prepare_pretrain and learned-1'",
    ),
    Fault(
        "order of several workers",
        "text/parallel.py",
        "window.append(pool.submit(_call, item))",
        "window.appendleft(pool.submit(_call, item))",
        "tests/recorded/test_recorded.py -k 'prepare_pretrain and 2'",
    ),
    Fault(
        "a file that resumes has a hole",
        "files/resumed_file.py",
        'file.seek(record["bytes"])',
        'file.seek(record["bytes"] + 1)',
        "tests/files/test_resumed_file.py",
    ),
    Fault(
        "sentences of STS-B swapped",
        "glue/glue_tasks.py",
        "texts=(8, 9)",
        "texts=(9, 8)",
        "tests/glue/test_tasks.py",
    ),
    Fault(
        "order of RTE's labels",
        "glue/glue_tasks.py",
        '("entailment", "not_entailment")',
        '("not_entailment", "entailment")',
        "tests/glue/test_tasks.py",
    ),
    Fault(
        "a dropped row of GLUE is not counted",
        "glue/official.py",
        "rows.dropped[reason] += 1",
        "pass",
        "tests/glue/test_official.py",
    ),
    Fault(
        "an unmarked label is taken for the class after it",
        "plugin/glue/task.py",
        "classes = [symbol - first for symbol",
        "classes = [symbol - first + 1 for symbol",
        "tests/plugin/glue/test_labels.py -k targets",
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
            print(f"without a fault: {tests}: exit code {code}: {last_line(output)}", flush=True)
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
