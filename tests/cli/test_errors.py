"""Wrong values, absent files and contradictions: exit code 2, one line, before any import."""

import pytest

from helpers.called_bare import called_bare

#: empty files: what is checked is that they are there
FILES = (
    "bin/dict.txt", "bin/train.bin", "bin/train.idx", "bin/valid.bin", "bin/valid.idx",
    "dict.txt", "glue/CoLA/dev.tsv", "glue/CoLA/train.tsv", "other/task/input0/dict.txt",
    "other/task/report.json", "pretrain/dict.txt", "pretrain/report.json",
    "pretrain/sentencepiece.bpe.model", "rows.csv", "task/input0/dict.txt", "task/report.json",
    "text.txt", "there.pt",
)  # fmt: skip
#: a call of each command in which only what follows is wrong
GOOD = {
    "compare": "bin --output-dir out --schemes learned;tupe --updates 40",
    "convert": "--checkpoint there.pt --dict dict.txt --output-dir out",
    "encode": "there.pt rows.csv --output-file out.npy",
    "export": "there.pt --output-dir out",
    "extend": "there.pt --max-positions 64 --output-dir out",
    "finetune": "--data task --checkpoint there.pt --output-dir out",
    "plot": "there.pt --output-dir out",
    "predict": "there.pt rows.csv",
    "prepare-glue": "--glue-dir glue --tasks CoLA --pretrain-dir pretrain --output-dir out",
    "prepare-pretrain": "--input text.txt --output-dir out",
    "prepare-task": "--kind multilabel --train rows.csv --pretrain-dir pretrain --output-dir out",
    "score": "there.pt",
}
#: command, what is added to the good call or (after "=") given instead, what the line has
WRONG = [
    ("compare", "--schemes nope", "nope"),
    ("compare", "--schemes tupe;tupe", "'tupe' is listed twice"),
    ("compare", "--schemes tupe\xa0--lr\xa03", "'tupe --lr 3'"),
    ("compare", "--baseline nope", "--baseline"),
    ("compare", "--seeds x", "--seeds"),
    ("compare", "--updates 0", "--updates"),
    ("compare", "--warmup-updates 41", "--warmup-updates (41) is above --updates (40)"),
    ("compare", "--tune-lrs 1", "--tune-lrs takes two rates or more"),
    ("compare", "--tune-lrs 1,2 --lr 3", "drop one"),
    ("compare", "--tune-updates 4", "--tune-updates needs --tune-lrs"),
    ("compare", "--lr 0", "--lr"),
    ("compare", "--gpus 0 --cpu", "--gpus needs a GPU; drop it, or drop --cpu"),
    ("compare", "--fp16 --cpu", "--fp16 needs a GPU"),
    ("compare", "--arch roberta", "--arch"),
    ("compare", "--train-flags '", "No closing quotation"),
    ("compare", "--pairs absent", "absent does not exist"),
    ("compare", "--pairs-per-file 2", "--pairs-per-file needs --pairs"),
    ("compare", "--tasks absent", "absent"),
    ("compare", "--tasks task,other/task", "two folders have the same name"),
    ("compare", "--tasks task --finetune-flags=--lrs=x", "--finetune-flags"),
    ("compare", "--output-dir text.txt", "text.txt"),
    ("compare", "@absent.args", "absent.args"),
    ("compare", "= absent --output-dir out --schemes tupe --updates 9", "absent"),
    ("convert", "--checkpoint absent", "absent does not exist"),
    ("convert", "--output-dir text.txt", "text.txt"),
    ("convert", "--bpe-codes text.txt --sentencepiece-model text.txt", "give the files of one"),
    ("convert", "= --checkpoint there.pt --output-dir out", "is a file, which needs --dict, too"),
    ("encode", "--pooling x", "'x'"),
    ("encode", "--output-file out.txt", "out.txt"),
    ("encode", "--layer -1", "--layer"),
    ("encode", "= absent rows.csv --output-file out.npy", "absent"),
    ("export", "--license A", "--license"),
    ("export", "--language English", "--language"),
    ("export", "= absent --output-dir out", "absent"),
    ("extend", "--method x", "--method"),
    ("extend", "--max-positions 65537", "65537 is above 65536"),
    ("extend", "= absent --max-positions 64 --output-dir out", "absent"),
    ("finetune", "--lrs 0", "--lrs"),
    ("finetune", "--metric x", "--metric"),
    ("finetune", "--cpu --fp16", "--fp16"),
    ("finetune", "--checkpoint absent", "absent"),
    ("plot", "--dpi 1", "--dpi"),
    ("plot", "= absent --output-dir out", "absent"),
    ("predict", "--output-file out.txt", "out.txt"),
    ("predict", "= there.pt absent.csv", "absent.csv"),
    ("prepare-glue", "--tasks RTE", "RTE"),
    ("prepare-glue", "--workers 0", "--workers"),
    ("prepare-pretrain", "--input absent", "absent"),
    ("prepare-pretrain", "--vocab-size 5", "--vocab-size"),
    ("prepare-pretrain", "--valid-fraction 0", "--valid-fraction"),
    ("prepare-task", "--kind x", "'x'"),
    ("prepare-task", "--train absent", "absent"),
    ("score", "--pairs-per-file 0", "--pairs-per-file"),
    ("score", "--good a", "--good"),
    ("score", "= absent", "absent"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    calls = []
    for command, flags, _ in WRONG:
        whole = flags[2:] if flags.startswith("= ") else f"{GOOD[command]} {flags}"
        calls.append((command, [word.replace("\xa0", " ") for word in whole.split(" ")]))
    said = called_bare(calls, folder)
    assert not (folder / "out").exists()
    return dict(zip(((command, flags) for command, flags, _ in WRONG), said))


@pytest.mark.parametrize("command, flags, message", WRONG)
def test_refused(command, flags, message, refused):
    code, text, libraries = refused[command, flags]
    *usage, last = text.splitlines()
    assert (code, libraries) == (2, [])
    assert last.startswith(f"tupe-{command}: error: ") and message in last
    assert not usage or usage[0].startswith("usage: ")
