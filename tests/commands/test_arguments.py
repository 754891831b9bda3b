"""Lists of numbers, ranges and paths from the command line."""

import os

import pytest

from tupe_fairseq.command_flags.arguments import in_range, learning_rates, seeds
from tupe_fairseq.command_flags.given_paths import can_be_written, no_separators


def test_lists():
    assert learning_rates("2e-5,0.00003,1e-3") == (2e-5, 3e-5, 1e-3)
    assert seeds("1,20") == (1, 20)


@pytest.mark.parametrize(
    "parse, text, message",
    [
        (learning_rates, "2e-5,x", "--lrs 2e-5,x: 'x' is not a number above 0"),
        (learning_rates, "", "'' is not a number above 0"),
        (learning_rates, "2e-5,", "'' is not a number above 0"),
        (learning_rates, "0", "'0' is not"),
        (learning_rates, "-1e-5", "'-1e-5' is not"),
        (learning_rates, "nan", "'nan' is not"),
        (learning_rates, "inf", "'inf' is not"),
        (learning_rates, "2e-5,0.00002", "--lrs 2e-5,0.00002: 0.00002 is listed twice"),
        (seeds, "1,1", "--seeds 1,1: 1 is listed twice"),
        (seeds, "1,2.5", "'2.5' is not a whole number from 1 to 4294967295"),
        (seeds, "0", "'0' is not"),
        (seeds, "4294967296", "is not a whole number"),
    ],
)
def test_bad_lists(parse, text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        parse(text)


@pytest.mark.parametrize(
    "value, limits, message",
    [
        (0, {"at_least": 1}, "--n (0) must be at least 1"),
        (1.0, {"at_least": 0, "below": 1}, "--n (1.0) must be at least 0 and below 1"),
        (0, {"above": 0}, "--n (0) must be above 0"),
        (9, {"at_most": 8}, "--n (9) must be at most 8"),
        (float("nan"), {"at_least": 0}, "--n (nan) must be at least 0"),
        (float("inf"), {"above": 0}, "--n (inf) must be above 0"),
    ],
)
def test_out_of_range(value, limits, message):
    with pytest.raises(ValueError) as error:
        in_range("--n", value, **limits)
    assert str(error.value) == message


def test_in_range_up_to_the_limits():
    in_range("--n", 0, at_least=0, below=1)
    in_range("--n", 1, above=0, at_most=1)


def test_paths_that_fairseq_would_split():
    no_separators("--data", "a folder, another")
    with pytest.raises(ValueError, match="--data a:b contains ':', at which fairseq splits lists"):
        no_separators("--data", "a:b")
    with pytest.raises(ValueError, match="--data a,b contains ','"):
        no_separators("--data", "a,b", ":,")


@pytest.mark.parametrize("name", ["file", "file/out", "file/out/deep", "nowhere/out"])
def test_a_folder_that_cannot_be_written(name, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    first = tmp_path / name.split("/")[0]
    with pytest.raises(ValueError, match=f"--output-dir .*: {first} is not a folder"):
        can_be_written("--output-dir", str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match=f"{tmp_path} may not be written to; give another folder"):
        can_be_written("--output-dir", str(tmp_path / "out"))


def test_a_folder_that_can_be_written_is_not_made(tmp_path):
    can_be_written("--output-dir", str(tmp_path))
    can_be_written("--output-dir", str(tmp_path / "out" / "deep"))
    assert list(tmp_path.iterdir()) == []
