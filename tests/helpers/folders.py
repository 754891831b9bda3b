"""Model folders for transformers with random weights, and the fairseq models they come from."""

import argparse

import torch

from helpers.exporting import build
from tupe_fairseq.export.names import TUPE, Head, to_config, to_transformers
from tupe_fairseq.export.write_folder import write_model

REL_POS = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}
#: every position encoding with its main options
CASES = {
    "tupe": {},
    "tupe rel_pos": REL_POS,
    "tupe rel_pos tie_cls": {**REL_POS, "tie_cls": True},
    "learned": {},
    "learned position_each_layer": {"position_each_layer": True},
    "sinusoidal rel_pos": REL_POS,
    "none rel_pos untie_cls": {**REL_POS, "untie_cls": True},
    "transformer-xl": {},
    "enformer": {},
    "enformer symmetric_basis": {"symmetric_basis": True},
    "rope": {},
    "alibi": {},
    "alibi untie_cls": {"untie_cls": True},
    "shaw": {"max_rel_pos": 5},
    "disentangled rel_pos": REL_POS,
}
SIZES = {
    "encoder_layers": 2, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 20,
    "encoder_attention_heads": 3, "max_positions": 14,
}  # fmt: skip
WORDS = 31
PAD = 1


def write_folder(folder, case="tupe rel_pos", head=None, **options):
    """Write a folder that transformers can load; the fairseq model that it was made from."""
    folder.mkdir(parents=True)
    (folder / "dict.txt").write_text("".join(f"word{n} 1\n" for n in range(WORDS)))
    options = {"position_encoding": case.split()[0], **CASES[case], **SIZES, **options}
    if head is not None and head.of_tokens:
        options["task"] = "token_tagging"
    heads = {} if head is None else {head.name: len(head.labels)}
    args, model = build(folder / "dict.txt", heads, **options)
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *(f"word{n}" for n in range(WORDS)), "<mask>"]
    config = to_config(argparse.Namespace(**args), symbols, TUPE, head)
    tensors = to_transformers(model.state_dict(), TUPE, head, config["tie_word_embeddings"])
    write_model(str(folder), config, tensors)
    return model.eval()


def batch(*lengths):
    """Random ids with padding on the right, and what is no padding."""
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(4, WORDS + 4, is_real.shape)
    ids[:, 0] = 0
    return ids.masked_fill(~is_real, PAD), is_real


SENTENCE_HEAD = Head("mine", ["no", "yes", "perhaps"], "classification")
TOKEN_HEAD = Head("tags", ["O", "B", "I"], "tagging")
