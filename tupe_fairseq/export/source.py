"""Writes a folder's code: the wrapper, with what the model's position encoding needs of the core.

Of each module, the statements are copied that define a name which is mentioned there or imported.
"""

import ast
import inspect
import re
from importlib import import_module
from importlib.util import resolve_name
from types import ModuleType

from tupe_fairseq.position import get_position_encoding
from tupe_fairseq.version import __version__

WRAPPER = "tupe_fairseq.export.modeling_tupe"
CONFIGURATION = "tupe_fairseq.export.configuration_tupe"  # the folder's other file
OPTIONS = "tupe_fairseq.options"  # of these only values are copied
REGISTRY, TABLE = "tupe_fairseq.position", "POSITION_ENCODINGS"  # a folder has one encoding
#: left out: the decorator of a user's class, and methods that no model calls
LEFT_OUT = re.compile(
    r"^@register_position_encoding\(.*?\)\n"
    r"|\n    def forward_(attn|input)\(.*?((?=\n    def )|\n(?=\n\n))",
    re.DOTALL | re.MULTILINE,
)


class Code:
    """The statements of the encoding's module, of the wrapper, and of the modules they import."""

    def __init__(self, encoding_name: str):
        encoding = get_position_encoding(encoding_name)
        self.table, self.modules = f'{{"{encoding_name}": {encoding.__name__}}}', {REGISTRY}
        packages = f"tupe_fairseq|{encoding.__module__.partition('.')[0]}"
        self.is_ours = re.compile(rf"(?!{CONFIGURATION})({packages})\b").match
        # module, "" for an import; the names that it defines; text; the names that it mentions
        self.statements: list[tuple[str, set, str, set]] = []
        self.read(encoding.__module__)
        self.read(WRAPPER)

    def read(self, name: str) -> None:
        """Add a module's statements after those of the modules that it imports."""
        if name in self.modules:
            return
        self.modules.add(name)
        module, end = import_module(name), 0
        text = LEFT_OUT.sub("", inspect.getsource(module))
        for node in ast.parse(text).body:
            for alias in getattr(node, "names", ()):
                self.read_import(module, node, alias)
            found = [x for x in ast.walk(node) if isinstance(x, ast.Name)]
            defined = {(name, x.id) for x in found if isinstance(x.ctx, ast.Store)}
            defined = {(name, node.name)} if hasattr(node, "name") else defined
            own = "\n".join(text.splitlines()[end : node.end_lineno])  # with the comment above it
            self.statements.append((name, defined, own, {(name, x.id) for x in found}))
            end = node.end_lineno

    def read_import(self, module: ModuleType, node, alias: ast.alias) -> None:
        name, home, start = alias.asname or alias.name.partition(".")[0], alias.name, ""
        if isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), module.__package__)
            start = f"from {home} "
        value, key = getattr(import_module(home), alias.name, None), {(module.__name__, name)}
        if not start or isinstance(value, ModuleType) or alias.asname or not self.is_ours(home):
            self.statements.append(("", key, f"{start}import {ast.unparse(alias)}", set()))
        elif name == TABLE:
            self.statements.append((WRAPPER, key, f"{name} = {self.table}", set()))
        elif home == OPTIONS:
            self.statements.append((OPTIONS, key, f"{name} = {value}", set()))
        else:  # a package may have it from a module
            home = x if self.is_ours(x := getattr(value, "__module__", home)) else home
            self.read(home)
            self.statements.append(("", key, "", {(home, name)}))


def model_code(encoding_name: str) -> str:
    """modeling_tupe.py for models with a position encoding."""
    encoding, code = get_position_encoding(encoding_name), Code(encoding_name)
    known = {(encoding.__module__, encoding.__name__)}
    for _ in code.statements:  # as long as more can become known
        known = known.union(*(x[3] for x in code.statements if x[0] == WRAPPER or x[1] & known))
    parts, texts = {"": {}}, {}
    for module, defined, text, _ in filter(lambda x: x[2], code.statements):
        for _, name in defined if module == WRAPPER else defined & known:
            if texts.setdefault(name, text) != text:
                raise ValueError(f"{name} is defined in {module} and elsewhere; rename one of them")
            parts.setdefault(module, {})[text] = None
    for line in re.finditer(r"^ *(?:from|import) (\S+).*", "\n".join(texts.values()), re.MULTILINE):
        if code.is_ours(line[1]):
            raise ValueError(f"{line[0].strip()!r} is not carried; import names, at the top")
    result = "\n".join(sorted(parts.pop(""))).replace("tupe_fairseq.export.", ".")
    same = re.compile(r"^(from .* import ).*(\n\1.*)+", re.MULTILINE)
    result = same.sub(lambda lines: lines[0].replace("\n" + lines[1], ", "), result)
    result = f'"""{import_module(WRAPPER).__doc__}"""\n\n{result}\n\n'
    result += f"# Made by tupe_fairseq {__version__} for position_encoding {encoding_name!r}.\n"
    for module, own in parts.items():
        result += f"\n\n{f'# ---- {module} '.ljust(100, '-')}\n" + "\n".join(own).strip("\n") + "\n"
    return result
