"""examples/arena: an entry from its runs, the table from the entries, and what they are of."""

import json
import math
import re
import runpy
import shutil
import sys
from collections import Counter

import pytest
from fairseq.data.data_utils import load_indexed_dataset

from helpers import own_encoding
from helpers.running import REPO, run_here, run_process, trainings_here
from tupe_fairseq.compare.schemes import schemes as parse_schemes
from tupe_fairseq.position import CATALOGUE

ARENA = REPO / "examples" / "arena"
SCHEMES = (ARENA / "schemes.txt").read_text().splitlines()


def compare(*words):
    with trainings_here():
        return run_here("tupe-compare", f"@{ARENA / 'arena.args'}", *words).stdout


@pytest.fixture
def folder(subwords, tmp_path, monkeypatch):
    """Where arena-data is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arena-data").mkdir()
    (tmp_path / "arena-data" / "bin").symlink_to(subwords)
    return tmp_path


def test_the_rows_of_this_package(folder):
    """All encodings are among them, and all can be built."""
    labels = [scheme.label for scheme in parse_schemes("; ".join(SCHEMES))]
    assert labels == SCHEMES and labels[0] == "rope"
    names = {label.split()[0] for label in labels}
    assert names == {*CATALOGUE} - {own_encoding.NAME}
    words = ["--schemes", "; ".join(SCHEMES), "--output-dir", "out", "--dry-run"]
    assert compare(*words).count("bin/fairseq-train ") == 3 * len(SCHEMES)


def test_the_rules_are_those_of_the_flags():
    plan, flags = ((ARENA / name).read_text() for name in ("PLAN.md", "arena.args"))
    updates, ratio = re.search(r"--updates (\d+).*(--muon-lr-ratio [\d.]+)", flags, re.S).groups()
    assert f"| {int(updates):,} updates (" in plan and f"`{ratio}`" in plan
    rates = re.search("for rate in (.*);", (ARENA / "run.sh").read_text())[1].split()
    *more, last = re.search("the best of (.*), each", plan)[1].split(" and ")
    assert [float(x) for x in [*", ".join(more).split(", "), last]] == [float(x) for x in rates]


@pytest.fixture
def script(monkeypatch, capsys):
    """Runs one of the scripts; returns what it printed."""
    monkeypatch.syspath_prepend(ARENA)

    def run(path, *words):
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, words)])
        capsys.readouterr()
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_an_entry_of_an_own_encoding(folder, script):
    name, runs = own_encoding.NAME, folder / "arena-data" / "runs" / own_encoding.NAME
    flags = ["--user-dir", own_encoding.OWN_DIR, "--updates", "6"]
    small = ["--train-flags=--encoder-embed-dim 32 --encoder-ffn-embed-dim 64 --dropout 0"]
    for rate, seeds in (("0.001", "1"), ("0.01", "1"), ("0.01", "1,2")):
        words = ["--schemes", name, "--lr", rate, "--seeds", seeds, "--output-dir", runs / rate]
        compare(*words, *small, *flags)
    assert script(ARENA / "entry.py", runs, "--best-rate") == "0.01\n"
    entry = json.loads(script(ARENA / "entry.py", runs, *flags))
    assert (entry["scheme"], entry["flags"], entry["rate"]) == (name, flags, 0.01)
    assert [(run["lr"], run["seed"]) for run in entry["runs"]] == [(0.001, 1), (0.01, 1), (0.01, 2)]
    assert [[*run.get("losses", ())] for run in entry["runs"]] == [[], *[["128", "256"]] * 2]
    assert entry["step_seconds"].keys() == {"own", "rope"} and entry["settings"]["updates"] == 6
    # longer.py prints the same losses
    path = f"{runs}/0.01/tupe_roberta_tiny/{name}-seed1/checkpoint_last.pt"
    *_, last = script(ARENA / "longer.py", "arena-data/bin", "128,256", path).splitlines()
    label, *losses = last.split()
    assert label == f"{name}-seed1"
    own = [*entry["runs"][1]["losses"].values()]
    assert [float(x) for x in losses] == pytest.approx(own, abs=1e-3)  # they have three digits


def test_the_baselines_are_those_of_their_formulas(folder):
    """With loops: each count + 1; Witten and Bell's bigrams, but after a masked token."""
    masked = runpy.run_path(str(ARENA / "longer.py"))["Masked"]("arena-data/bin", [64, 128])
    train = [
        x for line in load_indexed_dataset("arena-data/bin/train", None) for x in line.tolist()
    ]
    kinds = max(train) + 1
    count, pairs = Counter(train), Counter(zip(train, train[1:]))
    bits = [0.0, 0.0]
    for line, mask in zip(masked.lines, masked.masks):
        before, known = 2, True
        for token, is_masked in zip(line.tolist(), mask.tolist()):
            if is_masked:
                p = (count[token] + 1) / (len(train) + kinds)
                bits[0] -= math.log2(p)
                after = {y: n for (x, y), n in pairs.items() if x == before}
                if known and after:
                    share = len(after) / (sum(after.values()) + len(after))
                    p = (1 - share) * after.get(token, 0) / sum(after.values()) + share * p
                bits[1] -= math.log2(p)
            before, known = token, not is_masked
    found = [*masked.baselines().values()]
    assert found == pytest.approx([x / masked.number for x in bits], rel=1e-6)
    assert masked.number > 50


# ---- The table


def run_of(scheme, seed, losses, lr=1e-3, bits=6.0, diverged=None, parameters=1000):
    """A run of an entry; ``bits`` are its loss on the masked tokens of longer.py."""
    curve = [{"updates": 200 * n, "loss": loss} for n, loss in enumerate(losses, 1)]
    own = {} if diverged else {"losses": {"128": bits, "256": bits + seed / 100}}
    return {
        "arch": "tiny", "scheme": scheme, "seed": seed, "lr": lr, "curve": curve,
        "diverged": diverged,
        "final_loss": None if diverged else losses[-1], "parameters": parameters, "machine": "x",
        "versions": {"torch": "3"}, "fp16": False, "threads": 1, **own,
    }  # fmt: skip


def write_entry(folder, scheme, runs, rate=1e-3, flags=(), step=0.25, **settings):
    entry = {
        "scheme": scheme, "flags": [*flags], "date": "2026-12-01", "commit": "abcd1234",
        "rate": rate, "step_seconds": {"own": step, "rope": 0.25}, "runs": runs,
        "baselines": {"token frequencies": 9.0, "bigrams": 7.0},
        "settings": {"updates": 400, "lr": rate, **settings},
    }  # fmt: skip
    short = [run_of(scheme, 1, [9, 8.9], lr) for lr in (5e-4, 1e-3, 2e-3) if lr != rate]
    entry["runs"] = sorted([*short, *runs], key=lambda run: run["lr"])
    (folder / "entries").mkdir(exist_ok=True)
    (folder / "entries" / f"{scheme.replace(' --', '-')}.json").write_text(json.dumps(entry))


@pytest.fixture
def copy(tmp_path):
    """The page and its program, without entries."""
    for name in ("table.py", "README.md"):
        shutil.copy(ARENA / name, tmp_path)
    return tmp_path


def test_the_page_is_what_the_entries_say():
    run_process(sys.executable, ARENA / "table.py", "--check")


def test_a_table(copy, script):
    page, program = copy / "README.md", copy / "table.py"
    script(program)
    assert (
        "There are no rows yet." in page.read_text() and not (copy / "loss_by_updates.png").exists()
    )
    write_entry(copy, "rope", [run_of("rope", n, [8, 6 + n / 100]) for n in (1, 2, 3)])
    script(program)
    better = [run_of("a", n, [7, 5 + n / 50], 2e-3, parameters=1200) for n in (1, 2, 3)]
    write_entry(copy, "a", better, 2e-3, ["--user-dir", "mine"], step=0.5)
    same = [run_of("tupe --rel-pos", n, [8, 6.01 + n * n / 100]) for n in (1, 2, 3)]
    for run in same:
        del run["losses"]["256"]  # its table ends
    write_entry(copy, "tupe --rel-pos", same)
    write_entry(copy, "b", [run_of("b", n, [9, 8.5], bits=7.1) for n in (1, 2, 3)])
    lost = [run_of("c", n, [8], diverged="NaN" if n == 3 else None) for n in (1, 2, 3)]
    write_entry(copy, "c", lost)
    script(program)
    rows = [
        line.strip("| ").split(" | ") for line in page.read_text().splitlines() if "abcd" in line
    ]
    # rope's final loss, 6.01 for seed 1, is half of the way from 7 to 5.02
    assert rows[0] == [
        "`a --user-dir mine`", "5.040 (4.990 to 5.090)", "**-0.980 (-1.005 to -0.955)**", "300",
        "150", "+0.020 (-0.005 to +0.045)", "0.002 (edge)", "+200", "2.00", "2026-12-01, abcd1234",
    ]  # fmt: skip
    assert [row[:5] for row in rows[1:4]] == [
        ["`rope`", "6.020 (5.995 to 6.045)", "", "400", "100"],
        [
            "`tupe --rel-pos`",
            "6.057 (5.956 to 6.157)",
            "+0.037 (-0.039 to +0.113)",
            "not reached",
            "",
        ],
        ["`b`", "8.500", "**+2.480 (+2.455 to +2.505)**", "plateau", ""],
    ]
    assert rows[2][5] == "" and rows[4][:2] == ["`c`", "diverged (1 of 3)"]
    assert (copy / "loss_by_updates.png").stat().st_size > 10_000
    with pytest.raises(SystemExit, match="^0$"):
        script(program, "--check")
    page.write_text(page.read_text().replace("5.040 (", "5.010 ("))
    with pytest.raises(SystemExit, match="table.py: README.md is not what entries/ say"):
        script(program, "--check")


def test_an_entry_is_added_if_it_was_trained_as_the_others(copy, script):
    rope = [run_of("rope", n, [8, 6 + n / 100]) for n in (1, 2, 3)]
    write_entry(copy, "rope", rope)

    new, page = copy / "new", copy / "README.md"
    new.mkdir()

    def add(runs, **options):
        write_entry(new, "new", runs, **options)
        (new / "entries" / "new.json").rename(new / "entry.json")
        script(copy / "table.py", new / "entry.json")

    before = page.read_text()
    higher = [{**run, "lr": 4e-3} for run in rope]
    for runs, options, problem in (
        (rope, {"updates": 20}, "updates is not that of rope: 20, 400"),
        (rope[:2], {}, r"seeds is not that of rope: \[1, 2\], \[1, 2, 3\]"),
        ([{**run, "arch": "base"} for run in rope], {}, "arch is not that of rope"),
        (higher, {"rate": 4e-3}, r"lr is not that of rope: \[.*0.004\], \["),
    ):
        with pytest.raises(SystemExit, match=f"table.py: new: {problem}"):
            add(runs, **options)
    assert page.read_text() == before and not (copy / "entries" / "new.json").exists()
    add(rope)
    assert "| `new` |" in page.read_text() and (copy / "entries" / "new.json").exists()


def test_a_scheme_and_a_commit_are_asked_for():
    own = [own_encoding.NAME, "--user-dir", own_encoding.OWN_DIR]
    for words, problem in (
        ([], "run.sh: give a scheme"),
        (own[1:], "run.sh: give a scheme"),
        (own, f"run.sh: {own_encoding.OWN_DIR}: commit it first, so that the row's commit has it"),
    ):
        ended = run_process(ARENA / "run.sh", *words, check=False)
        assert problem in ended.stdout and ended.returncode == 2
