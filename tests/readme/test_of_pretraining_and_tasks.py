"""Every command of the READMEs of pre-training, GLUE and tasks of one's own runs."""

from helpers.readmes import ELSEWHERE, HYDRA_TINY, blocks, execute, link
from helpers.scoring import write_pairs
from helpers.training import free_port


def test_readmes_of_pretraining_and_tasks(folder):
    """One after the other, as a reader would: the first's checkpoint is what the others use."""
    link(folder, "examples", "tupe_fairseq")
    one_process = "NODES=1 NODE_RANK=0 MASTER_ADDR=127.0.0.1\n"
    outputs = []
    for language, code in blocks("examples/pretraining/README.md"):
        if code.startswith(ELSEWHERE):
            continue
        if code.startswith("torchrun"):  # which starts the script itself, past the shell's function
            code = one_process + code.rstrip() + " " + HYDRA_TINY
            code = code.replace("--nproc_per_node 8", "--nproc_per_node 1")
            code = code.replace("29500", str(free_port()))
        outputs.append(execute(language, code, folder))
    assert [("done training" in output) for output in outputs] == [False] + [True] * 5
    for language, code in blocks("examples/glue/README.md"):
        if code.startswith(ELSEWHERE):
            continue
        outputs.append(execute(language, code, folder))
    assert (folder / "runs" / "CoLA" / "results.md").exists()
    assert (folder / "cola" / "checkpoint_best.pt").exists()
    assert "done training" in outputs[-1]
    assert len(outputs) == 10

    pairs = [("A word is here.", "A word are here."), ("It is one.", "It are one.")]
    write_pairs(folder / "blimp" / "data" / "agreement.jsonl", pairs, UID="agreement")
    found = blocks("examples/tasks/README.md")
    outputs = [execute(*block, folder) for block in found if not block[1].startswith(ELSEWHERE)]
    predicted = (folder / "predicted.csv").read_text()
    assert predicted.startswith("review,label,probability\nA fine film.,")
    tagged = (folder / "tagged.jsonl").read_text().splitlines()
    assert len(tagged) == 20
    assert (folder / "runs" / "dropped" / "results.md").exists()
    assert (folder / "blimp-results" / "results.md").exists()
    assert len(outputs) == 6
