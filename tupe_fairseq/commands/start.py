"""Where the console scripts start: each reads its flags, and then imports what does the work.

If a package is missing, it says which extra brings it.
"""

import importlib
from collections.abc import Callable

from tupe_fairseq.cli.extras import EXTRA_OF, advice, missing
from tupe_fairseq.commands.interruption import end_at_once, ignore
from tupe_fairseq.commands.program import checked, parsed, set_up_log, stop

#: what each command needs beyond torch, whatever its flags, but for what fairseq itself requires;
#: checked first, because a comparison draws its figures after hours
NEEDS = {
    "convert": ("fairseq",),
    "extend": ("fairseq",),
}


def _command(name: str) -> Callable[[list[str] | None], None]:
    program = f"tupe-{name.replace('_', '-')}"

    def start(argv: list[str] | None = None) -> None:
        if argv is not None:
            run(argv)
            return
        end_at_once(program)  # imports take seconds, and more than one library loses a Ctrl-C
        try:
            run(None)
        finally:
            ignore()

    def run(argv: list[str] | None) -> None:
        try:
            run_with_packages(argv)
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0].replace("google", "protobuf")
            if package not in EXTRA_OF:
                raise
            stop(program, advice(package))

    def run_with_packages(argv: list[str] | None) -> None:
        # ends here with --help and what is wrong, before the imports of what does the work
        flags = importlib.import_module(f"tupe_fairseq.command_flags.{name}")
        args = parsed(flags.get_parser(), argv)
        absent = missing(*NEEDS[name])
        if absent:
            stop(program, advice(*absent))
        if hasattr(flags, "check"):  # of tupe-options the parser checks all
            checked(program, args, flags.check)
        set_up_log(program)  # some libraries have something to say while they are imported
        importlib.import_module(f"tupe_fairseq.commands.{name}").main(argv)

    return start


convert = _command("convert")
extend = _command("extend")
