"""The code of a folder: one file, made of the wrapper and the core's definitions."""

import ast
import subprocess
import sys

import pytest
import torch

from helpers import models
from helpers.models import SIZES
from helpers.position_cases import CATALOGUE
from helpers.running import REPO
from tupe_fairseq.export import configuration_tupe
from tupe_fairseq.export.check import load_code
from tupe_fairseq.export.source import model_code
from tupe_fairseq.export.write_folder import CODE, write_code
from tupe_fairseq.options import POSITION_OPTIONS

SHIPPED = REPO / "examples" / "models" / "tupe-r-mini-10m"
#: an encoding in two files, with what its author may write besides
SLOPES = {
    "__init__": """
from fairseq import options  # also the name of a local variable in the core
from tupe_fairseq.position import PositionEncoding, register_position_encoding

from .functions import as_penalty


# this is carried, too
class Base(PositionEncoding):
    takes = {"untie_cls": False}

    def __init__(self, *sizes, causal=False, untie_cls=False):
        super().__init__(*sizes, causal=causal)


@register_position_encoding(
    "NAME",
)
class Slopes(Base):
    \"\"\"- SLOPE |p_j - p_i|\"\"\"

    def bias(self, positions_q, positions_k):
        return as_penalty(self.distances(positions_q, positions_k)).expand(self.num_heads, -1, -1)
""",
    "functions": """
import os.path
import torch as t

FIRST, SLOPE = 0, 0.25
unused = print


def as_penalty(distances: t.Tensor, number=SLOPE) -> t.Tensor:
    def inner(x):
        return -number * x * len(os.path.basename("x"))

    return inner(t.abs(distances))[None] + FIRST
""",
}


@pytest.fixture
def write_package(tmp_path, monkeypatch):
    """Write and import a package, as --user-dir does; its encodings are removed afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(CATALOGUE)

    def write(package, files):
        (tmp_path / package).mkdir()
        for name, text in files.items():
            (tmp_path / package / f"{name}.py").write_text(text.replace("NAME", package))
        __import__(package)
        return package

    yield write
    for name in {*CATALOGUE} - {*before}:
        del CATALOGUE[name]


def test_it_is_linted_and_needs_torch_and_transformers_alone(tmp_path):
    """As the package; only its imports are not in isort's order."""
    for name in CATALOGUE:
        (tmp_path / name).mkdir()
        write_code(tmp_path / name, name)
        for file in CODE:
            path = tmp_path / name / file
            nodes = [*ast.walk(ast.parse(path.read_text()))]
            modules = [x.names[0].name for x in nodes if isinstance(x, ast.Import)]
            modules += [x.module for x in nodes if isinstance(x, ast.ImportFrom) and not x.level]
            tops = {module.partition(".")[0] for module in modules}
            assert tops - {*sys.stdlib_module_names} <= {"torch", "transformers"}
    for words in (["check", "--ignore", "I001"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *words, "--config", REPO / "pyproject.toml", tmp_path]
        assert subprocess.run(ruff, capture_output=True, text=True).returncode == 0


def test_a_tupe_r_can_be_read_in_an_hour(tmp_path):
    write_code(tmp_path, "tupe")
    text = "".join((tmp_path / name).read_text() for name in CODE)
    assert len(text.splitlines()) <= 1600
    assert not any(word in text for word in ("triton", "Chunked", "Rotary", "forward_attn"))
    assert model_code("tupe") == model_code("tupe")


def test_the_options_are_those_of_the_package():
    defaults = {name: x.default for name, x in POSITION_OPTIONS.items()}
    assert configuration_tupe.POSITION_OPTIONS == defaults


def test_the_shipped_model_has_the_code_of_today(tmp_path):
    """Else: python -c "from tupe_fairseq.export.write_folder import write_code as w; w(X, 'tupe')"

    with X = "examples/models/tupe-r-mini-10m".
    """
    write_code(tmp_path, "tupe")
    for name in CODE:
        assert (SHIPPED / name).read_text() == (tmp_path / name).read_text(), name


def test_an_encoding_of_the_users(tmp_path, write_package):
    """Its class is carried, with what it uses of its own files and of ours."""
    package = write_package("my_slopes", SLOPES)
    options = {"position_encoding": package, "untie_cls": True, **SIZES}
    expected = models.write_folder(tmp_path / "out", **options)
    text = (tmp_path / "out" / "modeling_tupe.py").read_text()
    assert "= print" not in text and "from fairseq" not in text
    assert "import os.path\n" in text and "import torch as t\n" in text
    assert "# this is carried, too\nclass Base(PositionEncoding):" in text
    code = load_code(str(tmp_path / "out"))
    model = code.TupeForMaskedLM.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(4, 35, (2, 7))
    torch.testing.assert_close(model(ids).logits, expected(ids)[0], atol=1e-5, rtol=0)
    assert model.tupe.encoder.position_bias(7)[1, 2, 6].item() == -1


START = "from tupe_fairseq.position import PositionEncoding, register_position_encoding\n"
MINE = '\n\n@register_position_encoding("NAME")\nclass Mine(PositionEncoding):\n    x = FOUND\n'


@pytest.mark.parametrize(
    "code, reason",
    [
        ("from tupe_fairseq.options import NUM_BUCKETS as FOUND", "NUM_BUCKETS as FOUND' is not c"),
        ("import tupe_fairseq.options as FOUND", "'import tupe_fairseq.options as FOUND' is not c"),
        ("from tupe_fairseq.position import rope\n\nFOUND = rope", "import rope' is not carried"),
        ("class Sequences:\n    pass\n\n\nFOUND = Sequences", "Sequences is .* rename one"),
        (
            "def f():\n    from tupe_fairseq.position import rope\n\n\nFOUND = f",
            "import rope' is not carried",
        ),
    ],
)
def test_code_that_cannot_be_carried(code, reason, write_package, request):
    number = request.node.callspec.indices["code"]
    package = write_package(f"refused{number}", {"__init__": START + code + MINE})
    with pytest.raises(ValueError, match=reason):
        model_code(package)


def test_what_else_is_in_the_file_stays_there(write_package):
    code = "import os\n\nif os.sep:\n    FOUND = 1\nelse:\n    FOUND = 2\nprint(os.sep)"
    text = model_code(write_package("with_conditions", {"__init__": START + code + MINE}))
    assert "if os.sep:\n    FOUND = 1" in text and "print(" not in text
