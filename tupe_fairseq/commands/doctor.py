"""tupe-doctor: what is wrong with an installation, or with files that are to be used together."""

import argparse
import logging
import sys
import warnings
from collections.abc import Iterator

from tupe_fairseq.command_flags.doctor import check, get_parser
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.commands.start import NEEDS
from tupe_fairseq.doctor.doctor_report import as_json, exit_code, summary
from tupe_fairseq.doctor.environment import check_environment
from tupe_fairseq.doctor.finding import ERROR, Finding, run_checks


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check)


def run(args: argparse.Namespace) -> None:
    """Check everything and end with the exit code."""
    # fairseq and torch advise and warn on import; what matters of it is checked
    warnings.simplefilter("ignore")
    logging.getLogger().setLevel(logging.ERROR)
    findings: list[Finding] = []
    for finding in _all(args):
        findings.append(finding)
        if not args.json:
            print(finding.line, flush=True)
    print(as_json(findings) if args.json else summary(findings))
    sys.exit(exit_code(findings))


def _all(args: argparse.Namespace) -> Iterator[Finding]:
    scripts = [f"tupe-{name.replace('_', '-')}" for name in NEEDS]
    broken = set()
    for finding in check_environment(scripts):
        if finding.level == ERROR:
            broken.add(finding.name)
        yield finding
    if (args.checkpoint, args.data, args.sentencepiece_model) == (None, None, None):
        return
    needed = sorted(broken & {"torch", "numpy"})
    if needed:
        wrong = f"reading them needs {' and '.join(needed)}; mend that first"
        yield Finding("files", ERROR, "not checked", wrong)
        return
    # it imports torch
    from tupe_fairseq.doctor.given_files import GivenFiles, check_files

    given = GivenFiles(args.checkpoint, args.data, args.sentencepiece_model)
    yield from run_checks({"files": lambda: check_files(given)})


if __name__ == "__main__":
    main()
