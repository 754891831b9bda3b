"""Reading --schemes, and what tupe-compare refuses before anything runs."""

import shlex

import pytest

from helpers.running import call_program
from tupe_fairseq.commands.compare import get_parser, main
from tupe_fairseq.compare.parse_schemes import parse_schemes


def test_schemes():
    schemes = list(parse_schemes(" learned ;tupe --max-rel-pos 064 --rel-pos; none;"))
    assert [scheme.label for scheme in schemes] == [
        "learned", "tupe --rel-pos --max-rel-pos 64", "none",
    ]  # fmt: skip
    assert schemes[1].folder == "tupe_rel-pos_max-rel-pos-64"
    assert schemes[1].words[:3] == ("--position-encoding", "tupe", "--rel-pos")


@pytest.mark.parametrize(
    "text, message",
    [
        ("lerned", "--schemes 'lerned': unknown position encoding 'lerned'; --position-encoding"),
        ("", "there is no scheme"),
        ("tupe;;none", "there is no scheme"),
        (
            "tupe --dropout 0",
            "--dropout is not a flag of a scheme; the flags are --rel-pos, --rel-pos-",
        ),
        ("tupe none", "none is not a flag of a scheme"),
        ("tupe --tie-cls --tie-cls", "--tie-cls is given twice"),
        ("tupe --rel-pos --max-rel-pos", "--max-rel-pos takes a whole number above 0, not None"),
        ("tupe --rel-pos --rel-pos-buckets --tie-cls", "above 0, not '--tie-cls'"),
        ("tupe --rel-pos --tie-cls; none; tupe --tie-cls --rel-pos", "--rel-pos --tie-cls' twice"),
        ("tupe '", "No closing quotation"),
        ("@1", "there is no scheme"),
        ("none @1; none @2", "--schemes lists 'none' twice"),
    ],
)
def test_bad_schemes(text, message):
    with pytest.raises(ValueError) as error:
        parse_schemes(text)
    assert message in str(error.value)


@pytest.fixture
def empty_data(tmp_path):
    """Enough of a data folder for all checks."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"):
        (folder / name).write_text("")
    return folder


def call(data, folder, *flags, schemes="learned; tupe", length=("--updates", 40)):
    return call_program(
        main,
        [data, "--output-dir", folder / "out", "--schemes", schemes, *length, "--cpu",
         "--threads", 1, *flags],
    )  # fmt: skip


@pytest.mark.parametrize(
    "schemes, message",
    [
        ("none --tie-cls", "--schemes 'none --tie-cls': position encoding 'none' does not take"),
        ("tupe --rel-pos-buckets 8", "--schemes 'tupe --rel-pos-buckets 8': "),
        ("tupe --position-each-layer", "adds nothing to the input"),
        ("tupe --rel-pos --rel-pos-buckets 5", "rel_pos_buckets (5) must be even"),
        (
            "tupe --rel-pos --max-rel-pos 128; tupe --rel-pos",
            "'tupe --rel-pos' is the same as 'tupe --rel-pos --max-rel-pos 128'; drop one",
        ),
    ],
)
def test_meaningless_schemes(schemes, message, empty_data, tmp_path):
    code, text = call(empty_data, tmp_path, schemes=schemes)
    assert code == 2 and message in text
    assert text.count("tupe-compare: error: ") == 1 and "Traceback" not in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--updates", 0], "--updates (0) must be at least 1"),
        (["--batch-size", 0], "--batch-size (0) must be at least 1"),
        (["--warmup-updates", 41], "--warmup-updates (41) exceeds --updates (40)"),
        (["--validate-every", 50], "--validate-every (50) exceeds --updates (40)"),
        (["--lr", "nan"], "--lr (nan) must be above 0"),
        (["--lr", "1", "--tune-lrs", "1,2"], "--lr is one rate for all, --tune-lrs finds one for"),
        (["--tune-lrs", "1"], "--tune-lrs 1: give two rates or more, or one by --lr"),
        (["--tune-lrs", "1,0"], "--tune-lrs 1,0: '0' is not a number above 0"),
        (["--tune-updates", 4], "--tune-updates is for --tune-lrs; give both, or drop it"),
        (["--tune-lrs", "1,2", "--tune-updates", 0], "--tune-updates (0) must be at least 1"),
        (["--tune-lrs", "1,2", "--tune-updates", 41], "--tune-updates (41) exceeds --updates (40)"),
        (["--seeds", "1,1"], "--seeds 1,1: 1 is listed twice"),
        (["--schemes", "none @"], "--schemes 'none' @ : '' is not a whole number from 1"),
        (["--schemes", "none @1 @2"], "--schemes 'none' @ 1 @2: '1 @2' is not a whole number"),
        (["--schemes", "none; tupe @2,2"], "--schemes 'tupe' @ 2,2: 2 is listed twice"),
        (["--fp16"], "--fp16 needs a GPU"),
        (["--gpus", "0"], "--gpus needs a GPU; drop it, or drop --cpu"),
        (["--parallel", 0], "--parallel (0) must be at least 1"),
        (["--stop-after", 0], "--stop-after (0.0) must be above 0"),
        (["--stop-after", "nan"], "--stop-after (nan) must be above 0"),
        (["--baseline", "rel"], "--baseline 'rel': unknown position encoding"),
        (["--baseline", "none"], "--baseline 'none' is neither in --schemes nor finished"),
        (["--output-dir", "a:b"], "contains ':', at which fairseq splits lists"),
        (["--arch", "tupe_roberta_tin"], "--arch tupe_roberta_tin is not one of tupe_roberta: "),
        (["--arch", "tupe_roberta_tiny,roberta"], "--arch roberta is not one of"),
        (["--arch", "tupe_roberta_tiny,"], "--arch  is not one of"),
        (["--arch", "tupe_roberta_tiny,tupe_roberta_tiny"], "--arch lists tupe_roberta_tiny twice"),
        (["--train-flags=--dropuot 0"], "--train-flags: unrecognized arguments: --dropuot 0"),
        (["--train-flags=--seed 7"], "--train-flags may not set --seed: tupe-compare sets it"),
        (["--train-flags=-s de --max-epoch 3"], "--train-flags"),
        (["--train-flags=--max-epoch 3"], "--train-flags may not set --max-epoch"),
        (["--train-flags=--max-update 40"], "--train-flags may not set --max-update"),
        (["--train-flags=--max-update 1"], "--train-flags may not set --max-update"),
        (["--train-flags=--lr 1e-3"], "--train-flags may not set --lr: tupe-compare sets it"),
        (["--train-flags=--rel-pos"], "may not set --rel-pos: it belongs to a scheme"),
        (["--train-flags=--encoder-attention-heads 3"], "embed_dim (128) is not divisible"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(map(str, value)),
)
def test_bad_flags(flags, message, empty_data, tmp_path):
    code, text = call(empty_data, tmp_path, *flags)
    assert code == 2 and message in text, text
    assert text.count("tupe-compare: error: ") == 1


def test_bad_data(empty_data, tmp_path):
    code, text = call(tmp_path, tmp_path)
    assert code == 2 and f"DATA {tmp_path} has no dict.txt; give a folder made by tupe-p" in text
    (tmp_path / "shard0").mkdir()
    _, text = call(tmp_path, tmp_path)
    assert f"it is split into shards: give {tmp_path}/shard0:{tmp_path}/shard1:..." in text
    (empty_data / "valid.idx").unlink()
    _, text = call(empty_data, tmp_path)
    assert "has no valid.idx" in text


@pytest.mark.parametrize(
    "flags, updates",
    [
        (["--tokens", "20480"], 10),
        (["--tokens", "2e4"], 9),  # nine updates of 16 x 128 tokens, and not the whole tenth
        (["--tokens", "20480", "--batch-size", 4], 40),
        (["--tokens", "20480", "--tokens-per-sample", 64], 20),
        (["--tokens", "20480", "--train-flags=--update-freq 2"], 5),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_a_budget_in_tokens(flags, updates, empty_data, tmp_path):
    code, text = call(empty_data, tmp_path, *flags, "--dry-run", length=())
    assert code == 0, text
    words = text.replace("\\\n", "").split()
    for flag in ("--max-update", "--total-num-update"):
        assert words[words.index(flag) + 1] == str(updates)


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "give the length of the runs by one of --updates, --tokens and --seconds"),
        (["--tokens", "9e9", "--updates", 3], "by one of --updates, --tokens and --seconds"),
        (["--seconds", "9", "--updates", 3], "by one of --updates, --tokens and --seconds"),
        (["--seconds", "0"], "--seconds (0.0) must be above 0"),
        (["--seconds", "inf"], "--seconds (inf) must be above 0"),
        (["--seconds", 9, "--warmup-updates", 3], "--warmup-updates counts updates, of which each"),
        (["--seconds", 9, "--validate-every", 3], "--validate-every counts updates, of which each"),
        (
            ["--seconds", 9, "--tune-lrs", "1,2", "--tune-updates", 3],
            "--tune-updates counts updates, of which each scheme has its own number with --seconds",
        ),
        (["--seconds", 9, "--parallel", 2], "and --parallel (2) puts several on one, where they"),
        (["--tokens", "1.5"], "argument --tokens: '1.5' is not a whole number such as 20000000 or"),
        (["--tokens", "nan"], "argument --tokens: 'nan' is not a whole number"),
        (["--tokens", "1e999"], "argument --tokens: '1e999' is not a whole number"),
        (["--tokens", "2047"], "--tokens (2047) must be at least 2048, the tokens of one update"),
        (["--tokens=-1e9"], "--tokens (-1000000000) must be at least 2048"),
        (["--tokens", "9e9", "--train-flags=--update-freq 2,1"], "--train-flags has --update-freq"),
        (["--tokens", "9e9", "--train-flags=--max-tokens 99"], "--train-flags has --max-tokens"),
        (["--tokens", "9e9", "--train-flags=--dropuot 0"], "--train-flags: unrecognized arguments"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(map(str, value)),
)
def test_bad_lengths(flags, message, empty_data, tmp_path):
    code, text = call(empty_data, tmp_path, *flags, length=())
    assert code == 2 and message in text, text
    assert text.count("tupe-compare: error: ") == 1


def test_seeds_of_a_scheme(empty_data, tmp_path):
    """The first seed of all schemes before the second of any."""
    code, text = call(
        empty_data, tmp_path, "--dry-run", "--seeds", "7,8", schemes="none; tupe@5,8, 4; rope @ 9;"
    )
    assert code == 0, text
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        f"# tupe_roberta_tiny, {scheme}, seed {seed}"
        for scheme, seed in (
            ("none", 7), ("tupe", 5), ("rope", 9), ("none", 8), ("tupe", 8), ("tupe", 4),
        )
    ]  # fmt: skip


def test_dry_run_shows_equal_commands(empty_data, tmp_path):
    """All but scheme, seed and folder is the same; defaults are 5% of the updates."""
    code, text = call(
        empty_data, tmp_path, "--dry-run", "--seeds", "3,4", "--train-flags=--dropout 0.25"
    )
    assert code == 0 and not (tmp_path / "out").exists()
    shown = [part for part in text.split("\n\n") if "fairseq-train" in part]
    assert [part.split("\n")[0] for part in shown] == [
        f"# tupe_roberta_tiny, {scheme}, seed {seed}"
        for seed in (3, 4)
        for scheme in ("learned", "tupe")
    ]
    words = [shlex.split(part.replace("\\\n", ""), comments=True) for part in shown]
    assert words[0][:2] == ["export", "OMP_NUM_THREADS=1"]
    common = {tuple(line[: line.index("--position-encoding")]) for line in words}
    assert len(common) == 1
    (first,) = common
    for flag, value in (
        ("--warmup-updates", "2"), ("--max-update", "40"), ("--total-num-update", "40"),
        ("--validate-interval-updates", "2"), ("--dropout", "0.25"),
    ):  # fmt: skip
        assert first[first.index(flag) + 1] == value
    assert words[1][-6:] == [
        "--position-encoding", "tupe", "--seed", "3", "--save-dir",
        str(tmp_path / "out" / "tupe_roberta_tiny" / "tupe-seed3"),
    ]  # fmt: skip


def test_help_has_an_example():
    text = " ".join(get_parser().format_help().split())
    assert 'example: tupe-compare data-bin --output-dir comparison --schemes "learned;' in text


@pytest.mark.parametrize(
    "content", ["", "null", "[]", "4", "[" * 99_999, '{"scheme": 1}', "\x00"], ids=range(7)
)
def test_a_damaged_result(content, empty_data, tmp_path):
    path = tmp_path / "out" / "tupe_roberta_tiny" / "tupe-seed1" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    code, text = call(empty_data, tmp_path)
    assert code == 2 and "Traceback" not in text
    assert text.splitlines()[-1].startswith(f"tupe-compare: error: {path} is ")
    assert text.splitlines()[-1].endswith(f"; delete {path}, and the run is made again")


@pytest.mark.parametrize(
    "content", ["null", "[3]", '{"settings": [], "finished": {}}', "[" * 99_999]
)
def test_a_damaged_record_of_settings(content, empty_data, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "steps.json").write_text(content)
    code, text = call(empty_data, tmp_path)
    assert code == 2 and "Traceback" not in text
    assert f"tupe-compare: error: {tmp_path / 'out' / 'steps.json'} " in text.splitlines()[-1]
