"""What the first edition (commit 8870446) gives, written down before the package was rewritten.

    python tests/recorded/record.py [SECTION ...]

writes ``SECTION.json`` and ``encodings.npz`` beside this file; ``test_recorded.py`` makes the same
again and compares. Everything goes through what users have: commands, ``fairseq-train``,
``TupeEncoder``, ``TupeRobertaModel.from_pretrained`` and the layout of files.

It was run with Python 3.11, torch 2.13.0, ve-fairseq 0.12.3, sentencepiece 0.2.3 and transformers
4.57.6 on the CPU, one thread. All weights come from :func:`fill`, so that they do not depend on the
order of initialisation, and no run has dropout.
"""

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import logging
import random
import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from unittest import mock

import numpy as np
import torch

FOLDER = Path(__file__).resolve().parent
REPO = FOLDER.parents[1]
GLUE = REPO.parent / "shared" / "data" / "glue"

# ---- Encodings: outputs and gradients of the encoder --------------------------------------------

B, T, H, K, M = 2, 9, 3, 4, 11  # all different, so that a wrong axis does not fit
D = H * K
T5 = {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5}  # T tokens reach the last bucket
PRE_LN = {"normalize_before": True}
CASES = {
    "tupe-a": ("tupe", {}),
    "tupe-r": ("tupe", T5),
    "tupe-a tied": ("tupe", {"tie_cls": True}),
    "tupe-r tied": ("tupe", {**T5, "tie_cls": True}),
    "tupe-r pre-LN": ("tupe", {**T5, **PRE_LN}),
    "learned": ("learned", {}),
    "learned relative": ("learned", T5),
    "learned relative untied": ("learned", {**T5, "untie_cls": True}),
    "learned each layer": ("learned", {"position_each_layer": True}),
    "learned pre-LN": ("learned", PRE_LN),
    "sinusoidal": ("sinusoidal", {}),
    "sinusoidal relative": ("sinusoidal", T5),
    "sinusoidal each layer": ("sinusoidal", {"position_each_layer": True}),
    "none": ("none", {}),
    "none relative": ("none", T5),
    "none relative untied": ("none", {**T5, "untie_cls": True}),
    "transformer-xl": ("transformer-xl", {}),
    "enformer": ("enformer", {}),
    "enformer symmetric": ("enformer", {"symmetric_basis": True}),
    "rope": ("rope", {}),
    "rope pre-LN": ("rope", PRE_LN),
    "alibi": ("alibi", {}),
    "alibi untied": ("alibi", {"untie_cls": True}),
    "shaw": ("shaw", {}),
    "shaw near": ("shaw", {"max_rel_pos": 3}),
    "disentangled": ("disentangled", {}),
    "disentangled relative": ("disentangled", T5),
    "disentangled relative untied": ("disentangled", {**T5, "untie_cls": True}),
}
#: their attention bias depends on the content, which chunked does not compute
CONTENT = ("transformer-xl", "enformer", "shaw", "disentangled")
REAL = torch.arange(T) < torch.tensor([[T], [6]])  # of the padded layouts
STARTS = torch.zeros(B, T, dtype=torch.bool)
STARTS[0, [0, 4, 5]] = STARTS[1, [0, 2]] = True
LAYOUTS = {
    "whole": {},
    "padded": {"key_padding_mask": ~REAL},
    "documents": {"key_padding_mask": ~REAL, "document_starts": STARTS},
}


def numbers(name, *shape):
    """Normal random numbers that depend on the name alone, the same with every numpy."""
    return torch.from_numpy(np.random.RandomState(zlib.crc32(name.encode())).randn(*shape))


def fill(tensors):
    """Overwrite named tensors by numbers that depend on their names."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                tensor.copy_(0.5 * numbers(name, *tensor.shape))


def encoder(case, **options):
    """The encoder of a case in float64; an error if ``attn_impl`` does not serve it."""
    from tupe_fairseq import TupeConfig, TupeEncoder

    name, more = CASES[case]
    config = TupeConfig(
        embed_dim=D,
        num_heads=H,
        num_layers=2,
        ffn_embed_dim=5,
        max_positions=M,
        dropout=0.0,
        attention_dropout=0.0,
        position_encoding=name,
        **{"attn_impl": "eager", **more, **options},
    )
    made = TupeEncoder(config).double()
    fill(dict(made.named_parameters()))
    return made


def outputs(made, layout):
    """Hidden states and gradients of one batch, real tokens alone.

    Returns:
        dict: ``out`` (all numbers), and for each other hidden state and each gradient three
        projections on random vectors of length 1.
    """
    x = numbers("input", B, T, D).requires_grad_()
    real = REAL if layout != "whole" else torch.ones(B, T, dtype=torch.bool)
    out, hiddens = made(x, return_all_hiddens=True, **LAYOUTS[layout])
    (out * numbers("loss", B, T, D))[real].sum().backward()
    tensors = {f"hidden {n}": state[real] for n, state in enumerate(hiddens)}
    tensors["gradient of the input"] = x.grad[real]
    tensors.update((name, p.grad) for name, p in made.named_parameters())
    return {"out": out.detach()[real].flatten(), **projections(tensors)}


def projections(tensors):
    """Three projections of each tensor on random vectors of length 1; 0 of one that is None."""
    found = {}
    for name, tensor in sorted(tensors.items()):
        if tensor is None:
            found[name] = torch.zeros(3, dtype=torch.float64)
            continue
        flat = tensor.detach().double().flatten()
        vectors = numbers(f"projection of {name}", 3, flat.numel())
        found[name] = (vectors / vectors.norm(dim=1, keepdim=True)) @ flat
    return found


def state_dict(case):
    """Names and shapes of the state dict, and the options that it records."""
    state = encoder(case).state_dict()
    shapes = {name: list(x.shape) for name, x in state.items() if name != "position_version"}
    options = json.loads(bytes(state["position_version"].tolist()))
    return {"shapes": shapes, "options": options}


def record_encodings():
    arrays, states = {}, {}
    for case in CASES:
        states[case] = state_dict(case)
        for layout in LAYOUTS:
            found = outputs(encoder(case), layout)
            flat = torch.cat(list(found.values()))
            arrays[f"{case}/{layout}"] = flat.numpy().astype("float32")  # rounding: 6e-8
    np.savez_compressed(FOLDER / "encodings.npz", **arrays)
    shared = dict.fromkeys(
        name for case in states.values() for name in case["shapes"] if "position" not in name
    )
    common = {name: shape for name in shared for shape in [states["tupe-r pre-LN"]["shapes"][name]]}
    for case in states.values():
        assert all(common[n] == s for n, s in case["shapes"].items() if n in common)
        case["shapes"] = {n: s for n, s in case["shapes"].items() if n not in common}
    return {"common": common, "cases": states}


# ---- Running commands ---------------------------------------------------------------------------


def call(command, *words):
    """Run a console script; an AssertionError with its output if it fails.

    In this process, except for those that fork: a fork of a process with threads can hang.
    """
    if command.startswith("tupe-prepare"):
        path = Path(sys.executable).with_name(command)
        words = [path, *map(str, words)]
        process = subprocess.run(words, capture_output=True, text=True)
        said = process.stdout + process.stderr
        assert process.returncode == 0, f"{words}\n{said}"
        return said
    if command == "fairseq-train":
        target = "fairseq_cli.train:cli_main"
    else:
        scripts = (REPO / "pyproject.toml").read_text()
        target = re.search(rf'^{command} = "(.+)"', scripts, re.MULTILINE).group(1)
    module, name = target.split(":")
    main = getattr(importlib.import_module(module), name)
    said = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with (
            mock.patch.object(sys, "argv", [command, *map(str, words)]),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            main()
    except SystemExit as end:
        assert not end.code, f"{command} {' '.join(map(str, words))}\n{said.getvalue()}"
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return said.getvalue()


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def hashes(folder):
    """The hash of each file of a data folder that a training reads."""
    kinds = (".bin", ".idx", ".label", ".index", "dict.txt", ".model")
    files = sorted(x for x in folder.rglob("*") if x.name.endswith(kinds))
    return {str(x.relative_to(folder)): sha256(x) for x in files}


# ---- Text ---------------------------------------------------------------------------------------

SYLLABLES = "ba bé ci dö du fa fe gi ho ju ka lo mi na ñu or pe qua ri sto tu vi 東 京 ße".split()
ODD = [
    '"Quoted" and \'quoted\', then ""',
    "a next line\u0085inside, a line separator\u2028too",
    "vertical\x0btab, form\x0cfeed, bell\x07 and\u200bzero width",
    "Cafe\u0301, nai\u0308ve \u2013 CAPITALS\u2026 \ufb01ne \u00bd",
    "&lt;b&gt; &amp; <mask> <s> </s> <unk>",
    "https://example.com/a?b=c, me@example.com and /usr/share/doc/file.txt",
    "  two  spaces \t and a tab  ",
    "no letters: 1,234.56 (7) + 8 = 9!?",
    "emoji \U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "x",
]


def documents(seed, characters):
    """Documents of made-up words, each a list of lines: odd ones, long ones and repeated ones."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(2000)]
    weights = [1 / (n + 3) for n in range(len(words))]
    made, lines, size = [], [], 0
    while size < characters:
        found = []
        for _ in range(draw.randint(1, 12)):
            kind = draw.random()
            if kind < 0.02:
                line = draw.choice(ODD)
            elif kind < 0.05 and lines:
                line = draw.choice(lines)
            else:
                count = draw.randint(200, 400) if kind > 0.998 else draw.randint(2, 25)
                picked = draw.choices(words, weights, k=count)
                line = " ".join(picked).capitalize() + draw.choice([".", ".", "!", ", 17.", ""])
            found.append(line)
            lines.append(line)
            size += len(line) + 1
        made.append(found)
    return made


def write_text(path, seed, characters):
    text = "\n\n".join("\n".join(lines) for lines in documents(seed, characters)) + "\n"
    path.write_text(text, "utf-8", newline="\n")
    return path


class Work:
    """A temporary folder of text, data, vocabularies and checkpoints, each made when needed."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def made(self, name, make):
        path = self.folder / name
        if not path.exists():
            make(path)
        return path

    def text(self):
        return self.made("text.txt", lambda path: write_text(path, 1, 1_000_000))

    def short_text(self):
        return self.made("short.txt", lambda path: write_text(path, 2, 100_000))

    def prepare(self, name, *flags, text=None):
        return self.made(
            name,
            lambda path: call(
                "tupe-prepare-pretrain",
                *("--input", text or self.text(), "--output-dir", path),
                *("--valid-fraction", 0.03, "--test-fraction", 0.02, "--tokens-per-sample", 64),
                *flags,
            ),
        )

    def data(self):
        """A folder with a learned SentencePiece vocabulary."""
        return self.prepare("learned-1", "--vocab-size", 400, "--workers", 1)

    def gpt2(self):
        """A model with GPT-2's kind of vocabulary, converted from a stock RoBERTa."""
        return self.made("gpt2", lambda path: convert_gpt2(self.folder / "gpt2-files", path))

    def fastbpe(self):
        """A model with fastBPE's vocabulary, converted from a checkpoint of the authors."""
        return self.made("fastbpe", lambda path: convert_fastbpe(self.folder / "bpe-files", path))

    def checkpoint(self):
        """A tiny TUPE-R with weights by :func:`fill`, beside the vocabulary of the data."""

        def make(path):
            pretrain(self.data(), path, "--max-update", 1)
            overwrite(path / "checkpoint_last.pt")
            for name in ("dict.txt", "sentencepiece.bpe.model"):
                (path / name).write_bytes((self.data() / name).read_bytes())

        return self.made("checkpoint", make) / "checkpoint_last.pt"

    def glue(self):
        """CoLA in small, prepared."""

        def make(path):
            write_cola(self.folder / "glue-files" / "CoLA")
            call(
                "tupe-prepare-glue",
                *("--glue-dir", self.folder / "glue-files", "--tasks", "CoLA"),
                *("--pretrain-dir", self.data(), "--output-dir", path, "--workers", 1),
            )

        return self.made("glue", make)


def convert_gpt2(folder, out):
    from fairseq.data import Dictionary
    from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
    from fairseq.models.roberta import RobertaModel, base_architecture
    from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

    folder.mkdir()
    merges = [
        "b a",
        "f a",
        "Ġ ba",
        "l o",
        "lo r",
        "o r",
        "Ġ m",
        "Ġm i",
        "t u",
        "Ġ d",
        "Ġd u",
        "1 7",
    ]
    tokens = [*bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in merges)]
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "encoder.json").write_text(json.dumps(ids))
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", "utf-8")
    # as in the public one: the most frequent first, not all of them, filled up
    lines = [f"{number} {number + 5}" for number in sorted(ids.values(), reverse=True)[:-30]]
    lines += ["madeupword0000 0", "madeupword0001 0"]
    (folder / "dict.txt").write_text("\n".join(lines) + "\n")
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    args = argparse.Namespace(
        arch="roberta_base",
        task="masked_lm",
        encoder_layers=1,
        encoder_embed_dim=12,
        encoder_ffn_embed_dim=20,
        encoder_attention_heads=3,
        max_positions=512,
    )
    base_architecture(args)
    model = RobertaModel.build_model(args, MaskedLMTask(MaskedLMConfig(), dictionary))
    torch.save({"args": args, "model": model.state_dict()}, folder / "theirs.pt")
    call(
        "tupe-convert",
        *("--checkpoint", folder / "theirs.pt", "--dict", folder / "dict.txt"),
        *("--gpt2-encoder-json", folder / "encoder.json"),
        *("--gpt2-vocab-bpe", folder / "vocab.bpe", "--output-dir", out),
    )


def convert_fastbpe(folder, out):
    folder.mkdir()
    golden = REPO / "tests" / "goldens" / "tupe_a"
    size = len(golden.with_suffix(".dict.txt").read_text().splitlines())
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["ba", "lo@@", "fa@@", "du", ".", ",", "!", "7", *letters]
    pieces += [f"{letter}@@" for letter in letters]
    lines = [f"{piece} {99 - number}" for number, piece in enumerate(pieces[:size])]
    (folder / "dict.txt").write_text("\n".join(lines) + "\n")
    (folder / "codes").write_text("b a</w> 7\nl o 6\nf a 5\nd u</w> 4\n")
    call(
        "tupe-convert",
        *("--checkpoint", golden.with_suffix(".pt"), "--dict", folder / "dict.txt"),
        *("--bpe-codes", folder / "codes", "--output-dir", out),
    )


def write_cola(folder):
    """CoLA's files, with something to learn: the label is that of the first word."""
    folder.mkdir(parents=True)
    lines = [line for lines in documents(3, 40_000) for line in lines if 3 < len(line) < 60]
    lines = [line for line in lines if not set(line) & set("\t\x0b\x0c\x85\u2028")]
    labels = [int(line[0].lower() < "h") for line in lines]
    rows = [f"x\t{label}\t\t{text}" for label, text in zip(labels, lines, strict=True)]
    for name, part in (("train", rows[:90]), ("dev", rows[90:150])):
        (folder / f"{name}.tsv").write_text("\n".join(part) + "\n", "utf-8")
    test = [f"{10 * n}\t{text}" for n, text in enumerate(lines[150:180])]
    (folder / "test.tsv").write_text("\n".join(["index\tsentence", *test]) + "\n", "utf-8")


def ids_of_lines(work, name):
    """The token ids of 1,000 lines: how many, and a hash for each 50 lines."""
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

    from tupe_fairseq import TupeRobertaModel
    from tupe_fairseq.data.text_files import clean_line

    checkpoint = (
        work.checkpoint() if name == "sentencepiece" else getattr(work, name)() / "model.pt"
    )
    model = TupeRobertaModel.from_pretrained(str(checkpoint.parent), checkpoint.name)
    lines = [line for lines in documents(4, 200_000) for line in lines if len(line) < 200][:1000]
    ids = [model.encode(line).tolist() for line in lines]
    if name == "sentencepiece":
        # the first edition's hub did not clean a line as tupe-prepare-pretrain does
        model.bpe = SentencepieceBPE(
            SentencepieceConfig(sentencepiece_model=str(work.data() / "sentencepiece.bpe.model"))
        )
        changed = [n for n, line in enumerate(lines) if clean_line(line) != line]
        assert 0 < len(changed) < 20
        for n in changed:
            ids[n] = model.encode(lines[n]).tolist()
    blocks = [ids[start : start + 50] for start in range(0, 1000, 50)]
    return {
        "tokens": sum(map(len, ids)),
        "unknown": sum(row.count(3) for row in ids),
        "first": ids[0],
        "hashes": [hashlib.sha256(json.dumps(x).encode()).hexdigest()[:16] for x in blocks],
    }


def record_ids(work):
    return {name: ids_of_lines(work, name) for name in ("sentencepiece", "gpt2", "fastbpe")}


def prepared(work, name):
    """The files of ``tupe-prepare-pretrain``."""
    kind, workers = name.split("-")
    if kind == "learned":
        folder = work.prepare(name, "--vocab-size", 400, "--workers", workers)
    elif kind == "given":
        folder = work.prepare(name, "--vocabulary", work.gpt2(), "--workers", workers)
    else:  # every option that changes the text
        flags = ["--lowercase", "--split-sentences", "--min-chars", 20, "--max-chars", 2000]
        flags += ["--join-short", 40, "--shards", 2, "--model-type", "bpe", "--vocab-size", 300]
        flags += ["--workers", workers]
        folder = work.prepare(name, *flags, text=work.short_text())
    return hashes(folder)


def record_prepare(work):
    found = {name: prepared(work, f"{name}-1") for name in ("learned", "given", "options")}
    return {**found, "text": sha256(work.text())}


def prepared_glue(work):
    """The files of five GLUE tasks, from the official ones."""
    out = work.folder / "official"
    call(
        "tupe-prepare-glue",
        *("--glue-dir", GLUE, "--tasks", "CoLA,MRPC,RTE,SST-2,STS-B"),
        *("--pretrain-dir", work.data(), "--output-dir", out, "--workers", 2),
    )
    return hashes(out)


# ---- Trainings ----------------------------------------------------------------------------------

SIZE = "--encoder-layers 2 --encoder-embed-dim 12 --encoder-ffn-embed-dim 20"
SIZE += " --encoder-attention-heads 3"
NO_DROPOUT = "--dropout 0 --attention-dropout 0 --activation-dropout 0 --pooler-dropout 0"
ANEW = "--reset-optimizer --reset-dataloader --reset-meters --reset-lr-scheduler"


def train(data, save_dir, *flags):
    import tupe_fairseq

    call(
        "fairseq-train",
        *(data, "--user-dir", tupe_fairseq.__path__[0], "--save-dir", save_dir),
        *("--arch", "tupe_roberta_tiny", "--rel-pos", "--rel-pos-buckets", 8, "--max-rel-pos", 20),
        *(*SIZE.split(), *NO_DROPOUT.split(), "--max-positions", 64),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6),
        *("--weight-decay", 0.01, "--clip-norm", 1.0, "--lr", 1e-3),
        *("--lr-scheduler", "polynomial_decay", "--warmup-updates", 2, "--total-num-update", 9),
        *("--batch-size", 4, "--required-batch-size-multiple", 1, "--seed", 3, "--cpu"),
        *("--num-workers", 0, "--data-buffer-size", 0, "--no-epoch-checkpoints"),
        *flags,
    )


def pretrain(data, save_dir, *flags, task="masked_lm"):
    train(
        data,
        save_dir,
        *("--task", task, "--criterion", "masked_lm", "--sample-break-mode", "complete"),
        *("--tokens-per-sample", 64, "--skip-invalid-size-inputs-valid-test", *flags),
    )


def overwrite(path):
    """Give the model of a checkpoint the weights of :func:`fill`."""
    state = torch.load(path, weights_only=False)
    fill(state["model"])
    torch.save(state, path)


def outcome(path):
    """What a training ends with: the validation's loss, and projections of the weights."""
    state = torch.load(path, weights_only=False)
    weights = {n: x for n, x in state["model"].items() if x.is_floating_point()}
    return {
        "updates": state["optimizer_history"][-1]["num_updates"],
        "valid": state["extra_state"]["val_loss"],
        "weights": {name: x.tolist() for name, x in projections(weights).items()},
    }


def trained(work, name):
    """Three updates from the same weights: ``plain``, ``isolated`` or ``whole_words``."""
    from fairseq.tasks import TASK_REGISTRY

    flags = {
        "plain": [],
        "isolated": ["--isolate-documents"],
        "whole_words": ["--mask-whole-words", "--bpe", "sentencepiece"],
    }[name]
    if name == "whole_words":
        flags += ["--sentencepiece-model", work.data() / "sentencepiece.bpe.model"]
    # the first edition has both in fairseq's own task
    has_own_task = "tupe_masked_lm" in TASK_REGISTRY and flags
    checkpoint = work.checkpoint()
    pretrain(
        work.data(),
        work.folder / name,
        *("--restore-file", checkpoint, *ANEW.split(), "--max-update", 3, *flags),
        task="tupe_masked_lm" if has_own_task else "masked_lm",
    )
    return outcome(work.folder / name / "checkpoint_last.pt")


def fine_tuned(work):
    """Three updates on CoLA, with a head, from the same weights."""
    flags = ["--task", "glue_sentence_prediction", "--criterion", "glue_sentence_prediction"]
    flags += ["--glue-task", "CoLA", "--num-classes", 2, "--init-token", 0]
    flags += ["--separator-token", 2]
    data, start, out = work.glue() / "CoLA", work.folder / "head", work.folder / "tuned"
    train(data, start, *flags, "--finetune-from-model", work.checkpoint(), "--max-update", 1)
    overwrite(start / "checkpoint_last.pt")
    restored = ["--restore-file", start / "checkpoint_last.pt", *ANEW.split()]
    train(data, out, *flags, *restored, "--max-update", 3)
    return outcome(out / "checkpoint_last.pt")


def record_trainings(work):
    found = {name: trained(work, name) for name in ("plain", "isolated", "whole_words")}
    return {**found, "fine_tuned": fine_tuned(work)}


# ---- Exported folders ---------------------------------------------------------------------------


def exported(work):
    """Logits of fixed ids, by ``from_pretrained`` and by transformers from an exported folder."""
    from transformers import AutoModelForMaskedLM

    from tupe_fairseq import TupeRobertaModel

    checkpoint = work.checkpoint()
    hub = TupeRobertaModel.from_pretrained(str(checkpoint.parent), checkpoint.name).eval()
    out = work.folder / "exported"
    call("tupe-export", checkpoint, "--output-dir", out)
    model = AutoModelForMaskedLM.from_pretrained(str(out), trust_remote_code=True).eval()
    ids = torch.tensor([[0, 7, 301, 52, 9, 120, 33, 2], [0, 399, 11, 8, 2, 1, 1, 1]])
    real = ids != 1
    with torch.no_grad():
        ours = hub.model(ids, features_only=False)[0][real]
        theirs = model(input_ids=ids, attention_mask=real.long()).logits[real]
    theirs = theirs[:, : ours.size(1)]
    return {
        "hub": {f"token {n}": x.tolist() for n, x in enumerate(projections_of_rows(ours))},
        "exported": {f"token {n}": x.tolist() for n, x in enumerate(projections_of_rows(theirs))},
    }


def projections_of_rows(logits):
    return [projections({"logits": row})["logits"] for row in logits]


# ---- tupe-compare and tupe-finetune -------------------------------------------------------------
# Initial weights, and so losses, depend on the order in which parameters are drawn. So one call
# trains, and a second one finds made-up results of more seeds and sums them up exactly.


def comparison(work):
    """What a comparison of two schemes measures, and its summary of made-up results."""
    out = work.folder / "comparison"
    words = [work.data(), "--output-dir", out, "--schemes", "learned; tupe --rel-pos"]
    words += ["--updates", 4, "--validate-every", 2, "--batch-size", 4, "--tokens-per-sample", 64]
    words += ["--lr", "1e-2", "--cpu", "--threads", 1, f"--train-flags={SIZE} {NO_DROPOUT}"]
    call("tupe-compare", *words, "--seeds", 1)
    results = json.loads((out / "results.json").read_text())
    measured = {
        run["scheme"]: {
            "updates": [point["updates"] for point in run["curve"]],
            "parameters": run["parameters"],
            "position_parameters": run["position_parameters"],
            "losses": [*(point["loss"] for point in run["curve"]), run["final_loss"]],
        }
        for run in results["runs"]
    }
    for path in sorted(out.glob("*/*-seed1/result.json")):
        run = json.loads(path.read_text())
        for seed in (1, 2, 3):
            name = f"{run['scheme']}, seed {seed}"
            losses = [
                round(8 - 0.5 * n + 0.1 * numbers(f"{name} {n}", 1).item(), 3) for n in (0, 1)
            ]
            curve = [
                {"updates": 2 * n + 2, "loss": x, "seconds": 1.5} for n, x in enumerate(losses)
            ]
            changed = {
                "seed": seed,
                "curve": curve,
                "final_loss": losses[1],
                "best_loss": min(losses),
                "words_per_second": 900.0 + 50 * seed,
                "seconds": 1.5 * seed,
                "peak_memory_mib": 512.0,
            }
            folder = path.parent.with_name(path.parent.name[:-1] + str(seed))
            folder.mkdir(exist_ok=True)
            (folder / "result.json").write_text(json.dumps({**run, **changed}))
    call("tupe-compare", *words, "--seeds", "1,2,3")
    results = json.loads((out / "results.json").read_text())
    names = ("final_loss", "best_loss", "words_per_second", "seconds", "difference")
    summary = {
        row["scheme"]: {
            "seeds": row["seeds"],
            **{name: row[name] for name in names},
            "fraction": row["to_baseline"]["fraction"],
        }
        for row in results["summary"]
    }
    return {"measured": measured, "baseline": results["baseline"], "summary": summary}


def fine_tuning(work):
    """What a fine-tuning reports: of the data, and of made-up scores of six runs."""
    out = work.folder / "runs"
    words = ["--data", work.glue() / "CoLA", "--checkpoint", work.checkpoint()]
    words += ["--output-dir", out, "--batch-size", 16, "--cpu", "--dropout", 0]
    printed = call("tupe-finetune", *words, "--epochs", 3, "--dry-run")
    schedule = re.search(r"--warmup-updates (\d+) --total-num-update (\d+)", printed).groups()
    words += ["--epochs", 1]
    call("tupe-finetune", *words, "--lrs", "1e-2", "--seeds", 1)
    real = json.loads((out / "CoLA" / "lr0.01-seed1" / "result.json").read_text())
    scores = {"0.001": (0.31, 0.12, 0.4), "0.01": (0.52, 0.11, 0.35)}
    for rate, of_seeds in scores.items():
        for seed, score in enumerate(of_seeds, 1):
            name = f"lr{rate}-seed{seed}"
            made = {"run": name, "lr": rate, "seed": seed, "metrics": {"valid": {"mcc": score}}}
            (out / "CoLA" / name).mkdir(exist_ok=True)
            (out / "CoLA" / name / "result.json").write_text(json.dumps({**real, **made}))
    call("tupe-finetune", *words, "--lrs", "1e-3,1e-2", "--seeds", "1,2,3")
    results = json.loads((out / "CoLA" / "results.json").read_text())
    names = ("task", "selection", "best_lr", "score", "best_run", "best_run_score")
    found = {name: results[name] for name in (*names, "baseline_score", "baseline")}
    found["by_lr"] = {row["lr"]: row["metrics"] for row in results["by_lr"]}
    submission = (out / "submission" / "CoLA.tsv").read_text().splitlines()
    found["submission"] = [submission[0], len(submission), submission[1].split("\t")[0]]
    found["warm-up and updates of 3 epochs"] = list(schedule)
    return {"updates": real["updates"], "epochs": real["epochs"], **found}


def record_results(work):
    return {"compare": comparison(work), "finetune": fine_tuning(work)}


SECTIONS = {
    "ids": record_ids,
    "prepare": record_prepare,
    "glue": prepared_glue,
    "trainings": record_trainings,
    "exported": exported,
    "results": record_results,
}


def main(names):
    with tempfile.TemporaryDirectory() as folder:
        work = Work(folder)
        for name in names:
            found = record_encodings() if name == "encodings" else SECTIONS[name](work)
            text = json.dumps(found, indent=1, ensure_ascii=False)
            # lists of numbers on one line
            text = re.sub(r"\[[^][{}]*\]", lambda x: " ".join(x.group().split()), text)
            (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or ["encodings", *SECTIONS])
