"""The Python files of a model folder: the same code as the package's, and nothing else."""

import ast
import shutil
import subprocess

import pytest

from helpers.running import BIN, REPO
from tupe_fairseq.export import source_file
from tupe_fairseq.export.bundle import CONFIGURATION, PACKAGE, SOURCES, bundle, check_names
from tupe_fairseq.export.source_file import BundleError, Import, SourceFile, read_source
from tupe_fairseq.position import POSITION_OPTIONS

IMPORTS = (ast.Import, ast.ImportFrom)
MODELING = bundle()["modeling_tupe.py"]


def code_of(text):
    """What stands on the top level of a file below its docstring and imports, as trees."""
    nodes = ast.parse(text).body
    return [ast.dump(node) for node in nodes if not isinstance(node, (*IMPORTS, ast.Expr))]


def source(path, imports=(), defines=()):
    return SourceFile(path, "", "", list(imports), list(defines))


def test_all_code_is_that_of_the_sources():
    texts = [(PACKAGE / path).read_text(encoding="utf-8") for path in SOURCES]
    assert code_of(MODELING) == [tree for text in texts for tree in code_of(text)]


def test_the_configuration_is_its_source():
    assert bundle()["configuration_tupe.py"] == (PACKAGE / CONFIGURATION).read_text()


@pytest.mark.parametrize("name", ["configuration_tupe.py", "modeling_tupe.py"])
def test_imports_are_pythons_own_and_torch_and_transformers(name):
    pythons = {"contextlib", "functools", "inspect", "math", "numbers", "sys", "typing"}
    for node in ast.walk(ast.parse(bundle()[name])):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert (node.level, node.module) == (1, "configuration_tupe")
            continue
        else:
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        assert {module.split(".")[0] for module in modules} <= {*pythons, "torch", "transformers"}


def test_each_section_says_where_it_comes_from():
    for path in SOURCES:
        assert f"\n# {path}\n" in MODELING


def test_the_docstring_says_what_made_it():
    said = ast.get_docstring(ast.parse(MODELING))
    assert "Made by tupe_fairseq" in said and "tupe_fairseq/export/bundle.py" in said
    assert "MIT License" in said


def test_no_kernels_that_a_folder_does_not_hold():
    for word in ("triton", "numpy", "KeepMask", "chunked"):
        assert word not in MODELING


def test_reads_as_the_packages_own_files(tmp_path):
    ruff = BIN / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    shutil.copy(REPO / "pyproject.toml", tmp_path)
    for name, text in bundle().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [ruff, *command, "--no-cache", "."], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        assert done.returncode == 0, done.stdout


def test_the_configuration_knows_every_position_option():
    tree = ast.parse(bundle()["configuration_tupe.py"])
    (init,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    assert set(POSITION_OPTIONS) <= {arg.arg for arg in init.args.args}


class TestRefusals:
    def test_a_name_that_two_files_define(self):
        with pytest.raises(BundleError, match="BASE is defined in a.py and in b.py"):
            check_names([source("a.py", defines=["BASE"]), source("b.py", defines=["BASE"])],
                        source("c.py"))  # fmt: skip

    def test_a_name_of_the_configuration(self):
        with pytest.raises(BundleError, match="TupeConfig is defined in c.py and in a.py"):
            check_names(
                [source("a.py", defines=["TupeConfig"])], source("c.py", (), ["TupeConfig"])
            )

    def test_a_name_that_is_left_out(self):
        needs = Import("tupe_fairseq.attention", "chunked", "chunked")
        with pytest.raises(BundleError, match="a.py needs chunked, which no source defines"):
            check_names([source("a.py", [needs])], source("c.py"))

    def test_a_name_that_is_two_imports(self):
        imports = [Import("torch", "", "F"), Import("torch.nn.functional", "", "F")]
        with pytest.raises(BundleError, match="b.py imports another F than others do"):
            check_names([source("a.py", imports[:1]), source("b.py", imports[1:])], source("c.py"))

    def test_a_name_that_is_imported_and_defined(self):
        with pytest.raises(BundleError, match="math is imported by b.py, and defined in a.py"):
            check_names(
                [source("a.py", defines=["math"]), source("b.py", [Import("math", "", "math")])],
                source("c.py"),
            )

    @pytest.mark.parametrize(
        "text, message",
        [
            ("A = 1\nimport math\n", "below code"),
            ("from tupe_fairseq.config import A as B\n", "imports A of the package"),
            ("import tupe_fairseq.config\n", "imports tupe_fairseq.config of the package"),
            ("def f():\n    from tupe_fairseq.config import A\n", "imports A of the package"),
        ],
    )
    def test_a_file_that_cannot_be_taken_apart(self, tmp_path, monkeypatch, text, message):
        (tmp_path / "a.py").write_text(text)
        monkeypatch.setattr(source_file, "PACKAGE", tmp_path)
        with pytest.raises(BundleError, match=message):
            read_source("a.py")
