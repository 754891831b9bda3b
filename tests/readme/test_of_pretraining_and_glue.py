"""Every command of the READMEs of pre-training and GLUE runs."""

from helpers.readmes import ELSEWHERE, HYDRA_TINY, blocks, execute, link
from helpers.training import free_port


def test_readmes_of_pretraining_and_glue(folder):
    """One after the other, as a reader would: the one's checkpoint is what the other fine-tunes."""
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
    assert [("done training" in output) for output in outputs] == [False] + [True] * 4
    for language, code in blocks("examples/glue/README.md"):
        if code.startswith(ELSEWHERE):
            continue
        outputs.append(execute(language, code, folder))
    assert (folder / "runs" / "CoLA" / "results.md").exists()
    assert (folder / "cola" / "checkpoint_best.pt").exists()
    assert "done training" in outputs[-1]
    assert len(outputs) == 9
