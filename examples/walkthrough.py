"""From text to a model that fills in masks, in cells: prepare, train, fill, plot, export.

    pip install ".[fairseq,data,plot,hf]" -c scripts/constraints.txt
    python examples/walkthrough.py [UPDATES]     # minutes on a CPU; or cell by cell in an editor

Works in walkthrough/ of the current folder, on the documentation that every Python ships.
"""

# %% The text
import os
import shlex
import subprocess
import sys
from pathlib import Path

UPDATES = int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdecimal() else 1200
CLONE = Path(__file__).resolve().parents[1]
os.makedirs("walkthrough", exist_ok=True)
os.chdir("walkthrough")
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def run(command):
    """What you would type in a shell."""
    print("\n$", command)
    subprocess.run(shlex.split(command), check=True)


if not os.path.exists("corpus"):
    run(f"{sys.executable} {CLONE}/scripts/build_corpus.py corpus")

# %% Prepare: clean text, a vocabulary, fairseq's files
run(
    "tupe-prepare-pretrain --input corpus/train.txt --valid-input corpus/valid.txt "
    "--vocab-size 2000 --tokens-per-sample 64 --output-dir data-bin"
)

# %% Train: a small TUPE-R, on the GPU if there is one
run(
    f"fairseq-train data-bin --user-dir {CLONE}/tupe_fairseq --arch tupe_roberta_tiny --rel-pos "
    "--task tupe_masked_lm --criterion masked_lm --sample-break-mode none --tokens-per-sample 64 "
    "--max-positions 64 --batch-size 32 --dropout 0 --attention-dropout 0 --optimizer adam "
    "--adam-betas (0.9,0.98) --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0 --lr 1.5e-3 "
    f"--lr-scheduler polynomial_decay --warmup-updates 50 --total-num-update {UPDATES} "
    f"--max-update {UPDATES} --required-batch-size-multiple 1 --no-epoch-checkpoints "
    "--num-workers 0 --data-buffer-size 0 --log-interval 50 --log-format simple "
    "--save-dir checkpoints"
)

# %% Fill in masks
from tupe_fairseq import TupeRobertaModel  # noqa: E402

tupe = TupeRobertaModel.from_pretrained("checkpoints", "checkpoint_last.pt").eval()
for _, probability, token in tupe.fill_mask("The file must <mask> opened in binary mode."):
    print(f"{probability:.3f} {token}")

# %% Look at the position bias: figures/position_bias.png, and the numbers behind it
run("tupe-plot checkpoints/checkpoint_last.pt --output-dir figures")
print(tupe.position_bias(8).sum.shape, "heads, query, key")

# %% Export to transformers, and use it there (--onnx writes ONNX files, too)
run("tupe-export checkpoints/checkpoint_last.pt --output-dir my-model --overwrite")
from transformers import pipeline  # noqa: E402

fill_mask = pipeline("fill-mask", "my-model", trust_remote_code=True)
print([fill["token_str"] for fill in fill_mask("The file must <mask> opened in binary mode.")])
