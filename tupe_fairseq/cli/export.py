"""tupe-export: a folder for transformers, sentence-transformers and onnxruntime."""

import argparse
import logging
import os
import re
import shutil
from typing import Any

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.shared_flags import add_vocabulary_flags, folders_of, vocabulary_files

logger = logging.getLogger("tupe-export")


def license_id(text: str) -> str:
    """An identifier that model hubs know, such as mit."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not an identifier such as mit or apache-2.0")
    return text


def language(text: str) -> str:
    """A code such as en or pt-BR."""
    if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a code such as en or pt-BR")
    return text


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-export",
        description="Write a folder that transformers, sentence-transformers and, with --onnx, "
        "onnxruntime use like any other model, without fairseq and this package. Before it gets "
        "its name, it is compared with the checkpoint: the same token ids, logits within 1e-4.",
        epilog="example: tupe-export checkpoints/checkpoint_best.pt --output-dir my-model "
        "--license mit --language en",
    )
    add = parser.add_argument
    add(
        "checkpoint",
        metavar="CHECKPOINT",
        type=arg_types.checkpoint,
        help="pre-trained or fine-tuned",
    )
    add("--output-dir", required=True, metavar="OUT", type=arg_types.writable, help="a new folder")
    add("--overwrite", action="store_true", help="replace the files of an earlier export in OUT")
    add(
        "--data",
        metavar="DIR",
        type=arg_types.folder,
        help="folder with dict.txt, the vocabulary and, for a fine-tuned model, label/dict.txt; "
        "what it lacks is read from the checkpoint's folder, the default",
    )
    add_vocabulary_flags(parser)
    add("--head", metavar="NAME", help="classification head to export, if there are several")
    add("--label-dict", metavar="FILE", type=arg_types.file, help="label/dict.txt of the head")
    add(
        "--padded-vocabulary",
        action="store_true",
        help="also export the words that pad dict.txt (madeupword0000, ...)",
    )
    add(
        "--as",
        dest="model_type",
        choices=("tupe", "roberta"),
        default="tupe",
        help="model type: tupe, whose code is in OUT, or transformers' own roberta, for "
        "--position-encoding learned without further position options; default %(default)s",
    )
    add(
        "--pooling",
        choices=("mean", "cls"),
        default="mean",
        help="vector of a text in sentence-transformers: the mean of its tokens, or that of <s>; "
        "default %(default)s",
    )
    add("--onnx", action="store_true", help="also write OUT/onnx/model.onnx for onnxruntime")
    add(
        "--sample",
        metavar="FILE",
        type=arg_types.file,
        help="text, one sentence a line, on which to compare; default: built-in sentences",
    )
    add("--license", metavar="ID", type=license_id, help="for the model card, such as mit")
    add(
        "--language",
        metavar="en,...",
        type=arg_types.comma_list(language),
        default=[],
        help="for the model card: languages of the training text",
    )
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    vocabulary_choice = vocabulary_files(parser, args)
    from tupe_fairseq.export.write_folder import SOME
    from tupe_fairseq.files import new_output_folder

    with new_output_folder(
        args.output_dir, "config.json", others=SOME, overwrite=args.overwrite
    ) as folder:
        pipeline = export(args, vocabulary_choice, folder)
    trust = ", trust_remote_code=True" if args.model_type == "tupe" else ""
    logger.info("wrote %s", args.output_dir)
    print(f"# where transformers is installed (more is in {args.output_dir}/README.md):")
    print("from transformers import pipeline")
    print(f"pipeline({pipeline!r}, {args.output_dir!r}{trust})")


def export(args: argparse.Namespace, vocabulary_choice: Any, folder: str) -> str:
    """Write a folder and compare it with the checkpoint; the pipeline that it is for."""
    import torch

    from tupe_fairseq.checkpoint.checkpoint import ENCODER, LM_HEAD, vocabulary_version
    from tupe_fairseq.data.dictionary import BOS, DICTIONARY, EOS, FILLER, PAD
    from tupe_fairseq.data.task import REPORT
    from tupe_fairseq.data.tokenizer import Tokenizer
    from tupe_fairseq.export import check, names, onnx_files, write_folder
    from tupe_fairseq.export.card import model_card, pipeline_of
    from tupe_fairseq.export.tokenizer import build_tokenizer
    from tupe_fairseq.files import read_json
    from tupe_fairseq.inference.model import load

    transformers = check.import_transformers()
    if args.onnx:
        onnx_files.check_installed()
    folders = folders_of(args)
    logger.info("reading %s", args.checkpoint)
    model = load(args.checkpoint, *folders)
    vocabulary = Tokenizer.load(folders, vocabulary_choice, clean=not model.origin)
    texts = sample(args.sample) if args.sample else check.TEXTS
    reports = [path for p in folders if os.path.isfile(path := os.path.join(p, REPORT))]
    report = read_json(reports[0]) if reports else {}
    symbols, length = model.symbols, model.max_positions
    fillers = [word for word in symbols if FILLER.fullmatch(word)]
    if fillers and not args.padded_vocabulary:
        raise ValueError(
            f"{model.dictionary} is padded with {len(fillers)} words that are in no text, such as "
            f"{fillers[0]}; to export them, too, give --padded-vocabulary"
        )
    head = chosen_head(model, args, folders)

    state = {
        **{ENCODER + name: tensor for name, tensor in model.encoder.state_dict().items()},
        **{LM_HEAD + name: tensor for name, tensor in model.lm_head.state_dict().items()},
    }
    if head:
        prefix = f"{names.HEADS}{head.name}."
        state.update({prefix + name: tensor for name, tensor in model.head.state_dict().items()})
    options = argparse.Namespace(**model.options)
    tokenizer, unlisted = build_tokenizer(vocabulary.record, vocabulary.paths, symbols, length)
    version = int(vocabulary_version(symbols))
    config = names.to_config(options, symbols, args.model_type, head, version)
    if unlisted:
        logger.info("%d tokens are not in dict.txt: they get the vector of <unk>", unlisted)
        state = write_folder.with_unlisted(state, unlisted)
        config.update(vocab_size=len(symbols) + unlisted, unlisted_pieces=unlisted)
    tensors = names.to_transformers(state, args.model_type, head, config["tie_word_embeddings"])
    write_folder.write_model(folder, config, tensors)
    write_folder.write_sentence_files(folder, args.pooling, config["hidden_size"], length)
    tokenizer.save_pretrained(folder)
    shutil.copyfile(model.dictionary, os.path.join(folder, DICTIONARY))

    logger.info("comparing the folder with the checkpoint on %d texts", len(texts))

    def encode(*texts: str) -> list[int]:
        first, *second = map(vocabulary.encode, texts)
        return [BOS, *first, EOS, *(token for ids in second for token in (EOS, *ids, EOS))]

    def hidden(tokens: torch.Tensor) -> torch.Tensor:
        return model.encoder(model.encoder.embed_tokens(tokens), tokens.eq(PAD))

    logits: dict[str, Any] = {}
    if head:
        logits[f"AutoModel{head.suffix}"] = lambda x: model.head(hidden(x), x.ne(PAD))
    if head is None or args.model_type == names.TUPE:  # transformers' RoBERTa has one or the other
        logits["AutoModelForMaskedLM"] = lambda x: model.lm_head(hidden(x))
    differences = check.check_folder(folder, texts, encode, logits, len(symbols), length)
    if args.onnx:
        logger.info("writing onnx/")
        differences.update(onnx_files.export_onnx(folder))
    for name, difference in differences.items():
        logger.info("%s: the same within %.1e", name, difference)
    card = model_card(
        config,
        head,
        report,
        name=os.path.basename(os.path.realpath(args.output_dir)),
        license=args.license,
        languages=args.language,
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        vocabulary=vocabulary,
        max_positions=length,
        onnx=args.onnx,
        texts=len(texts),
        transformers=transformers.__version__,
        torch=torch.__version__.partition("+")[0],
        differences=differences,
    )
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write(card)
    return pipeline_of(head)


def sample(path: str) -> list[str]:
    """The lines of a file that are not empty."""
    from tupe_fairseq.data.rows import read_rows

    rows = read_rows(path, ["text"], ending=".txt")
    lines = [row["text"] for _, row in rows if row["text"].strip()]
    if not lines:
        raise ValueError(f"--sample {path} is empty; it needs one sentence a line")
    return lines


def chosen_head(model: Any, args: argparse.Namespace, folders: list[str]) -> Any:
    """The classification head to export, with its labels; None if there is none."""
    from tupe_fairseq.data.dictionary import DICTIONARY, FILLER, MASK, read_dictionary
    from tupe_fairseq.data.task import CLASSIFICATION, REGRESSION, TAGGING, label_of
    from tupe_fairseq.export.names import Head
    from tupe_fairseq.modules.heads import TaggingHead

    heads = sorted(model.heads)
    if not heads:
        if args.head or args.label_dict:
            raise ValueError(
                f"{args.checkpoint} has no classification head; drop --head and --label-dict"
            )
        return None
    if args.head not in (heads if len(heads) > 1 else [None, *heads]):
        raise ValueError(f"--head must be one of the checkpoint's: {', '.join(heads)}")
    name = model.options["classification_head_name"] = args.head or heads[0]
    outputs, kind = model.heads[name], model.kind
    if isinstance(model.head, TaggingHead):
        kind = TAGGING
    elif outputs == 1 and kind == CLASSIFICATION:
        kind = REGRESSION
    paths = [args.label_dict or os.path.join(place, "label", DICTIONARY) for place in folders]
    path = next(filter(os.path.isfile, paths), None)
    if kind == REGRESSION or path is None:
        labels = ["score"] if kind == REGRESSION else [f"LABEL_{n}" for n in range(outputs)]
        return Head(name, labels, kind)
    words = read_dictionary(path)
    labels = [label_of(word) for word in words if word != MASK and not FILLER.fullmatch(word)]
    if len(labels) != outputs:
        raise ValueError(
            f"{path} lists {len(labels)} labels, but head {name} has {outputs} outputs; give "
            "--label-dict, the label/dict.txt that it was trained with"
        )
    return Head(name, labels, kind)
