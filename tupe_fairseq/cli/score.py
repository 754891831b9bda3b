"""tupe-score: pseudo-log-likelihoods of sentences, and minimal pairs."""

import argparse
import contextlib
import itertools
import json
import logging
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tupe_fairseq.cli.arg_types import count, file, output_file, writable
from tupe_fairseq.cli.shared_flags import (
    add_model_flags,
    load_model,
    refuse_overwriting,
    vocabulary_files,
)
from tupe_fairseq.cli.text_rows import warn_of_unknown
from tupe_fairseq.data.columns import choose_columns
from tupe_fairseq.data.dictionary import MASK
from tupe_fairseq.data.rows import STANDARD_INPUT, ending_of, place, read_rows
from tupe_fairseq.files import file_sha256
from tupe_fairseq.runs.tables import markdown_table, write_tables
from tupe_fairseq.version import __version__

logger = logging.getLogger("tupe-score")

_CHUNK_ROWS = 1000
# exp() of more is above all floats
_HIGHEST_LOSS = 700.0

#: its place for messages, its sentences, and further columns
Row = tuple[str, list[str], dict[str, Any]]


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-score",
        description="Score sentences by pseudo-log-likelihood: each token is masked in turn, and "
        "the logarithms of its probabilities are summed. --pairs gives the accuracy on minimal "
        "pairs.",
        epilog="examples: tupe-score checkpoints/checkpoint_best.pt --data data-bin --input "
        "valid.txt --output-file scores.tsv; tupe-score checkpoints/checkpoint_best.pt --data "
        "data-bin --pairs blimp/data --results blimp-results",
    )
    add_model_flags(parser, batches=False)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--input", type=file, metavar="FILE",
        help="text, a sentence in each line, or rows (.csv, .tsv, .jsonl, .parquet, .conll), also "
        ".gz, .xz, .bz2; default: standard input",
    )  # fmt: skip
    what.add_argument(
        "--pairs", nargs="+", metavar="PATH",
        help=".jsonl files of minimal pairs (also .gz, .xz, .bz2), or folders, such as BLiMP's",
    )  # fmt: skip
    add = parser.add_argument
    add(
        "--output-file", "--output", type=output_file(".tsv", ".jsonl"), metavar="OUT",
        help="the score of each row as OUT.tsv or OUT.jsonl; default: standard output as .tsv, "
        "with --pairs none",
    )  # fmt: skip
    add("--results", type=writable, metavar="DIR", help="folder for results.md and results.json")
    add("--text", metavar="COL", help="column of the sentence in rows of --input; default: guessed")
    add("--good", metavar="COL", help="column of the acceptable sentence; default sentence_good")
    add("--bad", metavar="COL", help="column of the other sentence; default sentence_bad")
    add(
        "--phenomenon", metavar="COL",
        help="column of the phenomenon; default linguistics_term, if rows have it",
    )  # fmt: skip
    add("--pairs-per-file", type=count, metavar="N", help="score the first N pairs of each file")
    add(
        "--cut", action="store_true",
        help="truncate and count sentences that are longer than the model; default: an error",
    )  # fmt: skip
    return parser


def main(argv: list[str] | None = None) -> None:
    """Score; files get their names when they are complete."""
    parser = get_parser()
    args = parser.parse_args(argv)
    if args.pairs is None:
        for flag in ("good", "bad", "phenomenon", "pairs_per_file"):
            if getattr(args, flag) is not None:
                parser.error(f"--{flag.replace('_', '-')} is for --pairs")
    elif args.text is not None:
        parser.error("--text is for --input")
    vocabulary = vocabulary_files(parser, args)
    inputs = [args.checkpoint, args.input, *(args.pairs or [])]
    refuse_overwriting(parser, args.output_file, inputs)

    from tqdm import tqdm

    from tupe_fairseq.scoring.pseudo_likelihood import BATCH_TOKENS, BATCH_TOKENS_ON_GPU

    read = _reader(args)
    model, tokenizer, device = load_model(args, vocabulary)
    origin = model.origin or "this project"
    logger.info("%s: a model of %s, with %s", args.checkpoint, origin, model.dictionary)
    trained_for = model.options.get("task")
    if trained_for not in (None, "", "masked_lm", "tupe_masked_lm"):
        logger.warning(
            "the model was trained for %s last, without its LM head: the scores say little",
            trained_for,
        )
    model.encoder.to(device)
    model.lm_head.to(device)
    longest = model.max_positions - 2

    def encoded(counts: Counter) -> Iterator[tuple[list[str], dict[str, Any], list[list[int]]]]:
        for where, sentences, columns in read():
            tokens = [_tokens(tokenizer, x, where, longest, args.cut, counts) for x in sentences]
            yield sentences, columns, tokens

    total, counts = None, Counter()
    if args.input or args.pairs:  # what is wrong with a row is found before the work
        total = sum(len(one) - 2 for *_, tokens in encoded(Counter()) for one in tokens)
        logger.info("%d tokens", total)
    batch_tokens = BATCH_TOKENS if device == "cpu" else BATCH_TOKENS_ON_GPU
    with tqdm(total=total, unit="token", unit_scale=True, disable=None, leave=False) as bar:
        rows = encoded(counts)
        results, table = _score(args, model, device, rows, batch_tokens, bar.update)
    if counts["cut"]:
        logger.warning("%d sentences were cut to what the model takes", counts["cut"])
    warn_of_unknown(logger, counts)
    if args.output_file:
        logger.info("wrote %s", args.output_file)
    if args.results:
        content = {
            "version": __version__,
            "checkpoint": {"path": args.checkpoint, "sha256": file_sha256(args.checkpoint)},
            "input": args.pairs or args.input,
            "unknown_pieces": counts["unknown"],
            "cut_sentences": counts["cut"],
            **results,
        }
        write_tables(args.results, content, f"`{args.checkpoint}`\n\n{table}")
        logger.info("wrote results.md and results.json in %s", args.results)


def _reader(args: argparse.Namespace) -> Callable[[], Iterator[Row]]:
    """Reads the input from its beginning each time that it is called."""
    if args.pairs is None:
        path, column = args.input or STANDARD_INPUT, "text"
        if ending_of(path, ".txt") != ".txt":
            column = choose_columns(path, args.text, num_texts=1).text
        elif args.text is not None:
            raise ValueError(f"--text names a column, and {path} has lines of text; drop it")
        return lambda: _sentences(path, column)
    from tupe_fairseq.scoring.minimal_pairs import pair_files, read_pairs

    files = pair_files(args.pairs)
    good, bad = args.good or "sentence_good", args.bad or "sentence_bad"
    return lambda: read_pairs(files, good, bad, args.phenomenon, args.pairs_per_file)


def _sentences(path: str, column: str) -> Iterator[Row]:
    is_empty = True
    for number, row in read_rows(path, [column], ending=ending_of(path, ".txt")):
        line = row[column] if isinstance(row[column], str) else " ".join(row[column])
        if not line.strip():
            raise ValueError(f"{place(path, number)} is empty; give a sentence in each line")
        is_empty = False
        yield place(path, number), [line.strip()], {}
    if is_empty:
        raise ValueError(f"{path} is empty; give a sentence in each line")


def _tokens(tokenizer, sentence: str, where: str, longest: int, cut: bool, counts: Counter):
    from tupe_fairseq.data.dictionary import BOS, EOS, UNK

    tokens = tokenizer.encode(sentence)
    if not tokens:
        raise ValueError(f"{where}: {sentence[:50]!r} has no token of the vocabulary")
    if len(tokens) > longest:
        if not cut:
            raise ValueError(
                f"{where}: the sentence has {len(tokens)} tokens, and the model takes {longest}; "
                "shorten it, or give --cut to score the first ones"
            )
        tokens = tokens[:longest]
        counts["cut"] += 1
    counts.update(tokens=len(tokens), unknown=tokens.count(UNK))
    return [BOS, *tokens, EOS]


def _score(args, model, device, rows, batch_tokens, advance) -> tuple[dict[str, Any], str]:
    """Write the score of each row; the contents of results.json, and their table."""
    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.scoring.minimal_pairs import PairAccuracy, accuracy_table
    from tupe_fairseq.scoring.pseudo_likelihood import pseudo_likelihoods

    mask, accuracy = model.symbols.index(MASK), PairAccuracy()
    names = ("sentences",) if args.pairs is None else ("acceptable", "other")
    totals: dict[str, Counter] = {name: Counter() for name in names}
    opened: Any = contextlib.nullcontext(None if args.pairs else sys.stdout)
    with atomic_write(args.output_file) if args.output_file else opened as file:
        is_first = True
        at_once = _CHUNK_ROWS if args.input or args.pairs else 1
        while chunk := list(itertools.islice(rows, at_once)):
            flat = [one for *_, tokens in chunk for one in tokens]
            likelihoods = iter(pseudo_likelihoods(
                model.masked_logits, flat, mask, device, batch_tokens, advance
            ))  # fmt: skip
            for sentences, columns, tokens in chunk:
                scores = [next(likelihoods) for _ in tokens]
                lengths = [len(one) - 2 for one in tokens]
                for name, score, length in zip(names, scores, lengths):
                    totals[name].update(sentences=1, pieces=length, pseudo_log_likelihood=score)
                if args.pairs:
                    accuracy.add(columns["file"], columns["phenomenon"], *scores)
                if file:
                    row = _columns(sentences, columns, scores, lengths)
                    file.write(_lines(row, args.output_file or ".tsv", is_first))
                    file.flush()
                is_first = False
    scores = {name: _with_loss(total) for name, total in totals.items()}
    header = ["", "pseudo-perplexity", "loss", "sentences", "pieces"]
    cells = [
        [name, f"{one['pseudo_perplexity']:.2f}", f"{one['loss']:.4f}",
         f"{one['sentences']:,}", f"{one['pieces']:,}"]
        for name, one in scores.items()
    ]  # fmt: skip
    table = markdown_table(header, cells)
    results = {"scores": scores}
    if args.pairs:
        results |= {"pairs_per_file": args.pairs_per_file, "pairs": accuracy.to_dict()}
        print(accuracy_table(results["pairs"]), end="")
        table = f"{accuracy_table(results['pairs'])}\n{table}"
    for name, one in scores.items():
        logger.info(
            "%s: %d with %d tokens, loss %.4f, pseudo-perplexity %.2f",
            name, one["sentences"], one["pieces"], one["loss"], one["pseudo_perplexity"],
        )  # fmt: skip
    return results, table


def _columns(sentences, columns, scores, lengths) -> dict[str, Any]:
    """The columns of a row in the output file."""
    rounded = [round(score, 6) for score in scores]
    if not columns:
        return {"score": rounded[0], "pieces": lengths[0], "sentence": sentences[0]}
    values: dict[str, Any] = {**columns, "right": scores[0] > scores[1]}
    for name, pair in (("score_", rounded), ("pieces_", lengths), ("", sentences)):
        values.update({f"{name}good": pair[0], f"{name}bad": pair[1]})
    return values


def _lines(row: dict[str, Any], path: str, with_header: bool) -> str:
    if path.lower().endswith(".jsonl"):
        return json.dumps(row, ensure_ascii=False) + "\n"
    header = "\t".join(row) + "\n" if with_header else ""
    cells = [f"{x:.6f}" if isinstance(x, float) else " ".join(str(x).split()) for x in row.values()]
    return header + "\t".join(cells) + "\n"


def _with_loss(total: Counter) -> dict[str, Any]:
    """Loss: minus the mean log-probability. Its exponential: Salazar et al. 2020, Eq. 3."""
    loss = -total["pseudo_log_likelihood"] / total["pieces"]
    return {**total, "loss": loss, "pseudo_perplexity": math.exp(min(loss, _HIGHEST_LOSS))}
