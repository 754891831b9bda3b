"""Writes the files that a later version must still read, with the version that is installed.

    python tests/compatibility/make_files.py FOLDER

Run it on both lines of fairseq, the official one first: that one writes data, a checkpoint and a
finished fine-tuning to FOLDER, the main branch adds two checkpoints and the state dicts of every
position encoding.  It uses only commands and names that users have.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from fairseq.models.roberta import RobertaModel

import tupe_fairseq
from tupe_fairseq import TupeConfig, TupeEncoder

BIN = Path(sys.executable).parent
REPO = Path(__file__).resolve().parents[2]
LINE = "official" if sys.version_info < (3, 11) else "main"
SUBJECTS = "the cat, a dog, every bird, no fish, my friend".split(", ")
VERBS = "likes, sees, forgot, will eat, has never met".split(", ")
OBJECTS = "the house, an old tree, nobody, two apples, the sea".split(", ")
REL_POS = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}
ENCODERS = [
    {"position_encoding": "tupe"},
    {"position_encoding": "tupe", **REL_POS},
    {"position_encoding": "tupe", **REL_POS, "tie_cls": True},
    {"position_encoding": "learned"},
    {"position_encoding": "learned", **REL_POS, "untie_cls": True, "position_each_layer": True},
    {"position_encoding": "sinusoidal", **REL_POS},
    {"position_encoding": "none"},
    {"position_encoding": "none", "rel_pos": True},
    {"position_encoding": "transformer-xl"},
    {"position_encoding": "enformer"},
    {"position_encoding": "enformer", "symmetric_basis": True},
    {"position_encoding": "rope"},
    {"position_encoding": "alibi"},
    {"position_encoding": "alibi", "untie_cls": True},
    {"position_encoding": "shaw"},
    {"position_encoding": "shaw", "max_rel_pos": 3},
    {"position_encoding": "disentangled", **REL_POS, "untie_cls": True},
]  # fmt: skip


def run(command, *words):
    words = [str(BIN / command), *map(str, words)]
    print("$", " ".join(words), flush=True)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    text = process.stdout.decode()
    if process.returncode:
        raise SystemExit(text)
    return text


def sentence(number):
    words = SUBJECTS[number % 5], VERBS[number // 5 % 5], OBJECTS[number // 25 % 5]
    return (" ".join(words) + ".").capitalize()


def write_text(folder):
    """Raw text, a small SentencePiece model, and CoLA in the official layout."""
    paragraphs = [" ".join(sentence(7 * n + k) for k in range(3)) for n in range(120)]
    text = "\n".join(p + "\n" * (n % 3 == 2) for n, p in enumerate(paragraphs)) + "\n"
    (folder / "text.txt").write_text(text)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentence(n) for n in range(125)),
        model_prefix=str(folder / "pieces"), vocab_size=80, model_type="bpe",
        character_coverage=1.0, normalization_rule_name="identity", unk_id=3, bos_id=0, pad_id=1,
        eos_id=2, user_defined_symbols=["<mask>"], minloglevel=2, num_threads=1,
    )  # fmt: skip
    (folder / "pieces.vocab").unlink()
    official = folder / "glue" / "CoLA"
    official.mkdir(parents=True)
    for name, first, rows in (("train", 0, 64), ("dev", 64, 24)):
        lines = []
        for number in range(first, first + rows):
            text = sentence(number)
            label = int("bird" in text or "fish" in text or number % 11 == 0)
            lines.append(f"src\t{label}\t\t{text}")
        (official / (name + ".tsv")).write_text("\n".join(lines) + "\n")
    test = [f"{n}\t{sentence(88 + n)}" for n in range(12)]
    (official / "test.tsv").write_text("\n".join(["index\tsentence", *test]) + "\n")


def pretraining(data, *words):
    return [
        data, "--user-dir", tupe_fairseq.__path__[0], "--arch", "tupe_roberta_tiny",
        "--encoder-layers", 2, "--encoder-embed-dim", 8, "--encoder-ffn-embed-dim", 12,
        "--encoder-attention-heads", 2, "--task", "masked_lm", "--criterion", "masked_lm",
        "--sample-break-mode", "complete", "--tokens-per-sample", 48, "--max-positions", 48,
        "--skip-invalid-size-inputs-valid-test", "--optimizer", "adam", "--adam-betas",
        "(0.9, 0.98)", "--lr", 1e-2, "--lr-scheduler", "polynomial_decay", "--warmup-updates", 2,
        "--total-num-update", 20, "--batch-size", 4, "--required-batch-size-multiple", 1,
        "--no-epoch-checkpoints", "--disable-validation", "--num-workers", 0,
        "--data-buffer-size", 0, "--cpu", "--log-format", "json", "--log-interval", 1,
        "--seed", 7, *words,
    ]  # fmt: skip


def losses(text):
    found = {}
    for line in text.splitlines():
        _, brace, rest = line.partition("{")
        if brace and '"num_updates"' in rest and '"loss"' in rest and "train_loss" not in rest:
            record = json.loads(brace + rest)
            found[record["num_updates"]] = float(record["loss"])
    return found


def resume(folder):
    """The losses with which training continues from official.pt; masks differ between the lines.

    Without dropout: torch's random bits for it differ between makers of CPUs.
    """
    work = folder / "work"
    work.mkdir()
    shutil.copy(folder / "official.pt", work / "checkpoint_last.pt")
    words = pretraining(
        folder / "data-bin", "--rel-pos", "--dropout", 0, "--attention-dropout", 0, "--save-dir",
        work,
    )  # fmt: skip
    found = losses(run("fairseq-train", *words, "--max-update", 8))
    (folder / f"losses.{LINE}.json").write_text(json.dumps(found, indent=1) + "\n")
    shutil.rmtree(work)


def features(path, data):
    """What the model makes of two sentences, one of them padded."""
    hub = RobertaModel.from_pretrained(
        str(path.parent), path.name, str(data), user_dir=tupe_fairseq.__path__[0], bpe=None
    ).eval()
    tokens = torch.tensor([[0, 9, 14, 5, 30, 22, 2], [0, 11, 8, 2, 1, 1, 1]])
    return tokens.numpy(), hub.extract_features(tokens).detach().numpy()


def official(folder):
    write_text(folder)
    data = folder / "data-bin"
    run(
        "tupe-prepare-pretrain", "--input", folder / "text.txt", "--sentencepiece-model",
        folder / "pieces.model", "--valid-fraction", 0.1, "--test-fraction", 0,
        "--tokens-per-sample", 48, "--workers", 1, "--output-dir", data,
    )  # fmt: skip
    work = folder / "work"
    run("fairseq-train", *pretraining(data, "--rel-pos", "--save-dir", work, "--max-update", 4))
    shutil.copy(work / "checkpoint_last.pt", folder / "official.pt")
    shutil.rmtree(work)
    run(
        "tupe-prepare-glue", "--glue-dir", folder / "glue", "--tasks", "CoLA", "--pretrain-dir",
        data, "--workers", 1, "--output-dir", folder / "glue-bin",
    )  # fmt: skip
    run(
        "tupe-finetune", "--task", "CoLA", "--data", folder / "glue-bin" / "CoLA", "--checkpoint",
        folder / "official.pt", "--output-dir", folder / "runs", "--cpu", "--epochs", 6,
        "--dropout", 0, "--batch-size", 8, "--lrs", "8e-3,1.5e-2", "--seeds", "1,2",
    )  # fmt: skip
    for path in [*folder.glob("runs/*/*/train.log"), *folder.glob("runs/*/*/command.sh")]:
        path.unlink()


def main_branch(folder):
    data, work = folder / "data-bin", folder / "work"
    words = pretraining(
        data, "--position-encoding", "learned", "--rel-pos", "--untie-cls",
        "--position-each-layer", "--encoder-normalize-before", "--max-update", 3,
        "--no-save-optimizer-state", "--save-dir", work,
    )  # fmt: skip
    run("fairseq-train", *words)
    shutil.copy(work / "checkpoint_last.pt", folder / "main.pt")
    run(
        "fairseq-hydra-train", "--config-dir", REPO / "examples" / "pretraining" / "config",
        "--config-name", "tupe_tiny", "model.position_encoding=enformer",
        "+model.symmetric_basis=true", "model.rel_pos=false", "~model.rel_pos_buckets",
        "~model.max_rel_pos", "+model.encoder_layers=2", "+model.encoder_embed_dim=8",
        "+model.encoder_ffn_embed_dim=12", "+model.encoder_attention_heads=2",
        "model.max_positions=48", "task.tokens_per_sample=48", f"task.data={data}",
        f"common.user_dir={tupe_fairseq.__path__[0]}", "common.cpu=true",
        "optimization.max_update=3", "dataset.disable_validation=true",
        "dataset.data_buffer_size=0", "dataset.num_workers=0", "dataset.batch_size=4",
        "checkpoint.no_save_optimizer_state=true", f"checkpoint.save_dir={work / 'hydra'}",
        f"hydra.run.dir={work}",
    )  # fmt: skip
    shutil.copy(work / "hydra" / "checkpoint_last.pt", folder / "hydra.pt")
    shutil.rmtree(work)
    torch.save(encoders(), folder / "encoders.pt")


def encoders():
    """State dicts of a layer with each position encoding, and what they make of one input."""
    found = []
    x = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(1))
    padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    sizes = {
        "embed_dim": 12, "num_heads": 3, "num_layers": 1, "ffn_embed_dim": 4, "max_positions": 10,
    }  # fmt: skip
    for options in ENCODERS:
        config = {**sizes, **options}
        encoder = TupeEncoder(TupeConfig(**config)).eval()
        torch.manual_seed(2)
        for parameter in encoder.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        with torch.no_grad():
            output = encoder(x, padding).masked_fill(padding[:, :, None], 0)
        found.append({"config": config, "state": encoder.state_dict(), "output": output})
    return {"x": x, "padding": padding, "encoders": found}


def main():
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(exist_ok=True)
    (official if LINE == "official" else main_branch)(folder)
    resume(folder)
    found = {}
    for name in ["official"] if LINE == "official" else ["official", "main", "hydra"]:
        tokens, found[name] = features(folder / f"{name}.pt", folder / "data-bin")
    np.savez(folder / "features.npz", tokens=tokens, **found)


if __name__ == "__main__":
    main()
