"""A tiny chain: vocabulary, pre-trained checkpoint and GLUE tasks."""

from helpers.glue_data import write_bin, write_data
from helpers.glue_files import prepare_glue, write_glue, write_pretrain_dir
from helpers.training import UP_TO_64, pretrain

ROWS = {"train": 64, "valid": 16, "test": 6}
MAX_POSITIONS = 64


def make_chain(folder):
    """Write dir, checkpoint_last.pt and out/TASK under ``folder``.

    CoLA comes from tupe-prepare-glue; MNLI and STS-B are written as it does, to save time.
    """
    vocabulary = write_pretrain_dir(folder / "dir")
    lines = (vocabulary / "dict.txt").read_text().splitlines()
    words = [[4 + (7 * row + place) % len(lines) for place in range(9)] for row in range(40)]
    for split in ("train", "valid"):
        write_bin(vocabulary / split, [[*row, 2] for row in words])
    size = ["--encoder-embed-dim", 32, "--encoder-attention-heads", 4]  # smaller ones learn nothing
    pretrain(vocabulary, folder, "--rel-pos", "--max-update", 2, *UP_TO_64, *size)
    write_glue(folder / "glue", ["CoLA"], ROWS, odd=False)
    for name in ("train", "dev"):
        _label_by_words(folder / "glue" / "CoLA" / f"{name}.tsv")
    code, text = prepare_glue(folder / "glue", "CoLA", vocabulary, folder / "out")
    assert code == 0, text
    options = {"lines": lines, "max_positions": MAX_POSITIONS}
    write_data(folder / "out" / "MNLI", "MNLI", rows=ROWS, **options)
    scores = {split: [row % 26 / 5 for row in range(ROWS[split])] for split in ROWS}
    write_data(folder / "out" / "STS-B", "STS-B", scores, **options)
    return folder


def _label_by_words(path):
    """Something to learn, with every ninth label wrong: class 1 for birds and fish."""
    lines = []
    for number, line in enumerate(path.read_text().splitlines()):
        fields = line.split("\t")
        is_one = "bird" in fields[3] or "fish" in fields[3]
        fields[1] = str(int(is_one != (number % 9 == 8)))
        lines.append("\t".join(fields) + "\n")
    path.write_text("".join(lines))
