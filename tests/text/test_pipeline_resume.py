"""Interrupted anywhere, with any number of workers, the same bytes come out in the end."""

import json
import os
import resource
import signal
import subprocess
import time

import pytest

from helpers import raw_text
from helpers.running import ENV
from tupe_fairseq.commands.prepare_pretrain import main
from tupe_fairseq.files.steps import Steps


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    return [
        raw_text.write(folder / name, raw_text.documents(60, seed))
        for seed, name in enumerate(("one", "two"))
    ]


def flags(raw, folder, workers=3):
    words = ["--input", *raw, "--output-dir", folder, "--vocab-size", 100, "--workers", workers]
    return [str(word) for word in words]


@pytest.fixture(scope="module")
def unbroken(raw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "data"
    main(flags(raw, folder, workers=1))
    return folder


@pytest.fixture
def expected(unbroken, monkeypatch):
    """What one worker wrote, that had the whole text in one block."""
    monkeypatch.setattr("tupe_fairseq.text.reading.BLOCK_BYTES", 1000)
    return raw_text.contents(unbroken)


def exit_code(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_interrupted_before_and_after_every_step(raw, expected, tmp_path, monkeypatch, capfd):
    finish = Steps.finish
    interrupted = []

    def interrupting(self, name, result):
        if ("before", name) not in interrupted:
            interrupted.append(("before", name))
            raise KeyboardInterrupt
        finish(self, name, result)
        interrupted.append(("after", name))
        raise KeyboardInterrupt

    monkeypatch.setattr(Steps, "finish", interrupting)
    folder = tmp_path / "data"
    codes = []
    while not codes or codes[-1]:
        try:
            main(flags(raw, folder))
            codes.append(0)
        except SystemExit as end:
            codes.append(end.code)
        assert len(codes) < 60
    assert set(codes[:-1]) == {130}
    advice = "tupe-prepare-pretrain: interrupted; run it again to go on"
    assert capfd.readouterr().err.count(advice) == len(codes) - 1
    names = [name for when, name in interrupted if when == "after"]
    assert {"clean train 1", "deduplicate", "split", "vocabulary", "encode train 0"} < set(names)
    # no finished step is done again, but for the start, which does nothing
    others = [name for name in names if name != "start"]
    assert len(others) == len(set(others))
    assert raw_text.contents(folder) == expected
    assert not (folder / "work").exists()


def test_killed(raw, expected, tmp_path, shim_folder):
    folder = tmp_path / "data"
    command = [f"{shim_folder}/tupe-prepare-pretrain", *flags(raw, folder)]
    process = subprocess.Popen(command, env=ENV, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            if "deduplicate" in (folder / "steps.json").read_text():
                break
        except FileNotFoundError:
            pass
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    time.sleep(0.5)  # its workers see that it is gone
    main(flags(raw, folder))
    assert raw_text.contents(folder) == expected


def test_no_space_left(raw, expected, tmp_path, capfd):
    """A limit of file size acts like a full disk: writes fail with an OSError."""
    folder = tmp_path / "data"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    reasons = []
    for size in (400, 3000, 9000, 12_000, 100_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            assert exit_code(flags(raw, folder)) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        reasons.append(capfd.readouterr().err.strip().splitlines()[-1])
        finished = {}
        if (folder / "steps.json").exists():
            finished = json.loads((folder / "steps.json").read_text())["finished"]
        assert "report" not in finished
        assert not (folder / "report.json").exists()
        assert not list(folder.glob("**/train.bin"))
    assert all("File too large" in reason for reason in reasons)
    assert "vocabulary" not in finished
    main(flags(raw, folder))
    assert raw_text.contents(folder) == expected


def test_a_finished_folder(raw, unbroken, capfd):
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*")}
    main(flags(raw, unbroken))
    assert f"{unbroken} is already finished" in capfd.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in unbroken.rglob("*")} == before
    assert exit_code([*flags(raw, unbroken), "--lowercase"]) == 2
    assert "made with other settings: lowercase was False and is now True" in capfd.readouterr().err
    # touched: it is still the same text
    os.utime(raw[1])
    main(flags(raw, unbroken))
    assert f"{unbroken} is already finished" in capfd.readouterr().err
    # of the same size and another text
    text = raw[1].read_bytes()
    raw[1].write_bytes(text[:-2] + b"x" + text[-1:])
    assert exit_code(flags(raw, unbroken)) == 2
    assert "made with other settings: two has changed since; give" in capfd.readouterr().err
    raw[1].write_bytes(text)
    assert exit_code(flags([raw[1], raw[0]], unbroken)) == 2
    assert "input 1 was 'one' and is now 'two'" in capfd.readouterr().err
