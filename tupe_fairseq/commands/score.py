"""tupe-score: pseudo-log-likelihoods of sentences, and accuracy on minimal pairs."""

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tupe_fairseq.command_flags.score import check, get_parser
from tupe_fairseq.command_flags.vocabulary_flags import CHOICES, given_vocabulary
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.commands.score_lengths import check_lengths, given_lengths, score_lengths
from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import MASK
from tupe_fairseq.files.results import write_results
from tupe_fairseq.inference.masked_words import load_masked_words
from tupe_fairseq.prediction.freed_memory import return_freed_blocks
from tupe_fairseq.scoring.encoded_rows import Counts, RowEncoder
from tupe_fairseq.scoring.pair_files import PairFiles
from tupe_fairseq.scoring.pair_rows import Columns, PairRow, read_pairs
from tupe_fairseq.scoring.pseudo_likelihood import BATCH_TOKENS, PseudoLikelihood
from tupe_fairseq.scoring.score_lines import fields, line_maker
from tupe_fairseq.scoring.sentence_rows import read_sentences
from tupe_fairseq.scoring.shares import Shares, shares_table
from tupe_fairseq.scoring.totals import Total, totals_table
from tupe_fairseq.text.found_vocabulary import find_dictionary
from tupe_fairseq.text.to_tokens import UNKNOWN, open_vocabulary, places_of
from tupe_fairseq.version import __version__

logger = logging.getLogger("tupe-score")

# tokens of a batch, which a GPU needs more of
_ON_GPU = 4 * BATCH_TOKENS
_MANY_UNKNOWN = 0.01


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check)


def run(args: argparse.Namespace) -> None:
    """Score; files appear under their names only when everything is scored.

    Raises:
        OSError, ValueError: if an input is absent or wrong.
    """
    from tqdm import tqdm

    given = given_vocabulary(args)
    lengths = given_lengths(args)
    return_freed_blocks()
    read = _reader(args)
    places = places_of(args.checkpoint, args.data)
    dictionary = find_dictionary(places)
    loaded = load_masked_words(args.checkpoint, dictionary)
    to_tokens = open_vocabulary(
        loaded.symbols, places, dictionary, given, not loaded.origin, CHOICES
    )
    logger.info(
        "%s: a model of %s, with %s", args.checkpoint, loaded.origin or "this project", dictionary
    )
    if loaded.task not in ("", "masked_lm", "tupe_masked_lm"):
        logger.warning(
            "the model was trained for %s last, without its LM head: the scores say little",
            loaded.task,
        )
    if lengths:
        check_lengths(lengths, loaded, args.checkpoint)
    longest = sys.maxsize if lengths else loaded.max_positions

    def encoder() -> RowEncoder:
        return RowEncoder(to_tokens, UNKNOWN, longest, args.cut)

    pieces = None
    if args.input is not None or args.pairs is not None:
        # all that can be wrong is found before the first hour of work
        first = encoder()
        for _ in first(read()):
            pass
        pieces = first.counts.pieces
        logger.info("%d sentences, %d pieces", first.counts.sentences, pieces)
    encode = encoder()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    device = "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"
    batch_tokens = BATCH_TOKENS if device == "cpu" else _ON_GPU
    with tqdm(
        total=pieces, desc="scoring", unit="piece", unit_scale=True, disable=None, leave=False
    ) as bar:
        if lengths:
            score_lengths(args, loaded, lengths, encode(read()), device, batch_tokens, bar.update)
            _warn(encode.counts)
            return
        scorer = PseudoLikelihood(
            loaded.model.to(device), loaded.symbols.index(MASK), device, batch_tokens, bar.update
        )
        totals, shares = _score(args, scorer, encode(read()))
    _warn(encode.counts)
    _tell(args, encode.counts, totals, shares)


def _reader(args: argparse.Namespace) -> Callable[[], Iterator[Any]]:
    """Reads the input from its beginning each time that it is called."""
    if args.pairs is None:
        return lambda: read_sentences(args.input, skip_empty=args.lengths is not None)
    files = PairFiles(args.pairs)
    columns = Columns(
        args.good or "sentence_good", args.bad or "sentence_bad", args.phenomenon or None
    )
    return lambda: read_pairs(files, columns, args.pairs_per_file)


def _score(args: argparse.Namespace, scorer: PseudoLikelihood, rows: Iterator[Any]):
    """Write the score of every row; the totals by name, and the shares."""
    totals: dict[str, Total] = {}
    shares = Shares()
    names = ("sentences",) if args.pairs is None else ("acceptable", "other")
    with _written(args) as write:
        stream = scorer.stream(((row, tokens), tokens) for row, tokens in rows)
        for (row, tokens), scores in stream:
            for name, one, score in zip(names, tokens, scores):
                totals.setdefault(name, Total()).add(len(one) - 2, score)
            if isinstance(row, PairRow):
                shares.add(row.file, row.phenomenon, *scores)
            write(fields(row, tokens, scores))
    return totals, shares


@contextlib.contextmanager
def _written(args: argparse.Namespace) -> Iterator[Callable[[dict[str, Any]], Any]]:
    """What writes the columns of a row to where they go."""
    if args.output is not None:
        make = line_maker(os.path.splitext(args.output)[1])
        with atomic_write(args.output) as file:
            yield lambda found: file.write(make(found))
    elif args.pairs is None:
        make = line_maker(".tsv")
        yield lambda found: sys.stdout.write(make(found))
        sys.stdout.flush()
    else:
        yield lambda found: None


def _warn(counts: Counts) -> None:
    if counts.cut:
        logger.warning("%d sentences were cut to what the model takes", counts.cut)
    if counts.unknown > _MANY_UNKNOWN * counts.pieces:
        logger.warning(
            "%d of %d pieces are unknown: is the vocabulary that of the model, and the text of "
            "its language?", counts.unknown, counts.pieces,
        )  # fmt: skip


def _tell(
    args: argparse.Namespace, counts: Counts, totals: dict[str, Total], shares: Shares
) -> None:
    scores = {name: total.to_dict() for name, total in totals.items()}
    for name, one in scores.items():
        logger.info(
            "%s: %d with %d pieces, loss %.4f, pseudo-perplexity %.2f",
            name, one["sentences"], one["pieces"], one["loss"], one["pseudo_perplexity"],
        )  # fmt: skip
    table = totals_table(scores)
    found: dict[str, Any] = {}
    if args.pairs is not None:
        found = shares.to_dict()
        table = f"{shares_table(found)}\n{table}"
        sys.stdout.write(f"{shares_table(found)}")
        sys.stdout.flush()
    if args.output is not None:
        logger.info("wrote %s", args.output)
    if args.results is not None:
        content = {
            "version": __version__,
            "checkpoint": {"path": args.checkpoint, "sha256": file_sha256(args.checkpoint)},
            "input": args.pairs or args.input,
            "scores": scores,
            "unknown_pieces": counts.unknown,
            "cut_sentences": counts.cut,
        }
        if args.pairs is not None:
            content["pairs_per_file"] = args.pairs_per_file
            content["pairs"] = found
        write_results(args.results, content, f"`{args.checkpoint}`\n\n{table}")
        logger.info("wrote results.md and results.json in %s", args.results)


if __name__ == "__main__":
    main()
