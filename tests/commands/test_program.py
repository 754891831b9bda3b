"""What all console scripts share."""

import argparse
import logging

import pytest

from helpers.running import call_program
from tupe_fairseq.commands.program import run_program


def parser():
    made = argparse.ArgumentParser(prog="tupe-x")
    made.add_argument("--input", nargs="+", required=True)
    made.add_argument("--output-dir")
    return made


def program(run, **options):
    return lambda words: run_program(parser(), run, words, **options)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--imput", "x"], "there is no flag --imput; did you mean --input?"),
        (["--input", "x", "--outputdir=y"], "there is no flag --outputdir; did you mean --output-"),
        (["--input", "x", "--zzz"], "there is no flag --zzz\n"),
    ],
)
def test_a_misspelt_flag(words, message):
    code, printed = call_program(program(print), words)
    assert code == 2 and message in printed


@pytest.mark.parametrize(
    "words",
    [["--input", "x"], ["--inp", "x", "--output=y"], ["--input=--x y"], ["--input", "-1", "--a b"]],
    ids=" ".join,
)
def test_what_argparse_takes(words):
    assert call_program(program(lambda args: None), words) == (0, "")


@pytest.mark.parametrize("resumes", [False, True])
def test_interrupted(resumes):
    def interrupt(args):
        raise KeyboardInterrupt

    code, printed = call_program(program(interrupt, resumes=resumes), ["--input", "x"])
    advice = "; run it again to go on" if resumes else ""
    assert (code, printed) == (130, f"tupe-x: interrupted{advice}\n")


def test_of_other_libraries_warnings_alone_are_shown():
    """What one says on import, and matplotlib of its fonts, is nothing that was asked for."""

    def run(args):
        for name in ("tupe-x", "tupe_fairseq.encoder", "fairseq.tasks", "matplotlib.font_manager"):
            logging.getLogger(name).info("information of %s", name)
            logging.getLogger(name).debug("more of %s", name)
        logging.getLogger("fairseq.tasks").warning("a warning")

    shown = ["information of tupe-x", "information of tupe_fairseq.encoder", "a warning"]
    printed = "".join(f"tupe-x: {line}\n" for line in shown)
    assert call_program(program(run), ["--input", "x"]) == (0, printed)


@pytest.mark.parametrize(
    "message, printed",
    [
        ("a.txt: 'x' is no number", "a.txt: 'x' is no number"),
        ("it ended; the end of its log:\n| a\n| b", "it ended; the end of its log:\n| a\n| b"),
        ("a tensor \x1b[2J\x1b]0;x\x07 of the file", "a tensor \\x1b[2J\\x1b]0;x\\x07 of the file"),
        ("a label \u202ecba and \u2028 more", "a label \\u202ecba and \\u2028 more"),
        ("line 3: '" + "x" * 10**6 + "' is long", "line 3: '" + "x" * 891 + "..."),
    ],
    ids=["plain", "lines", "escapes", "directions", "long"],
)
def test_what_a_message_has_of_a_file(message, printed):
    """It neither acts on the terminal nor fills it."""

    def refuse(args):
        raise ValueError(message)

    assert call_program(program(refuse), ["--input", "x"]) == (2, f"tupe-x: error: {printed}\n")
