"""Wrong values, absent files and flags that contradict each other are refused before any import."""

import pytest

from helpers.called_bare import called_bare
from tupe_fairseq.cli.extras import missing
from tupe_fairseq.commands.start import NEEDS

#: empty files, and thus folders: what is checked is that they are there
FILES = (
    "bin/dict.txt", "bin/train.bin", "bin/train.idx", "bin/valid.bin", "bin/valid.idx", "codes",
    "dict.txt", "full/dict.txt", "full/model.pt", "glue/CoLA/dev.tsv", "glue/CoLA/train.tsv",
    "lone/there.pt", "other/task/input0/dict.txt", "other/task/report.json",
    "prepared/report.json", "pretrain/dict.txt", "pretrain/report.json",
    "pretrain/sentencepiece.bpe.model", "rows.csv", "task/input0/dict.txt", "task/report.json",
    "text.txt", "there.pt",
)  # fmt: skip
#: a call of each command that is refused for nothing, until its files are read
GOOD = {
    "compare": "bin --output-dir out --schemes learned;tupe --updates 40",
    "convert": "--checkpoint there.pt --dict dict.txt --output-dir out",
    "export": "there.pt --output-dir out",
    "extend": "there.pt --max-positions 64 --output-dir out",
}
_VOCABULARY = {
    "--bpe-codes absent": "--bpe-codes absent does not exist",
    "--gpt2-vocab-bpe codes": "--gpt2-vocab-bpe: give the files of one kind",
    "--bpe-codes codes --sentencepiece-model codes": "give the files of one kind",
}
_NO_FOLDER = {"--output-dir text.txt": "text.txt is not a folder"}
_SPLIT_PATH = {"--output-dir a:b": "a:b contains ':', at which fairseq splits lists"}
#: command -> what is given in addition to the good call, or instead of its words -> what is said
WRONG = {
    "compare": {
        **_NO_FOLDER,
        **_SPLIT_PATH,
        "--schemes nope": "--schemes 'nope': unknown position encoding",
        "--schemes tupe;tupe": "--schemes lists 'tupe' twice",
        "--baseline nope": "--baseline 'nope': unknown position encoding",
        "--seeds x": "--seeds x: 'x' is not a whole number",
        "--updates 0": "--updates (0) must be at least 1",
        "--warmup-updates 41": "--warmup-updates (41) exceeds --updates (40)",
        "--validate-every 41": "--validate-every (41) exceeds --updates (40)",
        "--tokens 9e9": "give the length of the runs by one of --updates, --tokens and --seconds",
        "--seconds 9": "give the length of the runs by one of --updates, --tokens and --seconds",
        "--tune-lrs 1": "--tune-lrs 1: give two rates or more, or one by --lr",
        "--tune-updates 4": "--tune-updates is for --tune-lrs; give both, or drop it",
        "--stop-after 0": "--stop-after (0.0) must be above 0",
        "--batch-size 0": "--batch-size (0) must be at least 1",
        "--tokens-per-sample 2": "--tokens-per-sample (2) must be at least 3",
        "--lr 0": "--lr (0.0) must be above 0",
        "--threads 0": "--threads (0) must be at least 1",
        "--parallel 0": "--parallel (0) must be at least 1",
        "--gpus x": "--gpus x: 'x' is not a GPU number",
        "--gpus 0,1 --parallel 1": "--parallel (1) uses fewer",
        "--gpus 0 --cpu": "--gpus needs a GPU; drop it, or drop --cpu",
        "--fp16 --cpu": "--fp16 needs a GPU",
        "--arch roberta": "--arch roberta is not one of tupe_roberta",
        "--train-flags '": "--train-flags ': No closing quotation",
        "--pairs absent": "--pairs absent does not exist",
        "--pairs-per-file 2": "--pairs-per-file is for --pairs, which is not given",
        "--poolings cls": "--poolings is for --tasks, which is not given",
        "--tasks absent": "absent has no report.json",
        "--tasks prepared": "prepared/input0/dict.txt",
        "--tasks task,other/task": "--tasks has two folders of the name task; rename one",
        "--tasks task --poolings x": "--poolings x: 'x' is none of mean, cls",
        "--tasks task --finetune-flags=--lrs=x": "argument --lrs: 'x' is not a number",
        "--tasks task --finetune-flags=--cpu": "unrecognized arguments: --cpu",
        "--tasks task --finetune-flags=--nope": "unrecognized arguments: --nope",
        "--claims x": "--claims 'x' is not of the form 'SCHEME over SCHEME: READOUT by AMOUNT'",
        "= absent --output-dir out --schemes tupe --updates 9": "/absent has no dict.txt; give a",
    },
    "convert": {
        **_VOCABULARY,
        **_NO_FOLDER,
        "--checkpoint absent": "--checkpoint absent does not exist",
        "--dict absent": "--dict absent does not exist",
        "--label-dict absent": "--label-dict absent does not exist",
        "--anew --untie": "--anew and --untie exclude each other",
        "--anew --checkpoint glue": "--anew is for files, and glue is a folder",
        "--output-dir full": "full already holds model.pt, dict.txt; give another --output-dir",
        "= --checkpoint there.pt --output-dir out": "there.pt is a file, which needs --dict, too",
    },
    "export": {
        **_VOCABULARY,
        "--output-dir text.txt": "text.txt is there and is not a folder",
        "--output-dir full": "full is there already; give another --output-dir, or --overwrite",
        "--data absent": "--data absent is not a folder",
        "--label-dict absent": "--label-dict absent does not exist",
        "--sample absent": "--sample absent does not exist",
        "--python absent": "--python absent cannot be started",
        "--license A": "--license 'A' is not an identifier",
        "--language English": "'English' is not a code such as en",
        "= absent --output-dir out": "absent does not exist; give a checkpoint",
    },
    "extend": {
        **_NO_FOLDER,
        "--max-positions 1": "--max-positions (1) must be at least 2",
        "--method x": "invalid choice: 'x'",
        "--data absent": "--data absent is not a folder",
        "--output-dir full": "full already holds model.pt, dict.txt",
        "= absent --max-positions 64 --output-dir out": "absent does not exist; give a checkpoint",
    },
}
CALLS = [(command, given) for command, cases in WRONG.items() for given in cases]


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    calls = []
    for command, given in CALLS:
        whole = given[2:] if given.startswith("= ") else f"{GOOD[command]} {given}"
        calls.append((command, whole.split()))
    return dict(zip(CALLS, called_bare(calls, folder)))


def test_every_command_has_cases():
    assert set(WRONG) == set(GOOD) == set(NEEDS)


@pytest.mark.parametrize("command", NEEDS)
def test_wrong_values(command, refused):
    if missing(*NEEDS[command]):
        pytest.skip(f"{' '.join(missing(*NEEDS[command]))} missing, which is said first")
    program = f"tupe-{command.replace('_', '-')}"
    for given, message in WRONG[command].items():
        code, printed, libraries = refused[command, given]
        *usage, last = printed.splitlines()
        assert code == 2 and last.startswith(f"{program}: error: ") and message in last, printed
        # argparse's own errors follow the usage
        assert bool(usage) == ("invalid choice" in message), printed
        assert libraries == [], given
