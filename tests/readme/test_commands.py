"""Every command and example of the pages runs on tiny models; their links and tables are right."""

import contextlib
import glob
import importlib.util
import io
import re
import shlex
import shutil
import sys
from unittest import mock

import numpy as np
import pytest
import sentencepiece
import torch

from helpers import authors, own_encoding
from helpers.glue_files import write_glue
from helpers.rows import write_json_lines
from helpers.running import (
    BIN,
    ENV,
    REPO,
    USER_DIR,
    free_port,
    run_here,
    run_process,
    trainings_here,
)
from helpers.vocabularies import write_gpt2, write_roberta
from tupe_fairseq.position import CATALOGUE
from tupe_fairseq.recipe import FINE_TUNING, PRE_TRAINING

PREPARE = "tupe-prepare-pretrain --input train.txt --valid-input valid.txt --output-dir data-bin"
#: not run here: downloads, hours of work, what other tests run, and what needs another package
ELSEWHERE = ("srun ", "python3 -m venv ", "hf download ", "pip install ", "scripts/", "from peft ")
HAS_TRAINER = importlib.util.find_spec("accelerate") is not None
ELSEWHERE += () if HAS_TRAINER else ("from torch.optim ", "import json")
SIZE = {"encoder-layers": 1, "encoder-embed-dim": 32, "encoder-ffn-embed-dim": 64,
        "encoder-attention-heads": 4}  # fmt: skip
HYDRA = " ".join(
    [
        "common.cpu=true", "common.fp16=false", "common.bf16=false", "dataset.num_workers=0",
        "dataset.data_buffer_size=0", "dataset.batch_size=2", "optimization.max_update=2",
        "optimization.update_freq=[1]", "distributed_training.distributed_world_size=1",
        "distributed_training.distributed_backend=gloo",
        "distributed_training.ddp_backend=legacy_ddp",
        *(f"+model.{flag.replace('-', '_')}={value}" for flag, value in SIZE.items()),
    ]
)  # fmt: skip
#: flags at the end of a command, which make it small: later flags win
SMALLER = {
    "fairseq-train": "--cpu --num-workers 0 --data-buffer-size 0 --max-update 2 --max-epoch 1",
    "fairseq-hydra-train": HYDRA,
    "fairseq-eval-lm": "--cpu --num-workers 0",
    "fairseq-generate": "--cpu --num-workers 0 --max-len-b 9",
    "tupe-compare": "--updates 2 --validate-every 2 --seeds 1 --batch-size 2 --parallel 1 "
    "--tokens-per-sample 64",
    "tupe-finetune": "--cpu --epochs 1 --lrs 2e-5",
    "tupe-prepare-glue": "--workers 1",
    "tupe-prepare-pretrain": "--workers 1",
    "tupe-prepare-task": "--workers 1",
    "train.conll": "--sentences 400",
    "valid.conll": "--sentences 20",
}


def smaller(words):
    flags = SMALLER.get(words[3] if words[0] == "python" else words[0], "").split()
    if words[0] == "tupe-finetune" and "--keep-checkpoints" not in words:
        flags += ["--seeds", "1"]
    if words[0] == "fairseq-train" and not any("tupe_transformer" in word for word in words):
        flags += [part for flag, value in SIZE.items() for part in (f"--{flag}", str(value))]
    if words[0] == "tupe-prepare-pretrain" and "--vocabulary" not in words:
        flags += ["--vocab-size", "300"]
    return words + flags


def blocks(page):
    text = (REPO / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(bash|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(language, code) for language, code in found if not code.startswith(ELSEWHERE)]


LOOP = r"^for (\w+) in ([^;]*); do\n(.*?)^done\n"


def unrolled(name, words, body, folder):
    """The lines of a shell's loop over words or files."""
    lists = (glob.glob(word, root_dir=folder) or [word] for word in words.split())
    lines = [line.strip() for line in body.splitlines()]
    values = [value for found in lists for value in found]
    return "\n".join(line.replace(f"${name}", value) for value in values for line in lines) + "\n"


def typed_in(text):
    """Standard input with a line of text."""
    return io.TextIOWrapper(io.BytesIO(f"{text}\n".encode()))


def execute(language, code, folder):
    """Run a block; what it printed. Our programs and fairseq's run in this process."""
    output = io.StringIO()
    if package := own_encoding.CODE.match(f"```{language}\n{code}```"):
        (folder / package[1]).mkdir()
        (folder / package[1] / "__init__.py").write_text(code)
        return ""
    if language == "python":
        with contextlib.chdir(folder), contextlib.redirect_stdout(output):
            exec(code.replace("max_steps=600", "max_steps=2"), {"__name__": "__main__"})
        return output.getvalue()
    code = code.replace("\\\n", " ").replace("$PWD", str(folder))
    code = re.sub(LOOP, lambda loop: unrolled(*loop.groups(), folder), code, flags=re.M | re.S)
    with trainings_here():
        for line in re.findall(r"^cat .*?^END$|^[^\n]+$", code, re.MULTILINE | re.DOTALL):
            typed, pipe, program = line.partition(" | ")
            if line.startswith(("fairseq-", "tupe-")):
                done = run_here(*smaller(shlex.split(line)), cwd=folder)
            elif pipe and typed.startswith("echo "):
                with mock.patch.object(sys, "stdin", typed_in(shlex.split(typed)[1])):
                    done = run_here(*shlex.split(program), "--cpu", cwd=folder)
            elif line.startswith("python ") and " > " not in line:
                words = smaller(shlex.split(line))
                done = run_process(sys.executable, *words[1:], cwd=folder)
            else:
                env = {"PATH": f"{BIN}:{ENV['PATH']}"}
                done = run_process("bash", "-ec", line, cwd=folder, env=env)
            output.write(done.stdout)
    return output.getvalue()


def run_page(page, folder, done=()):
    """The output of each block that no earlier page had."""
    return [execute(*block, folder) for block in blocks(page) if block not in done]


@pytest.fixture
def folder(text, tmp_path):
    """A clone with what the pages expect: text, GLUE, checkpoints of others."""
    (tmp_path / "examples").symlink_to(REPO / "examples")
    (tmp_path / "tupe_fairseq").symlink_to(USER_DIR)  # not a second copy of the package
    for split in ("train", "valid"):
        lines = (text / f"{split}.txt").read_text().splitlines()
        documents = ("\n".join(lines[n : n + 5]) for n in range(0, len(lines), 5))
        (tmp_path / f"{split}.txt").write_text("\n\n".join(documents) + "\n")
    write_glue(tmp_path / "glue_data", ["CoLA", "SST-2", "STS-B"])
    pair = '{"sentence_good": "A word is here.", "sentence_bad": "A word are here."}\n'
    (tmp_path / "blimp" / "data").mkdir(parents=True)
    (tmp_path / "blimp" / "data" / "agreement.jsonl").write_text(pair * 2)
    write_roberta(tmp_path / "roberta-base")
    write_gpt2(tmp_path / "roberta.base")
    for name, place in {
        "theirs.pt": "roberta.base/model.pt", "theirs.txt": "roberta.base/dict.txt",
        "encoder.json": "encoder.json", "vocab.bpe": "vocab.bpe",
    }.items():  # fmt: skip
        (tmp_path / "roberta.base" / name).rename(tmp_path / place)
    state, _ = authors.their_checkpoint(max_positions=64)
    torch.save(state, tmp_path / "checkpoint_best.pt")
    (tmp_path / "dict.txt").write_text("\n".join(authors.WORDS) + "\n")
    (tmp_path / "bpe-code").write_text(authors.CODES)
    return tmp_path


def test_readme_and_export(folder):
    taken_for_given = [path.name for path in folder.iterdir()]
    outputs = run_page("README.md", folder)
    assert len(outputs) == 8
    assert "door" in outputs[0] and "done training" in outputs[2]
    for name in ("submission/CoLA.tsv", "films/results.md", "films/best/checkpoint_best.pt"):
        assert (folder / "runs" / name).exists()
    assert "text\tlabel\tprobability\nA fine film.\t" in outputs[1]
    assert (folder / "scores.tsv").exists() and (folder / "figures" / "position_bias.png").exists()
    assert (folder / "roberta" / "model.pt").exists()
    shutil.copy(REPO / ".gitignore", folder)
    run_process("git", "init", "-q", cwd=folder)
    files = run_process("git", "status", "--porcelain", cwd=folder).stdout
    written = {line[3:].strip("/") for line in files.splitlines()} - {
        *taken_for_given,
        ".gitignore",
    }
    assert not written, "not in .gitignore"
    outputs = run_page("examples/export/README.md", folder, blocks("README.md"))
    assert len(outputs) == 4 + 2 * HAS_TRAINER
    for name in ("question-model", "choice-model", "new-model"):
        assert (folder / name / "model.safetensors").exists() == HAS_TRAINER
    assert (folder / "back" / "model.pt").exists()


def test_pretraining_glue_and_tasks(folder):
    outputs = []
    for language, code in blocks("examples/pretraining/README.md"):
        if code.startswith("torchrun"):
            code = code.replace("$NODES", "1").replace("NODES", "1").replace("$NODE_RANK", "0")
            code = code.replace("$MASTER_ADDR", "127.0.0.1").replace("29500", str(free_port()))
            code = code.replace("--nproc_per_node 8", "--nproc_per_node 1").rstrip() + f" {HYDRA}\n"
        for part in "12" if "$PART" in code else [""]:
            if part:
                shutil.copy(folder / "train.txt", folder / f"text{part}.txt")
            for name in ("own", "gpt2") if "$NAME" in code else [""]:
                words = code.replace("$PART", part).replace("$NAME", name)
                outputs.append(execute(language, words, folder))
    trained = ["done training" in output for output in outputs]
    assert trained == [False] * 4 + [True] * 5 + [False] * 2 + [True] * 2 + [False] * 3
    for name in ("own", "gpt2"):
        assert (folder / f"{name}-folder" / "model.safetensors").exists()
        assert len((folder / f"{name}.csv").read_text().splitlines()) == 11
    assert outputs[-3].count(" is an object.") == 10
    assert len(run_page("examples/glue/README.md", folder)) == 4
    assert (folder / "cola-hydra" / "checkpoint_best.pt").exists()
    outputs = run_page("examples/tasks/README.md", folder)
    assert len(outputs) == 10 and any("vote: " in output for output in outputs)
    assert len((folder / "tagged.jsonl").read_text().splitlines()) == 20
    assert (folder / "blimp-results" / "results.md").exists()


def test_the_temperature_on_the_page_is_that_of_the_data(tmp_path):
    """Labels are drawn with the probabilities of logits divided by 2.5; the vote is right."""
    draw, labels = np.random.default_rng(5), ["good", "bad", "fair"]
    logits = 4 * draw.normal(size=(2000, 3))
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    verdicts = (logits / 2.5 + draw.gumbel(size=logits.shape)).argmax(axis=1)
    rows = [
        {"verdict": labels[n], "all_probabilities": dict(zip(labels, row))}
        for n, row in zip(verdicts, shares.tolist())
    ]
    for seed in (1, 2, 3):
        write_json_lines(tmp_path / f"seed{seed}.jsonl", rows)
    (block,) = (x for x in blocks("examples/tasks/README.md") if "log_loss" in x[1])
    vote, temperature = execute(*block, tmp_path).splitlines()
    assert float(vote.split()[1]) == np.mean(logits.argmax(axis=1) == verdicts)
    found = re.fullmatch(r"temperature (\S+): mean confidence (\S+)", temperature)
    assert float(found[1]) == pytest.approx(2.5, rel=0.1)
    assert float(found[2]) == pytest.approx(float(vote.split()[1]), abs=0.03)


def test_positions_and_convert(folder, monkeypatch):
    execute("bash", PREPARE, folder)
    glue = "tupe-prepare-glue --glue-dir glue_data --tasks CoLA --output-dir glue-bin"
    execute("bash", f"{glue} --vocabulary data-bin", folder)
    # the page's own encoding is registered again
    monkeypatch.delitem(CATALOGUE, own_encoding.NAME)
    monkeypatch.delitem(sys.modules, "my_encodings")
    names = list(CATALOGUE)
    (folder / "checkpoints").symlink_to("rope")  # in place of the README's training
    outputs = run_page("examples/positions/README.md", folder)
    assert len(outputs) == 17
    assert outputs[-1].startswith("tensor([[")
    assert "done training" in outputs[0]
    comparison = next(x for x in blocks("examples/positions/README.md") if "tupe-compare" in x[1])
    assert "| fraction of updates | CoLA | pairs |" in execute(*comparison, folder)
    assert (folder / "figures-tupe-r" / "position_bias.png").exists()
    assert (folder / "longer" / "model.pt").exists()
    assert any(
        all(f"{name} torch.Size([8, 100, 128])" in output for name in names) for output in outputs
    )
    assert len(run_page("examples/convert/README.md", folder)) == 7
    assert (folder / "tupe-bin" / "train.bin").exists()
    for name in ("roberta-fairseq", "tupe-from-roberta", "tupe", "roberta-1024"):
        assert (folder / name / "model.pt").exists()


def test_decoders(folder):
    execute("bash", PREPARE, folder)
    vocabulary = folder / "data-bin" / "sentencepiece.bpe.model"
    pieces = sentencepiece.SentencePieceProcessor(str(vocabulary))
    for split in ("train", "valid"):
        rows = [" ".join(pieces.encode(f"the value of {n}", out_type=str)) for n in range(20)]
        for language in ("en", "de"):
            (folder / f"pairs-{split}.{language}").write_text("\n".join(rows) + "\n")
    (folder / "pairs-bin").mkdir()
    shutil.copy(vocabulary, folder / "pairs-bin")
    words = "--source-lang en --target-lang de --joined-dictionary --destdir pairs-bin"
    words += " --trainpref pairs-train --validpref pairs-valid"
    execute("bash", f"fairseq-preprocess {words}", folder)
    outputs = run_page("examples/decoders/README.md", folder)
    assert len(outputs) == 5
    assert re.search("Evaluated [1-9]", outputs[0]) and outputs[1].startswith("The value of")
    assert re.search(r"^D-0\t\S+\tThe value of", outputs[2], re.MULTILINE)
    assert "Generate valid with beam=5" in outputs[3]
    assert re.fullmatch("[^\u2581]+\n", outputs[4])  # text, not tokens


@pytest.mark.parametrize("page, config", [("pretraining", "tupe_r_base"), ("glue", "cola")])
def test_overrides_in_the_text(page, config):
    text = (REPO / "examples" / page / "README.md").read_text(encoding="utf-8")
    spans = re.findall("`([^`\n]+)`", re.sub("^```.*?^```$", "", text, flags=re.M | re.S))
    lists = [x.replace("$PWD", "/data") for x in spans if re.match(r"\+?[a-z]+\.\w+=", x)]
    assert len(lists) >= 8
    words = ["--config-dir", REPO / "examples" / page / "config", "--config-name", config]
    words += [f"common.user_dir={USER_DIR}", *shlex.split(" ".join(lists))]
    assert "\ntask:\n" in run_here("fairseq-hydra-train", "--cfg", "job", *words).stdout


PRINTED = ["README.md", "examples/glue/README.md", "examples/positions/README.md"]


@pytest.mark.parametrize("page", PRINTED)
def test_the_recipe_of_a_page_is_that_of_the_commands(page):
    recipe = FINE_TUNING if "glue" in page else PRE_TRAINING
    lines = (REPO / page).read_text().replace("\\\n", " ").splitlines()
    commands = [line for line in lines if line.startswith("fairseq-train ") and "adam-eps" in line]
    for words in map(shlex.split, commands):
        place = words.index("--optimizer")
        assert words[place : place + len(recipe)] == [*recipe]
    assert commands


# ---- Names, links and places


def test_every_position_encoding_is_named():
    page = (REPO / "examples" / "positions" / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `([a-z-]+)`", page, re.MULTILINE)
    # names may occur again in tables of results
    names = [name for name in CATALOGUE if name != own_encoding.NAME]
    assert [name for name in dict.fromkeys(lines) if name in names] == names
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in readme for name in names) and len(readme.encode()) < 12_000


PAGES = [*REPO.glob("*.md"), *REPO.glob("examples/*/README.md"), *REPO.glob("scripts/*/*.md")]


def anchors(page):
    """The names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_and_scripts_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    for place, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
        target = page.parent / place if place else page
        assert target.exists(), place
        assert not anchor or anchor in anchors(target), f"{place}#{anchor}"
    for script in re.findall(r"^(?:python )?(scripts/\S+)", text, re.MULTILINE):
        assert (REPO / script).exists(), script
