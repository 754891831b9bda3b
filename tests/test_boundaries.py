"""One table of what each part of the package imports, checked against the source."""

import ast
import importlib.util
from pathlib import Path

import pytest

import tupe_fairseq
from helpers.running import REPO

PACKAGE = Path(tupe_fairseq.__file__).parent
#: Each part, the parts that it imports, and the libraries beyond Python's own.  A part imports only
#: parts above it, so that there are no cycles.
PARTS = {
    "version.py": ("", ""),
    "missing_package.py": ("", ""),
    "require_fairseq.py": ("", "fairseq"),
    "architectures.py": ("", ""),
    "files": ("", ""),
    # the model: torch only
    "position": ("", "torch"),
    "attention": ("", "numpy torch triton"),
    "modules": ("attention", "torch"),
    "config.py": ("position", ""),
    "recorded_options.py": ("config.py", "torch"),
    "encoder_stack.py": ("attention modules position", "torch"),
    "encoder.py": (
        "attention config.py encoder_stack.py modules position recorded_options.py",
        "torch",
    ),
    "position_terms.py": ("encoder.py position", "torch"),
    "plots": ("encoder.py files position_terms.py", "matplotlib numpy torch"),
    # from and to files
    "checkpoint": ("attention config.py encoder.py files modules position", "torch"),
    "shell_text.py": ("", "tqdm"),
    "programs": ("checkpoint require_fairseq.py", "fairseq"),
    "text": (
        "files missing_package.py",
        "fairseq numpy pyarrow regex sacremoses sentence_splitter sentencepiece subword_nmt tqdm",
    ),
    "rows": ("files text", ""),
    # labelled texts
    "tasks": ("files rows text", "numpy scipy seqeval sklearn tqdm"),
    "glue": ("files tasks text", ""),
    # texts through a trained model
    "prediction": ("attention encoder.py files rows tasks text", "numpy torch"),
    # model folders for other libraries
    "export": (
        "checkpoint files missing_package.py position tasks text version.py",
        "onnxruntime sacremoses safetensors sentencepiece torch tqdm transformers",
    ),
    # what fairseq loads
    "plugin": ("require_fairseq.py", "fairseq numpy torch"),
    "plugin/model": (
        "attention checkpoint config.py encoder.py files missing_package.py modules plots plugin "
        "position position_terms.py prediction programs tasks text",
        "fairseq omegaconf torch",
    ),
    "plugin/glue": ("files glue programs tasks", "fairseq numpy omegaconf torch"),
    "plugin/tagging": (
        "checkpoint files plugin/glue tasks",
        "fairseq numpy omegaconf torch",
    ),
    "models": (
        "architectures.py files plugin plugin/model position require_fairseq.py",
        "fairseq omegaconf",
    ),
    # what our commands do
    "inference": (
        "checkpoint config.py encoder.py export files models modules plots plugin/model "
        "plugin/tagging tasks text",
        "fairseq numpy torch",
    ),
    # nothing heavy at its imports' top: it looks at what may be broken
    "doctor": (
        "checkpoint config.py encoder.py files inference missing_package.py position text "
        "version.py",
        "fairseq numpy torch",
    ),
    "scoring": ("files text", "torch"),
    "finetune": (
        "architectures.py checkpoint files glue inference missing_package.py plots position "
        "programs shell_text.py tasks text",
        "numpy tqdm",
    ),
    "compare": (
        "config.py encoder.py files plots position programs shell_text.py version.py",
        "fairseq torch tqdm",
    ),
    # imported before anything else: see test_flags_are_read_without_a_library
    "command_flags": (
        "architectures.py checkpoint compare export files finetune glue inference position "
        "prediction rows scoring tasks text",
        "",
    ),
    "commands": (
        "checkpoint command_flags compare doctor export files finetune glue inference "
        "missing_package.py modules plots plugin/model prediction programs rows scoring "
        "shell_text.py tasks text version.py",
        "fairseq torch tqdm yaml",
    ),
    "register.py": ("models plugin plugin/glue plugin/tagging", ""),
    "__init__.py": (
        "config.py encoder.py missing_package.py models position register.py version.py",
        "",
    ),
}


def part_of(path):
    """The part that a file or folder of the package belongs to."""
    names = path.relative_to(PACKAGE).parts
    nested = "/".join(names[:2])
    return nested if len(names) > 2 and nested in PARTS else names[0]


def files():
    return sorted(PACKAGE.rglob("*.py"))


def imported(path):
    """Every module that a file imports, anywhere in it; names of a package's modules resolved."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if path.name == "modeling_tupe.py" and node.level == 1:
                continue  # beside it in every model folder
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def target(name):
    """The file in the package that an imported name is defined in or refers to."""
    place = PACKAGE
    for word in name.split(".")[1:]:
        if (place / f"{word}.py").exists():
            return place / f"{word}.py"
        if not (place / word).is_dir():
            break
        place = place / word
    return place / "__init__.py"


def is_library(name):
    """Whether a module comes neither with Python nor with this package."""
    spec = importlib.util.find_spec(name)
    return spec is None or "site-packages" in (spec.origin or "")


def found(part):
    parts, libraries = set(), set()
    for path in files():
        if part_of(path) != part:
            continue
        for name in imported(path):
            top = name.split(".")[0]
            if top == "tupe_fairseq":
                parts.add(part_of(target(name)))
            elif is_library(top):
                libraries.add(top)
    return parts - {part}, libraries


def loaded_at_once(path, seen):
    """The files, and then the libraries, that importing a file of the package imports."""
    if path in seen:
        return
    seen.add(path)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] != "tupe_fairseq":
                seen.add(name.split(".")[0])
                continue
            place = target(name)
            for folder in [place.parent, *place.parents]:
                if (folder / "__init__.py").exists():
                    loaded_at_once(folder / "__init__.py", seen)
            loaded_at_once(place, seen)


def test_flags_are_read_without_a_library():
    """Nor is one imported with the package: --help and wrong flags are answered at once."""
    seen = set()
    for path in (PACKAGE / "commands" / "start.py", *(PACKAGE / "command_flags").glob("*.py")):
        loaded_at_once(path, seen)
    assert not [name for name in seen if isinstance(name, str) and is_library(name)]


def test_every_file_belongs_to_a_part():
    assert {part_of(path) for path in files()} == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_what_the_table_says(part):
    parts, libraries = (set(words.split()) for words in PARTS[part])
    assert found(part) == (parts, libraries)
    above = list(PARTS)[: list(PARTS).index(part)]
    assert parts <= set(above)


def test_every_part_has_its_line_on_the_map():
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = text[text.index("tupe_fairseq/") : text.index("tests/  ")]
    lines = [line.split(maxsplit=1)[0].rstrip("/") for line in package.splitlines()[1:] if line]
    for part in set(PARTS) - {"__init__.py"}:
        assert part.split("/")[-1] in lines


#: folders whose files are named after what users type: commands, schemes and figures
NAMED_BY_USERS = ("commands", "command_flags", "position/schemes", "plots/figures")


def test_a_file_name_stands_for_one_thing():
    places = [path.relative_to(PACKAGE) for path in files() if path.name != "__init__.py"]
    ours = [place for place in places if place.parent.as_posix() not in NAMED_BY_USERS]
    names = [place.stem for place in ours]
    assert [name for name in names if names.count(name) > 1] == []
    folders = {path.parent.name for path in files()}
    assert [name for name in names if name in folders] == []


@pytest.mark.parametrize("folder", ["models", "tasks"])
def test_fairseq_imports_nothing_that_takes_a_second(folder):
    """It imports all files of these two folders at the start of every training."""
    for path in (PACKAGE / folder).glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:  # not those in functions
            names = [getattr(node, "module", None) or ""]
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            parts = {name.split(".")[0] for name in names}
            assert not parts & {"matplotlib", "scipy", "seqeval", "sklearn"}, path
