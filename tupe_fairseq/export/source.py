"""Writes the code of a model folder: the wrapper, and what its position encoding needs of the core.

Definitions are copied as they are, but without what nothing mentions of the core's classes.
"""

import ast
import builtins
import functools
import re
import symtable
import sys
from importlib.util import find_spec, resolve_name
from pathlib import Path

from torch import nn

from tupe_fairseq.position import get_position_encoding
from tupe_fairseq.version import __version__

WRAPPER = "tupe_fairseq.export.modeling_tupe"
CONFIGURATION = "tupe_fairseq.export.configuration_tupe"  # the folder's other file
REGISTRY = "tupe_fairseq.position"  # it knows all encodings; a folder has one
ENCODINGS = "POSITION_ENCODINGS"
WIDTH = 100
Place = tuple[str, str]  # a module, and a name in it


class Source:
    """A module's file, with its definitions and imports by name."""

    def __init__(self, module: str):
        spec = None if module == "__main__" else find_spec(module)
        if spec is None or not str(spec.origin).endswith(".py"):
            raise ValueError(f"module {module} has no file, so its code cannot be exported")
        package = module if spec.submodule_search_locations else spec.parent
        text = Path(str(spec.origin)).read_text("utf-8")
        self.path, self.lines, self.body = spec.origin, text.splitlines(), ast.parse(text).body
        self.is_core = module.startswith("tupe_fairseq.") and module != WRAPPER
        self.definitions: dict[str, ast.stmt] = {}
        self.imports: dict[str, Place] = {}
        for node in self.body:
            self.definitions |= dict.fromkeys(_names(node), node)
            if isinstance(node, ast.Import):
                pairs = [(x.asname or x.name.partition(".")[0], x.name) for x in node.names]
                self.imports |= {name: (module, "") for name, module in pairs}
            elif isinstance(node, ast.ImportFrom):
                home = resolve_name("." * node.level + (node.module or ""), package)
                self.imports |= {x.asname or x.name: (home, x.name) for x in node.names}

    def text(self, name: str, mentioned: set[str] | None) -> str:
        """A definition and the comment above it, without the decorator that registers it."""
        node, skipped = self.definitions[name], set[int]()
        for x in getattr(node, "decorator_list", ()):
            if "register_position_encoding" in ast.unparse(x):
                skipped |= {*range(x.lineno - 1, x.end_lineno)}
        is_reduced = self.is_core and mentioned is not None and isinstance(node, ast.ClassDef)
        for x in node.body if is_reduced else ():
            names = [] if isinstance(x, ast.AnnAssign) else _names(x)  # those may be fields
            kept = [n in mentioned or n[:2] == "__" or hasattr(nn.Module, n) for n in names]
            if names and not any(kept):
                skipped |= {*self._lines(x)}
        text = "\n".join(self.lines[n] for n in self._lines(node) if n not in skipped).rstrip()
        return re.sub(r"\n{3,}", "\n\n", text)

    def _lines(self, node) -> range:
        first = min(x.lineno for x in (node, *getattr(node, "decorator_list", ()))) - 1
        while self.lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return range(first, node.end_lineno)


source = functools.cache(Source)


class Bundle:
    """The definitions that models with a position encoding need."""

    def __init__(self, encoding_name: str):
        encoding = get_position_encoding(encoding_name)
        self.start = [(encoding.__module__, encoding.__qualname__)]
        self.start += [(WRAPPER, name) for name in source(WRAPPER).definitions]
        self.packages = {module.partition(".")[0] for module, _ in self.start}
        self.table = f'{ENCODINGS} = {{"{encoding_name}": {encoding.__name__}}}'
        before, mentioned = None, self.collect(None)
        while before != mentioned:  # what is left out may have been the only one to mention more
            before, mentioned = mentioned, self.collect(mentioned)

    def collect(self, mentioned: set[str] | None) -> set[str]:
        """Follow names from the wrapper and the encoding; returns attributes and strings."""
        self.texts, self.homes, self.uses, todo = {}, {}, {}, [*self.start]
        for module, name in todo:  # which grows
            home = self.homes.setdefault(name, found := self.home(module, name))
            if home != found:
                raise ValueError(f"{name} is in {home[0]} and in {found[0]}; rename one of them")
            if not self.is_ours(home[0]):
                continue
            if home[0] != module:
                self.uses.setdefault(module, []).append(home[0])
            if name == ENCODINGS:
                self.texts[home] = self.table
            elif home not in self.texts:
                self.texts[home] = text = source(home[0]).text(name, mentioned)
                todo += [(home[0], x) for x in _global_names(text)]
                for x in ast.walk(ast.parse(text)):
                    if isinstance(x, ast.ImportFrom) and (x.level or self.is_ours(x.module or "")):
                        path = source(home[0]).path
                        raise ValueError(f"{path}: {name} imports within a function; do so above")
        nodes = [x for text in self.texts.values() for x in ast.walk(ast.parse(text))]
        attributes = {x.attr for x in nodes if isinstance(x, ast.Attribute)}
        return attributes | {str(x.value) for x in nodes if isinstance(x, ast.Constant)}

    def is_ours(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages and module != CONFIGURATION

    def home(self, module: str, name: str) -> Place:
        """Where a name that a module uses is from: a definition of ours, or a library."""
        file = source(module)
        if name == ENCODINGS:
            return WRAPPER, name
        if name in file.definitions and module != REGISTRY:
            return module, name
        if name not in file.imports and hasattr(builtins, name):
            return "", name
        place = file.imports.get(name)
        if place is None or (self.is_ours(place[0]) and place[1] != name):
            where = "at the top of the file, or imported from where it is by this name"
            raise ValueError(f"{file.path}: {name} must be defined {where}")
        return self.home(*place) if self.is_ours(place[0]) else place

    def modules(self, module: str, order: dict[str, None]) -> dict[str, None]:
        """The modules that a module uses, each after those that it uses, then itself."""
        for other in self.uses.get(module, ()):
            order = order if other in order else self.modules(other, order)
        return order | {module: None}

    def __str__(self) -> str:
        code = ""
        for module in self.modules(WRAPPER, self.modules(self.start[0][0], {})):
            places = [(module, name) for name in (ENCODINGS, *source(module).definitions)]
            gap = "\n\n\n" + f"# ---- {module} ".ljust(WIDTH, "-") + "\n"
            for text in dict.fromkeys(self.texts[x] for x in places if x in self.texts):
                is_block = re.search("^(class|def|@)", text, re.MULTILINE)
                code += ("\n\n\n" if is_block and len(gap) < 4 else gap) + text
                gap = "\n\n\n" if is_block else "\n"
        return code.lstrip() + "\n"


def model_code(encoding_name: str) -> str:
    """modeling_tupe.py for models with a position encoding."""
    bundle, wrapper = Bundle(encoding_name), source(WRAPPER)
    docstring = "\n".join(wrapper.lines[: wrapper.body[0].end_lineno])
    made = f"# Made by tupe_fairseq {__version__} for position_encoding {encoding_name!r}."
    places = {name: x for name, x in bundle.homes.items() if x[0] and not bundle.is_ours(x[0])}
    return f"{docstring}\n\n{_imports(places)}\n\n{made}\n\n\n{bundle}"


def _names(node: ast.stmt) -> list[str]:
    """What a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    is_assignment = isinstance(node, ast.Assign | ast.AnnAssign)
    names = [x for x in ast.walk(node) if isinstance(x, ast.Name)] if is_assignment else []
    return [x.id for x in names if isinstance(x.ctx, ast.Store)]


def _global_names(text: str) -> list[str]:
    tables, names = [symtable.symtable(text, "", "exec")], set[str]()
    for table in tables:  # which grows
        tables += table.get_children()
        symbols = table.get_symbols()
        names |= {x.get_name() for x in symbols if x.is_referenced() and x.is_global()}
    return sorted(names)


def _imports(places: dict[str, Place]) -> str:
    """Import statements in isort's order."""
    statements: dict[tuple[int, bool, str], list[str]] = {}
    for name, (module, original) in places.items():
        top = module.partition(".")[0]
        section, alias = int(top not in sys.stdlib_module_names), f" as {name}"
        alias = "" if name == (original or top) else alias
        key = section + (module == CONFIGURATION), original != "", module
        statements.setdefault(key, []).append(original + alias)
    sections = ["", "", ""]  # Python's, libraries', the folder's
    for (section, is_from, module), names in sorted(statements.items()):
        names.sort(key=lambda x: (not x.isupper(), not x[:1].isupper(), x))
        line = "\n".join(f"import {module}{alias}" for alias in names)
        if is_from:
            line = f"from {module.removeprefix('tupe_fairseq.export')} import {', '.join(names)}"
        sections[section] += line + "\n"
    return "\n".join(x for x in sections if x).rstrip()
