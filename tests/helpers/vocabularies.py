"""Small checkpoints with the vocabularies of other programs, for tupe-convert."""

import argparse
import json
import shlex

import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.models.roberta import RobertaModel, base_architecture
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from helpers.authors import WORDS, their_checkpoint
from helpers.running import run_here

MERGES = ["t h", "th e", "Ġ the", "Ġ a"]


def write_authors(folder):
    """Write a checkpoint of the authors' code and its dict.txt; returns tupe-convert's flags."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(their_checkpoint()[0], folder / "theirs.pt")
    (folder / "theirs.txt").write_text("\n".join(WORDS) + "\n")
    return [folder / "theirs.pt", "--dictionary", folder / "theirs.txt"]


def write_stock(folder, lines, max_positions=16):
    """Write theirs.pt, fairseq's stock RoBERTa, and theirs.txt of ``lines``; returns the model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "theirs.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    dictionary = Dictionary.load(str(folder / "theirs.txt"))
    dictionary.add_symbol("<mask>")
    args = argparse.Namespace(
        arch="roberta_base", encoder_layers=1, encoder_embed_dim=12, encoder_ffn_embed_dim=20,
        encoder_attention_heads=3, max_positions=max_positions, task="masked_lm",
    )  # fmt: skip
    base_architecture(args)
    task = MaskedLMTask(MaskedLMConfig(tokens_per_sample=max_positions), dictionary)
    model = RobertaModel.build_model(args, task).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    torch.save({"args": args, "model": model.state_dict()}, folder / "theirs.pt")
    return model


def fairseqs_bpe(folder):
    """fairseq's ``--bpe sentencepiece`` with the model of a folder."""
    path = str(folder / "sentencepiece.bpe.model")
    return SentencepieceBPE(SentencepieceConfig(sentencepiece_model=path))


def write_gpt2(folder, merges=MERGES):
    """Write a stock RoBERTa with a small vocabulary like GPT-2's; returns tupe-convert's flags."""
    pieces = [*bytes_to_unicode().values(), *(pair.replace(" ", "") for pair in merges)]
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    (folder / "encoder.json").write_text(json.dumps(numbers))
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", "utf-8")
    # like the public dict.txt: the most frequent first, some ids missing, and padding words
    listed = [f"{number} {number + 5}" for number in sorted(numbers.values(), reverse=True)[:-30]]
    write_stock(folder, [*listed, "madeupword0000 0", "madeupword0001 0"])
    return [
        folder / "theirs.pt", "--dictionary", folder / "theirs.txt",
        "--gpt2-encoder-json", folder / "encoder.json", "--gpt2-vocab-bpe", folder / "vocab.bpe",
    ]  # fmt: skip


def write_roberta(folder, mask=-1, kind=None, **options):
    """Write a small roberta-base as it is downloaded; returns its tokenizer and the model.

    vocab.json has its own ids; the dict.txt beside it has GPT-2's. ``mask`` is the id of <mask>: 4
    if the tokenizers library trained the vocabulary.
    """
    from transformers import RobertaConfig, RobertaForMaskedLM, RobertaTokenizerFast

    tokens = ["Ġthe", *sorted(bytes_to_unicode().values()), "th", "the"]
    words = ["<s>", "<pad>", "</s>", "<unk>", *tokens, "madeupword0000"]
    words.insert(mask % (len(words) + 1), "<mask>")
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({word: n for n, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e\nĠ the\n", "utf-8")
    tokenizer = RobertaTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer.save_pretrained(folder)
    (folder / "dict.txt").write_text("".join(f"{n} 1\n" for n in reversed(range(len(tokens) + 1))))
    config = RobertaConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=20, max_position_embeddings=66, layer_norm_eps=1e-5,
        **{"type_vocab_size": 1, **options},
    )  # fmt: skip
    model = (kind or RobertaForMaskedLM)(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return tokenizer, model


def convert(flags, out, *more):
    """Run tupe-convert; returns what it printed."""
    return run_here("tupe-convert", *flags, "--output-dir", out, *more).stdout


def printed_commands(text):
    """The arguments of each command that tupe-convert printed, by program."""
    lines = text.replace("\\\n", " ").splitlines()
    lines = [line for line in lines if not line.startswith(("tupe-convert:", "#"))]
    commands = [[w for w in shlex.split(line) if w[:4] != "OMP_"] for line in lines]
    return {words[0]: words[1:] for words in commands}
