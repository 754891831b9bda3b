"""What a command must not print: warnings and logs of other libraries, of no use to a user."""

import contextlib
import re
import warnings

# as Python shows a warning, as logging does by itself, and as fairseq sets it up
_FOREIGN = re.compile(
    r"\.py:\d+: \w*Warning: |^(DEBUG|INFO|WARNING|ERROR):\S+:|^\d{4}-\d\d-\d\d [\d:,]+ \| "
)
# what Python does not show of modules other than the program itself
_HIDDEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


def no_foreign_lines(text):
    """Fail if an output has a line that is not of the command itself."""
    lines = [line for line in text.splitlines() if _FOREIGN.search(line)]
    if lines:
        raise AssertionError(f"a user would see: {lines}")


@contextlib.contextmanager
def no_warnings():
    """Fail if a warning comes that Python would show to whoever calls the program."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        for category in _HIDDEN:
            warnings.simplefilter("ignore", category)
        yield
    if caught:
        raise AssertionError(f"a user would see: {[str(one.message) for one in caught]}")
