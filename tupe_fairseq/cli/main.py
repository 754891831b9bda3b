"""Entry point of all commands: imports the command's module and prints errors as one line.

tupe-finetune, tupe finetune and python -m tupe_fairseq finetune are the same.
"""

import importlib
import logging
import os
import signal
import sys
from typing import NoReturn

from tupe_fairseq.cli.extras import explain
from tupe_fairseq.cli.parser import Parser
from tupe_fairseq.version import __version__

#: in the order of work
COMMANDS = {
    "prepare-pretrain": "turn raw text into data for pre-training",
    "prepare-glue": "turn GLUE's files into data for fine-tuning",
    "prepare-task": "turn your labelled files into data for fine-tuning",
    "options": "list the model flags of fairseq-train",
    "finetune": "fine-tune on a task: grid, best run, table, submission",
    "compare": "train several position encodings and compare them",
    "predict": "predict labels for a file of texts",
    "encode": "turn texts into vectors",
    "score": "score sentences and minimal pairs",
    "plot": "draw how a model uses positions",
    "convert": "convert a checkpoint of the TUPE authors, RoBERTa or transformers",
    "extend": "give a checkpoint more positions",
    "export": "export a model to transformers and ONNX",
    "doctor": "check this installation",
}
#: these resume if they are run again after an interruption
RESUMING = ("prepare-pretrain", "prepare-glue", "finetune", "compare")
_LONGEST_LINE = 900
TERMINATED = 143  # what a shell returns for a command that was ended by SIGTERM


def main() -> NoReturn:
    """The target of all console scripts."""
    name, argv = os.path.basename(sys.argv[0]).removeprefix("tupe-"), sys.argv[1:]
    if argv == ["--version"]:
        print(f"tupe_fairseq {__version__}")
        sys.exit()
    if name not in COMMANDS:
        if not argv or argv[0] in ("-h", "--help"):
            print("usage: tupe COMMAND ...     (or tupe-COMMAND ...; --help lists the flags)\n")
            print("\n".join(f"  {command:17} {text}" for command, text in COMMANDS.items()))
            print("\nTUPE_TRACEBACK=1 in the environment shows where an error comes from")
            sys.exit()
        name, *argv = argv
        if name not in COMMANDS:
            print(f"tupe: error: no command {name!r}; run tupe for a list", file=sys.stderr)
            sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    sys.exit(run(name, argv))


def run(name: str, argv: list[str]) -> int:
    """Run one command; returns its exit code: 2 after wrong input, 130 after Ctrl-C."""
    program = f"tupe-{name}"
    try:
        log_to_stderr(program)
        command = importlib.import_module(f"tupe_fairseq.cli.{name.replace('-', '_')}")
        command.main(Parser(command.Options, program).read(argv))
        sys.stdout.flush()
    except SystemExit as end:  # argparse has printed the reason
        if end.code == TERMINATED:
            print(f"{program}: terminated", file=sys.stderr)
        return int(end.code or 0)
    except KeyboardInterrupt:
        again = "run again to resume" if name in RESUMING else "run again"
        print(f"{program}: interrupted; {again}", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        known = explain(error)
        if known is error:
            raise
        print(f"{program}: error: {known}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # such as from `| head`; Python would flush again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError) as error:
        if os.environ.get("TUPE_TRACEBACK"):
            raise
        print(f"{program}: error: {shown(str(error))}", file=sys.stderr)
        return 2
    return 0


def shown(message: str) -> str:
    """Escape and shorten a message: text from a file must not control or flood the terminal."""
    text = message
    if len(message) > _LONGEST_LINE:  # a training's log has the reason at its end
        text = f"{message[:300]} ... {message[300 - _LONGEST_LINE :]}"
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def log_to_stderr(program: str) -> None:
    """Log under the program's name; from other libraries, show only warnings."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.levelno > logging.INFO or record.name[:4] == "tupe")
    # force: importing fairseq may have configured logging
    logging.basicConfig(
        format=f"{program}: %(message)s", level=logging.INFO, handlers=[handler], force=True
    )
