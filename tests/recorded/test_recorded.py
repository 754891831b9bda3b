"""The package gives what its first edition (commit 8870446) gave: the files beside this one.

They were recorded with Python 3.11, torch 2.13.0 and sentencepiece 0.2.3 on the CPU. All weights
depend on names alone, not on the order of initialisation, and there is no dropout.
"""

import hashlib
import json
import random
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import vocabularies
from helpers.running import REPO, run_here, run_process
from tupe_fairseq import TupeConfig, TupeEncoder, TupeRobertaModel

FOLDER = Path(__file__).parent
GLUE = REPO.parent / "shared" / "data" / "glue"


def recorded(name):
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def numbers(name, *shape):
    """Normal random numbers that depend on the name alone, the same with every numpy."""
    return torch.from_numpy(np.random.RandomState(zlib.crc32(name.encode())).randn(*shape))


def projections(tensors):
    """Three projections of each tensor on random vectors of length 1; 0 of one that is None."""
    found = {}
    for name, tensor in sorted(tensors.items()):
        flat = torch.zeros(1) if tensor is None else tensor.detach().flatten()
        vectors = numbers(f"projection of {name}", 3, flat.numel())
        found[name] = (vectors / vectors.norm(dim=1, keepdim=True)) @ flat.double()
    return found


# ---- Encodings: outputs, gradients and state dicts of the encoder -------------------------------

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
REAL = torch.arange(T) < torch.tensor([[T], [6]])  # of the padded layouts
STARTS = torch.zeros(B, T, dtype=torch.bool)
STARTS[0, [0, 4, 5]] = STARTS[1, [0, 2]] = True
LAYOUTS = {
    "whole": {},
    "padded": {"key_padding_mask": ~REAL},
    "documents": {"key_padding_mask": ~REAL, "document_starts": STARTS},
}


def build(case):
    name, options = CASES[case]
    config = TupeConfig(
        embed_dim=D, num_heads=H, num_layers=2, ffn_embed_dim=5, max_positions=M, dropout=0.0,
        attention_dropout=0.0, position_encoding=name, attn_impl="eager", **options,
    )  # fmt: skip
    encoder = TupeEncoder(config).double()
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            parameter.copy_(0.5 * numbers(name, *parameter.shape))
    return encoder


@pytest.mark.parametrize("case", CASES)
def test_encoding(case):
    """Outputs, hidden states and gradients of real tokens, in float64."""
    arrays = np.load(FOLDER / "encodings.npz")
    for layout, masks in LAYOUTS.items():
        encoder, x = build(case), numbers("input", B, T, D).requires_grad_()
        real = REAL if masks else torch.ones(B, T, dtype=torch.bool)
        out, hiddens = encoder(x, return_all_hiddens=True, **masks)
        (out * numbers("loss", B, T, D))[real].sum().backward()
        tensors = {f"hidden {n}": state[real] for n, state in enumerate(hiddens)}
        tensors["gradient of the input"] = x.grad[real]
        tensors.update((name, p.grad) for name, p in encoder.named_parameters())
        found = {"out": out.detach()[real].flatten(), **projections(tensors)}
        parts = torch.from_numpy(arrays[f"{case}/{layout}"]).split([*map(len, found.values())])
        for (name, ours), part in zip(found.items(), parts, strict=True):
            # the record in float32 takes 6e-8 of 1e-6; gradients that cancel have a floor
            allowed = max(1e-6 * part.abs().max().item(), 1e-9)
            assert (ours - part).abs().max() <= allowed, name


@pytest.mark.parametrize("case", CASES)
def test_state_dict(case):
    """Names, shapes and the recorded options; a name that changes would refuse checkpoints."""
    state, expected = build(case).state_dict(), recorded("encodings")
    options = json.loads(bytes(state.pop("position_version").tolist()))
    shapes = {**expected["common"], **expected["cases"][case]["shapes"]}
    if not CASES[case][1].get("normalize_before"):
        del shapes["layer_norm.weight"], shapes["layer_norm.bias"]
    assert {name: list(x.shape) for name, x in state.items()} == shapes
    assert options.items() >= expected["cases"][case]["options"].items()


# ---- Text and vocabularies ----------------------------------------------------------------------

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
MERGES = "b a,f a,Ġ ba,l o,lo r,o r,Ġ m,Ġm i,t u,Ġ d,Ġd u,1 7".split(",")


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


def prepare(folder, *flags, seed=1, characters=1_000_000):
    text = "\n\n".join("\n".join(lines) for lines in documents(seed, characters)) + "\n"
    (folder / "text.txt").write_text(text, "utf-8", newline="\n")
    run_process(  # in a process of its own: it forks workers
        "tupe-prepare-pretrain", "--input", folder / "text.txt", "--output-dir", folder / "data",
        "--valid-fraction", 0.03, "--test-fraction", 0.02, "--tokens-per-sample", 64, *flags,
    )  # fmt: skip
    return folder / "data"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def hashes(folder):
    """The hash of each file of a data folder that a training reads."""
    kinds = (".bin", ".idx", ".label", ".index", "dict.txt", ".model")
    files = sorted(x for x in folder.rglob("*") if x.name.endswith(kinds))
    return {str(x.relative_to(folder)): sha256(x) for x in files}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A data folder with a learned SentencePiece vocabulary."""
    folder = tmp_path_factory.mktemp("learned")
    return prepare(folder, "--vocab-size", 400, "--character-coverage", 0.9995, "--workers", 1)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A model with GPT-2's kind of vocabulary, converted from a stock RoBERTa."""
    folder = tmp_path_factory.mktemp("gpt2")
    flags = vocabularies.write_gpt2(folder / "theirs", MERGES)
    run_here("tupe-convert", *flags, "--output-dir", folder / "ours")
    return folder / "ours" / "model.pt"


@pytest.fixture(scope="module")
def fastbpe(tmp_path_factory):
    """A model with fastBPE's vocabulary, converted from a checkpoint of the authors."""
    folder, golden = tmp_path_factory.mktemp("fastbpe"), FOLDER.parent / "goldens" / "tupe_a"
    size = len(golden.with_suffix(".dict.txt").read_text().splitlines())
    letters = list("abcdefghijklmnopqrstuvwxyz")
    pieces = [*"ba lo@@ fa@@ du . , ! 7".split(), *letters, *(f"{x}@@" for x in letters)]
    lines = [f"{piece} {99 - number}\n" for number, piece in enumerate(pieces[:size])]
    (folder / "dict.txt").write_text("".join(lines))
    (folder / "codes").write_text("b a</w> 7\nl o 6\nf a 5\nd u</w> 4\n")
    run_here(
        "tupe-convert", "--checkpoint", golden.with_suffix(".pt"), "--dict", folder / "dict.txt",
        "--bpe-codes", folder / "codes", "--output-dir", folder / "ours",
    )  # fmt: skip
    return folder / "ours" / "model.pt"


def test_prepared_with_a_learned_vocabulary(learned):
    # if the text differs, so does all that is made of it
    assert sha256(learned.parent / "text.txt") == recorded("prepare")["text"]
    assert hashes(learned) == recorded("prepare")["learned"]


def test_prepared_with_a_given_vocabulary(gpt2, tmp_path):
    data = prepare(tmp_path, "--vocabulary", gpt2.parent, "--workers", 2)
    assert hashes(data) == recorded("prepare")["given"]


def test_prepared_with_every_option_that_changes_the_text(tmp_path):
    data = prepare(
        tmp_path, "--lowercase", "--split-sentences", "--min-chars", 20, "--max-chars", 2000,
        "--join-short", 40, "--shards", 2, "--model-type", "bpe", "--vocab-size", 300,
        "--character-coverage", 0.9995, "--workers", 2, seed=2, characters=100_000,
    )  # fmt: skip
    assert hashes(data) == recorded("prepare")["options"]


@pytest.mark.parametrize("vocabulary", ["gpt2", "fastbpe"])
def test_ids(vocabulary, request):
    """Those of 1,000 lines: a hash for each 50."""
    path = request.getfixturevalue(vocabulary)
    model = TupeRobertaModel.from_pretrained(str(path.parent), path.name)
    lines = [line for lines in documents(4, 200_000) for line in lines if len(line) < 200][:1000]
    ids = [model.encode(line).tolist() for line in lines]
    blocks = [ids[start : start + 50] for start in range(0, 1000, 50)]
    assert recorded("ids")[vocabulary] == {
        "tokens": sum(map(len, ids)),
        "unknown": sum(row.count(3) for row in ids),
        "first": ids[0],
        "hashes": [hashlib.sha256(json.dumps(x).encode()).hexdigest()[:16] for x in blocks],
    }


@pytest.mark.skipif(not GLUE.is_dir(), reason=f"{GLUE} is absent: it holds GLUE's official files")
def test_prepared_glue(learned, tmp_path):
    run_process(
        "tupe-prepare-glue", "--glue-dir", GLUE, "--tasks", "CoLA,MRPC,RTE,SST-2,STS-B",
        "--pretrain-dir", learned, "--output-dir", tmp_path, "--workers", 2,
    )  # fmt: skip
    found, expected = hashes(tmp_path), recorded("glue")
    assert {name: found[name] for name in expected} == expected
    assert all(name.endswith(".index") for name in {*found} - {*expected})
