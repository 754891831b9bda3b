"""Every command and example of the pages runs, one after the other, as a reader would."""

from unittest import mock

from helpers.cli import free_port
from helpers.readmes import HYDRA_TINY, blocks, execute
from tupe_fairseq.position import CATALOGUE

PREPARE = "tupe-prepare-pretrain --input train.txt --valid-input valid.txt --output-dir data-bin"


def run(page, folder, done=(), **how):
    """The output of each block that no earlier page had."""
    return [execute(*block, folder, **how) for block in blocks(page) if block not in done]


def test_readme_and_export(folder):
    outputs = run("README.md", folder, here=False)
    assert len(outputs) == 9
    assert "torch.Size([8, 100, 128])\ntorch.Size([4, 100, 100])" in outputs[0]
    assert "done training" in outputs[1]
    for name in ("submission/CoLA.tsv", "reviews/results.md", "reviews/best/checkpoint_best.pt"):
        assert (folder / "runs" / name).exists()
    predicted = (folder / "predicted.csv").read_text()
    assert predicted.startswith("review,label,probability\nA fine film.,")
    assert (folder / "scores.tsv").exists() and (folder / "figures" / "position_bias.png").exists()
    assert (folder / "roberta-runs" / "CoLA" / "best" / "checkpoint_best.pt").exists()
    outputs = run("examples/export/README.md", folder, blocks("README.md"))
    assert len(outputs) == 3
    assert (folder / "back" / "model.pt").exists()


def test_pretraining_glue_and_tasks(folder):
    outputs = []
    for language, code in blocks("examples/pretraining/README.md"):
        if code.startswith("torchrun"):  # which starts the script itself, past the function
            code = f"NODES=1 NODE_RANK=0 MASTER_ADDR=127.0.0.1\n{code.rstrip()} {HYDRA_TINY}"
            code = code.replace("--nproc_per_node 8", "--nproc_per_node 1")
            code = code.replace("29500", str(free_port()))
        outputs.append(execute(language, code, folder))
    assert [("done training" in output) for output in outputs] == [False] + [True] * 5
    assert len(run("examples/glue/README.md", folder)) == 4
    assert (folder / "cola-hydra" / "checkpoint_best.pt").exists()
    pair = '{"sentence_good": "A word is here.", "sentence_bad": "A word are here."}\n'
    (folder / "blimp" / "data").mkdir(parents=True)
    (folder / "blimp" / "data" / "agreement.jsonl").write_text(pair * 2)
    assert len(run("examples/tasks/README.md", folder)) == 5
    assert len((folder / "tagged.jsonl").read_text().splitlines()) == 20
    assert (folder / "blimp-results" / "results.md").exists()


def test_positions_and_convert(folder):
    execute("bash", PREPARE, folder)
    names = list(CATALOGUE)
    with mock.patch.dict(CATALOGUE):  # the last example adds one
        outputs = run("examples/positions/README.md", folder)
    assert len(outputs) == 11
    assert "done training" in outputs[0]
    assert (folder / "comparison" / "results.json").exists()
    assert (folder / "figures-tupe-r" / "position_bias.png").exists()
    assert (folder / "by-length" / "results.json").exists()
    assert any(
        all(f"{name} torch.Size([8, 100, 128])" in output for name in names) for output in outputs
    )
    outputs = run("examples/convert/README.md", folder, DRY_RUN="--dry-run")
    assert len(outputs) == 6
    for name in ("roberta-fairseq", "tupe-from-roberta", "tupe", "roberta-1024"):
        assert (folder / name / "model.pt").exists()


def test_decoders(folder):
    execute("bash", PREPARE, folder)
    for split in ("train", "valid"):
        rows = [f"w{n} w{n + 1} w{n + 2}" for n in range(20)]
        for language in ("en", "de"):
            (folder / f"pairs-{split}.{language}").write_text("\n".join(rows) + "\n")
    words = "--source-lang en --target-lang de --joined-dictionary --destdir pairs-bin"
    words += " --trainpref pairs-train --validpref pairs-valid"
    execute("bash", f"fairseq-preprocess {words}", folder)
    outputs = run("examples/decoders/README.md", folder)
    assert len(outputs) == 3
    assert "Perplexity" in outputs[0] and outputs[1].startswith("The value of")
    assert "Generate valid with beam=5" in outputs[2]
