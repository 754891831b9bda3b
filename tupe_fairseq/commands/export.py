"""tupe-export: make a model folder for transformers, sentence-transformers and onnxruntime."""

import argparse
import functools
import logging
import os
from typing import Any

from tupe_fairseq.checkpoint.from_authors import HIDDEN_SYMBOLS
from tupe_fairseq.command_flags.export import check, get_parser
from tupe_fairseq.command_flags.vocabulary_flags import given_vocabulary
from tupe_fairseq.commands.fitting_vocabulary import check_fits
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.data.dictionary import read_dictionary
from tupe_fairseq.data.tokenizer import Tokenizer, find_dictionary, places_of
from tupe_fairseq.export.card import CardFacts, model_card
from tupe_fairseq.export.card_flags import checked_languages
from tupe_fairseq.export.folder_files import FILES
from tupe_fairseq.export.model_types import MODEL_TYPE
from tupe_fairseq.export.onnx_files import check_installed, export_onnx
from tupe_fairseq.export.parity import Parity, measure
from tupe_fairseq.export.sample_texts import SENTENCES, default_texts
from tupe_fairseq.export.unlisted_pieces import FIELD
from tupe_fairseq.export.usage import pipeline_of
from tupe_fairseq.fairseq_runs.command import show
from tupe_fairseq.fairseq_runs.train import quiet
from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.names import REPORT
from tupe_fairseq.files.staged_folder import staged_folder
from tupe_fairseq.files.write_together import Sink, write_together
from tupe_fairseq.inference.exported_files import exported_files, reference_of
from tupe_fairseq.inference.source_model import read_source

logger = logging.getLogger("tupe-export")


def main(argv: list[str] | None = None) -> None:
    with quiet("tupe_fairseq"):  # the model is built and run, but not trained
        run_program(get_parser(), run, argv, check=check)


def run(args: argparse.Namespace) -> None:
    """Export; OUT is there only if everything succeeds.

    Raises:
        OSError, ValueError: if an input is absent or wrong, OUT is there already, or the folder
            does not compute what the checkpoint does.
    """
    if args.onnx:
        check_installed()
    given = given_vocabulary(args)
    texts, sample = _texts(args.sample)
    places = places_of(args.checkpoint, args.data)
    dictionary = find_dictionary(places)
    if given is not None:
        words = read_dictionary(dictionary)
        check_fits(*given, words, tuple(words[: len(HIDDEN_SYMBOLS)]) == HIDDEN_SYMBOLS)
    vocabulary = Tokenizer.load(places, given and (given[0], list(given[1].values())))
    texts = [vocabulary.normalize(text) for text in texts]
    report = _report(places)
    logger.info("reading %s, with %s", args.checkpoint, dictionary)
    source = read_source(
        args.checkpoint, dictionary, vocabulary, places, args.head, args.label_dict,
        args.padded_vocabulary,
    )  # fmt: skip
    if source.other_heads:
        logger.info("left out the classification heads: %s", ", ".join(source.other_heads))

    exported = exported_files(
        source, vocabulary, dictionary, args.model_type, args.pooling, args.padded_vocabulary
    )
    if FIELD in exported.config:
        logger.info(
            "%d pieces of the vocabulary are not in %s: each gets the vector of <unk>",
            exported.config[FIELD], dictionary,
        )  # fmt: skip
    with staged_folder(args.output_dir, FILES, args.overwrite) as stage:
        _write(stage, exported.files)
        logger.info("comparing the folder with the checkpoint, on %d %s", len(texts), sample)
        reference = reference_of(source, args.model_type)
        onnx: dict[str, float] = {}
        parity = measure(stage, reference, texts, args.python, args.model_type == MODEL_TYPE)
        _log_parity(parity)
        if args.onnx:
            logger.info("writing onnx/")
            onnx = export_onnx(stage)
            for name, difference in onnx.items():
                logger.info("%s: within %.1e of the folder's model", name, difference)
        facts = CardFacts(
            name=os.path.basename(os.path.realpath(args.output_dir)),
            license=args.license,
            languages=checked_languages(args.language) if args.language else [],
            config=exported.config,
            parameters=exported.parameters,
            head=source.head,
            vocabulary=vocabulary.kind,
            report=report,
            onnx=onnx,
            parity=parity,
            sample=sample,
        )
        _write(stage, {"README.md": model_card(facts).encode()})
    written = [*exported.files, "README.md", *onnx]
    logger.info("wrote %s: %s", args.output_dir, ", ".join(sorted(written)))
    _show_next(args, source.head)


def _texts(path: str | None):
    """The sentences to compare on, and what they are, in words."""
    if path is None:
        return default_texts(), f"texts of {len(SENTENCES)} built-in sentences"
    with open(path, encoding="utf-8") as file:
        try:
            lines = [line.strip() for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"--sample {path} is not a text file in UTF-8") from error
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError(f"--sample {path} is empty; it needs one sentence per line")
    return lines, "given sentences"


def _write(folder: str, files: dict[str, bytes]) -> None:
    def put(content: bytes, file: Sink) -> None:
        file.write(content)

    write_together(
        {os.path.join(folder, name): functools.partial(put, files[name]) for name in files}
    )


def _report(places: list[str]) -> dict[str, Any] | None:
    """What tupe-prepare-pretrain or tupe-prepare-glue recorded, if anything."""
    for place in places:
        path = os.path.join(place, REPORT)
        if os.path.isfile(path):
            content = read_json(path)
            return content if isinstance(content, dict) else None
    return None


def _log_parity(parity: Parity) -> None:
    for kind, difference in parity.differences.items():
        logger.info("%s: logits within %.1e of the checkpoint's", kind, difference)
    versions = ", ".join(f"{name} {version}" for name, version in parity.versions.items())
    logger.info("the same token ids; %d tokens, with %s", parity.tokens, versions)


def _show_next(args: argparse.Namespace, head: Any) -> None:
    trust = ", trust_remote_code=True" if args.model_type == MODEL_TYPE else ""
    show("# to use it, where transformers is installed (README.md there tells more):")
    call = f"pipeline({pipeline_of(head)!r}, {args.output_dir!r}{trust})"
    show(f"from transformers import pipeline\n{call}")


if __name__ == "__main__":
    main()
