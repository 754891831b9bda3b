"""Checkpoints of every family and kind of head, as commit 83f7af4 wrote them, and their outputs.

One update each, the weights in half precision, without the optimizer's state (written by this file
of commit 822c43e, run in 83f7af4).
"""

import tarfile
from pathlib import Path

import torch

from helpers import training
from helpers.glue_data import own_task, random_rows, write_bin, write_task
from helpers.running import USER_DIR
from helpers.training import MAX_POSITIONS, MODEL, OPTIMIZATION, PRETRAINING, SIZE, WORDS
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.models.tupe_transformer import TupeTransformer
from tupe_fairseq.models.tupe_transformer_lm import TupeLanguageModel

ARCHIVE = Path(__file__).parents[1] / "checkpoint" / "written_at_83f7af4.tar.xz"
LINES = [f"{word} 1" for word in WORDS]
ENCODING = "--position-encoding"
#: pre-training: flags of fairseq-train after those of ``training.pretrain``
PRETRAINED = {
    "tupe-a": ["--arch", "tupe_roberta_base"],  # and --unpad --compile-layers, which are gone
    "tupe-r": ["--arch", "tupe_roberta", "--rel-pos", "--task", "masked_lm"],
    "tupe-r-tied": ["--rel-pos", "--tie-cls", "--encoder-normalize-before",
                    "--rel-pos-buckets", 8, "--max-rel-pos", 6, "--checkpoint-activations"],
    "learned": [ENCODING, "learned", "--rel-pos", "--untie-cls", "--position-each-layer",
                "--isolate-documents", "--sample-break-mode", "none"],
    "sinusoidal": [ENCODING, "sinusoidal", "--untie-weights-roberta", "--encoder-layerdrop", 0.5],
    "none": [ENCODING, "none", "--rel-pos", "--attn-impl", "chunked"],
    "transformer-xl": [ENCODING, "transformer-xl", "--offload-activations"],
    "enformer": [ENCODING, "enformer", "--symmetric-basis", "--activation-fn", "relu"],
    "rope": [ENCODING, "rope"],
    "alibi": [ENCODING, "alibi", "--untie-cls"],
    "shaw": [ENCODING, "shaw", "--max-rel-pos", 5, "--attn-impl", "eager"],
    "disentangled": [ENCODING, "disentangled", "--rel-pos"],
}  # fmt: skip
_TEXTS = ["--task", "glue_sentence_prediction", "--criterion", "glue_sentence_prediction"]
_CLASSIFICATION = [*_TEXTS, "--num-classes", 3, "--metrics", "accuracy"]
#: fine-tuning: the kind of task, the number of texts, and flags
FINETUNED = {
    "classification": ("classification", 1, [*_CLASSIFICATION, "--rel-pos"]),
    "mean-pooling": ("classification", 1, [*_CLASSIFICATION, "--pooling", "mean"]),
    "pairs": ("classification", 2, [*_CLASSIFICATION, "--classification-head-name", "h"]),
    "regression": ("regression", 2, [
        *_TEXTS, "--regression-target", "--num-classes", 1, "--metrics", "pearson",
    ]),
    "multilabel": ("multilabel", 1, [
        *_TEXTS, "--multilabel", "--num-classes", 2, "--metrics", "micro_f1",
    ]),
    "fairseqs-own": ("classification", 1, [
        "--task", "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", 3,
        "--init-token", 0, "--separator-token", 2, "--pooler-activation-fn", "relu",
    ]),
    "tagging": ("tagging", 1, ["--task", "token_tagging", "--criterion", "token_tagging"]),
}  # fmt: skip
_DECODER = ["--decoder-layers", 2, "--decoder-embed-dim", 12, "--decoder-attention-heads", 3]
_LM = [
    "--user-dir", USER_DIR, *OPTIMIZATION, *_DECODER, "--decoder-ffn-embed-dim", 20,
    "--decoder-input-dim", 12, "--decoder-output-dim", 12, "--task", "tupe_language_modeling",
    "--tokens-per-sample", MAX_POSITIONS, "--batch-size", 4,
]  # fmt: skip
LANGUAGE_MODELS = {
    "lm-tupe-r": [*_LM, "--arch", "tupe_transformer_lm_tiny", "--rel-pos"],
    "lm-rope": [*_LM, "--arch", "tupe_transformer_lm_base", ENCODING, "rope",
                "--task", "language_modeling"],
    "lm-disentangled": [*_LM, "--arch", "tupe_transformer_lm", ENCODING, "disentangled",
                        "--adaptive-softmax-cutoff", "10,20", "--adaptive-softmax-factor", 2,
                        "--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp"],
}  # fmt: skip
_MT = [
    "--user-dir", USER_DIR, *OPTIMIZATION, *_DECODER, *SIZE, "--decoder-ffn-embed-dim", 20,
    "--task", "tupe_translation", "--source-lang", "en", "--target-lang", "de",
    "--share-all-embeddings", "--max-source-positions", 20, "--max-target-positions", 18,
    "--batch-size", 8,
]  # fmt: skip
TRANSLATORS = {
    "mt-tupe-r": [*_MT, "--arch", "tupe_transformer_tiny", "--rel-pos", "--cross-positions"],
    "mt-shaw-alibi": [*_MT, "--arch", "tupe_transformer_base", ENCODING, "shaw",
                      "--encoder-position-encoding", "alibi", "--task", "translation"],
}  # fmt: skip

#: which data folder each has, and from_pretrained of which class
DATA = {
    **dict.fromkeys([*PRETRAINED, *LANGUAGE_MODELS], "text"),
    **{name: f"{kind}-{texts}" for name, (kind, texts, _) in FINETUNED.items()},
    **dict.fromkeys(TRANSLATORS, "sentences"),
}
CLASSES = {
    **dict.fromkeys([*PRETRAINED, *FINETUNED], TupeRobertaModel),
    **dict.fromkeys(LANGUAGE_MODELS, TupeLanguageModel),
    **dict.fromkeys(TRANSLATORS, TupeTransformer),
}


def flags_of(name):
    """All flags of fairseq-train, but for the length of the training."""
    if name in PRETRAINED:
        return [*MODEL, *PRETRAINING, *PRETRAINED[name]]
    if name in FINETUNED:
        positions = ["--max-positions", MAX_POSITIONS, "--batch-size", 8]
        return [*MODEL, *OPTIMIZATION, *positions, *FINETUNED[name][2]]
    return {**LANGUAGE_MODELS, **TRANSLATORS}[name]


def write_data(folder, name):
    """The data folder that a checkpoint was trained on."""
    path = folder / DATA[name]
    if path.exists():
        return path
    if name in FINETUNED:
        kind, texts, _ = FINETUNED[name]
        task = own_task(kind, texts=texts)
        rows = {"train": 16, "valid": 4}
        return write_task(path, task, random_rows(task, len(WORDS), rows, 5), LINES, MAX_POSITIONS)
    if name not in TRANSLATORS:
        return training.write_text_data(path)
    for language in ("en", "de"):
        for split, number in (("train", 16), ("valid", 4)):
            rows = [[4 + (7 * row + n) % 30 for n in range(3 + row % 4)] for row in range(number)]
            rows = [row if language == "en" else row[::-1] for row in rows]
            write_bin(path / f"{split}.en-de.{language}.bin", [[*row, 2] for row in rows])
        (path / f"dict.{language}.txt").write_text("".join(f"{line}\n" for line in LINES))
    return path


@torch.no_grad()
def outputs(name, hub):
    """What a model computes for fixed tokens: a list of tensors."""
    tokens = torch.tensor([[0, 7, 8, 9, 5, 11, 2], [0, 6, 5, 2, 1, 1, 1]])
    hub.eval()
    if name in TRANSLATORS:
        source = torch.tensor([[7, 8, 9, 5, 2], [1, 1, 6, 5, 2]])
        return [hub.models[0](source, torch.tensor([5, 3]), tokens)[0]]
    if name in LANGUAGE_MODELS:
        decoder = hub.models[0].decoder
        features = decoder(tokens[:1], features_only=True)[0]
        if decoder.adaptive_softmax is not None:
            return [features, decoder.adaptive_softmax.get_log_prob(features, None)]
        return [features, decoder.output_layer(features)]
    features = hub.extract_features(tokens)
    is_token = tokens.ne(1)
    found = [features[is_token]]
    if name in PRETRAINED:
        found.append(hub.model(tokens[:, :4])[0][:, 1:3])
    for head in hub.model.classification_heads.values():
        found.append(head(features, is_token)[is_token] if name == "tagging" else
                     head(features, is_token))  # fmt: skip
    return found


def extract(folder):
    """The folder with NAME/model.pt, NAME's vocabulary, and outputs.pt."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder
