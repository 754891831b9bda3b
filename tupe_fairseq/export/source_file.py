"""A Python file of this package, taken apart for the bundle."""

import ast
from pathlib import Path
from typing import Iterator, List, NamedTuple, Tuple

PACKAGE = Path(__file__).parent.parent


class BundleError(Exception):
    """Files cannot stand in one; the message says why."""


class Import(NamedTuple):
    """One imported name; that of a module imported whole is empty."""

    module: str
    name: str
    name_here: str

    @property
    def is_ours(self) -> bool:
        return self.module.split(".")[0] == "tupe_fairseq"


class SourceFile(NamedTuple):
    """A file, taken apart.

    Args:
        path (str): its path in the package.
        summary (str): its docstring up to the first empty line.
        code (str): what follows its imports.
        imports (list of Import): all of them.
        defines (list of str): the names that it defines.
    """

    path: str
    summary: str
    code: str
    imports: List[Import]
    defines: List[str]


def read_source(path: str) -> SourceFile:
    """Take a file apart: a docstring, then imports, then code.

    Args:
        path (str): its path in the package.
    Raises:
        BundleError: if it imports below code, or a name of the package under another one.
    """
    text = (PACKAGE / path).read_text(encoding="utf-8")
    tree = ast.parse(text)
    head = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr))]
    rest = tree.body[len(head) :]
    if head != tree.body[: len(head)]:
        raise BundleError(f"{path} has an import or a text of its own below code")
    imports = [found for node in head for found in _imports(node)]
    within = [found for node in rest for below in ast.walk(node) for found in _imports(below)]
    for found in [*imports, *within]:
        if found.is_ours and (found in within or found.name != found.name_here):
            raise BundleError(
                f"{path} imports {found.name or found.module} of the package inside of code or "
                "under another name"
            )
    start = max((node.end_lineno or 0 for node in head), default=0)
    return SourceFile(
        path,
        (ast.get_docstring(tree) or "").partition("\n\n")[0],
        "\n".join(text.split("\n")[start:]).strip("\n"),
        imports,
        [name for node in rest for name in _defined(node)],
    )


def _imports(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, "", alias.asname or alias.name)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield Import(node.module or "", alias.name, alias.asname or alias.name)


def _defined(node: ast.stmt) -> Iterator[str]:
    """The names that a statement on the top level of a file gives a value to."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    targets: Tuple[ast.AST, ...] = ()
    if isinstance(node, ast.Assign):
        targets = tuple(node.targets)
    elif isinstance(node, ast.AnnAssign):
        targets = (node.target,)
    for target in targets:
        yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))
