"""The position encoding that examples/positions teaches, in a folder as a user's --user-dir."""

import atexit
import re
import shutil
import tempfile
from pathlib import Path

from tupe_fairseq.flags import user_dir

PAGE = Path(__file__).resolve().parents[2] / "examples" / "positions" / "README.md"
CODE = re.compile(r"^```python\n# (\w+)/__init__.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = "learned-slopes"


def write(parent):
    """Write the page's file below a folder; the package."""
    package, code = CODE.search(PAGE.read_text("utf-8")).groups()
    folder = Path(parent) / package
    folder.mkdir()
    (folder / "__init__.py").write_text(code)
    return folder


# one folder for the whole process: Python imports a name once
_parent = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _parent, ignore_errors=True)
OWN_DIR = str(write(_parent))
user_dir(OWN_DIR)
