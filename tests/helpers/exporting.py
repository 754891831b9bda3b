"""Small models with a vocabulary, as training leaves them, for tupe-export."""

import argparse

import torch
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from helpers.glue_files import write_pretrain_dir
from helpers.running import call_program
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

MAX_POSITIONS = 24
SIZES = {
    "encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24,
    "encoder_attention_heads": 2, "max_positions": MAX_POSITIONS,
}  # fmt: skip
CHECKPOINT = "checkpoint_best.pt"
#: options of a model whose heads get the mean; :func:`build` adds heads as loading does
MEAN_POOLING = {"pooling": "mean", "load_checkpoint_heads": True}


def build(dictionary, heads=None, **options):
    """Options and a model; no weight is what an initialisation gives, so that each counts.

    ``heads`` are names and numbers of classes, ``options`` those of fairseq.
    """
    words = Dictionary.load(str(dictionary))
    words.add_symbol("<mask>")
    preset = {"arch": "tupe_roberta", "task": "masked_lm", "criterion": "masked_lm", **SIZES}
    args = argparse.Namespace(**{**preset, **options})
    task = MaskedLMTask(MaskedLMConfig(tokens_per_sample=args.max_positions), words)
    model = TupeRobertaModel.build_model(args, task)
    for name, classes in (heads or {}).items():
        if args.task == "token_tagging":
            model.register_tagging_head(name, num_classes=classes)
        else:
            model.register_classification_head(name, num_classes=classes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return vars(args), model


def save(folder, args, model, cast=lambda tensors: tensors):
    """Write the checkpoint that fairseq-train would have."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "cfg": {"model": argparse.Namespace(**args)},
        "model": cast(model.state_dict()),
        "optimizer_history": [{"num_updates": 3}],
    }
    torch.save(state, folder / CHECKPOINT)
    return folder / CHECKPOINT


def write_model(folder, data, heads=None, **options):
    """A checkpoint in FOLDER, whose vocabulary is in ``data``."""
    return save(folder, *build(data / "dict.txt", heads, **options))


def write_vocabulary(folder):
    """A data folder with dict.txt, a SentencePiece model and report.json."""
    return write_pretrain_dir(folder)


def export(checkpoint, out, *flags):
    """tupe-export in this process: the exit code and what was printed."""
    return call_program("export", [checkpoint, "--output-dir", out, *flags])
