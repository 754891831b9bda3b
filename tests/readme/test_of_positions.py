"""Every command and example of the README of position encodings runs."""

import json

from helpers.readmes import blocks, execute, link
from tupe_fairseq.position import CATALOGUE

# each example in its own namespace
EXAMPLES = """
import json, sys
for code in json.load(sys.stdin):
    exec(code, {"__name__": "__main__"})
"""


def test_readme_of_positions(folder):
    link(folder, "examples", "tupe_fairseq")
    prepare = (
        "tupe-prepare-pretrain --input train.txt --valid-input valid.txt --output-dir data-bin"
    )
    execute("bash", prepare, folder)
    found = blocks("examples/positions/README.md")
    outputs = [execute(*block, folder) for block in found if block[0] == "bash"]
    assert [("done training" in output) for output in outputs[:2]] == [True] * 2
    assert (folder / "comparison" / "results.json").exists()
    assert list((folder / "figures").glob("**/*.png"))
    assert (folder / "figures-tupe-r" / "position_bias.png").exists()
    assert (folder / "by-length" / "results.json").exists()
    assert len(outputs) == 6

    examples = [code for language, code in found if language == "python"]
    output = execute("python", EXAMPLES, folder, input=json.dumps(examples))
    assert all(f"{name} torch.Size([8, 100, 128])" in output for name in CATALOGUE)
    assert len(examples) == 7
