"""Writes train.txt and valid.txt: the English prose that every Python ships.

The sources are the documentation topics of ``pydoc_data`` and the docstrings of the standard
library, compiled modules included.  Only prose paragraphs are kept (no code, sessions, tables,
signatures), each once.  All of a module or topic goes to either train or valid.  Long paragraphs
are split at sentence ends; each line of the output is a paragraph or a part of one, in the order
of the text.

Needs nothing but the standard library.
"""

import argparse
import ast
import hashlib
import importlib
import inspect
import os
import pkgutil
import re
import sys
import sysconfig
import tokenize
import warnings

# not part of every installation, or without documentation worth reading
SKIPPED_PACKAGES = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
# importing one of these has a side effect: a browser window, printed text, a signal handler
NOT_IMPORTED = {"antigravity", "this", "_testcapi", "faulthandler"}

VALID_PERCENT = 8
MAX_CHARS = 240  # of a line, unless a single word is longer
MIN_WORDS = 4
FUNCTION_WORDS = set(
    "a an and are as at be but by can for from has have if in into is it its may must no not of on "
    "or that the then there this to was were when which will with you".split()
)
PLAIN_WORD = re.compile(r"""[("'`*]*[A-Za-z]+(['-][A-Za-z]+)*[)"'`*]*[.,;:!?]*[)"'`*]*$""")
CODE_LINE = re.compile(
    r"\s*(>>>|\.\.\.( |$)|\.\. |[#$@|]|%\w|[+=~*^-]{3}|(def|class) \w+[(:]|(import|return) [\w.]+$"
    r"|from [\w.]+ import|print\(|(if|for|while|with|try|except|else|elif)\b.*:$)"
)
# columns, grammar rules, box drawing, assignments, program output
COLUMNS = re.compile(r"[^.!?:] {3,}|::=|\||==|<-|->| = |[^\x00-\x7f]{3}|_{4}|\$")
LIST_ITEM = re.compile(r"\s*([*+-]|\(?\d{1,2}[.)]) +")
SENTENCE_END = re.compile(r"(?<=[.!?:;]) (?=[A-Z\"'(`])")


def topics():
    """Yields (topic, text) of pydoc's documentation."""
    from pydoc_data.topics import topics as texts

    for name in sorted(texts):
        yield "pydoc_data.topics." + name, texts[name]


def source_files(root):
    """Yields (module name, path) of the standard library's Python files."""
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(n for n in subfolders if n.isidentifier())
        subfolders[:] = [n for n in subfolders if n not in SKIPPED_PACKAGES and n != "pydoc_data"]
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                module = os.path.relpath(path, root)[: -len(".py")].replace(os.sep, ".")
                yield re.sub(r"\.__init__$", "", module), path


def docstrings_in_source(path):
    """The docstrings of a file, read without importing it."""
    try:
        with tokenize.open(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escape sequences
            tree = ast.parse(file.read())
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return  # templates and files in the syntax of another version
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield text


def compiled_modules():
    """Names of the modules written in C: there is no source to read docstrings from."""
    folder = sysconfig.get_config_var("DESTSHARED")
    names = set(sys.builtin_module_names)
    if folder:
        names.update(module.name for module in pkgutil.iter_modules([folder]))
    return sorted(n for n in names if n not in NOT_IMPORTED and not re.match("_test|_?xx", n))


def docstrings_in_module(name):
    """The docstrings of a compiled module, its classes and their members."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
    except Exception:  # a shared library that this machine lacks
        return
    own = [value for _, value in sorted(vars(module).items())]
    members = [
        value
        for kind in own
        if isinstance(kind, type) and kind.__module__ in (name, name.lstrip("_"))
        for _, value in sorted(vars(kind).items())
    ]
    for value in [module] + own + members:
        if (
            value is module
            or inspect.isroutine(value)
            or inspect.isclass(value)
            or (inspect.isdatadescriptor(value))
        ):
            text = getattr(value, "__doc__", None)
            if isinstance(text, str):
                yield inspect.cleandoc(text)


def is_prose(lines):
    """Is this paragraph running English text?"""
    if any(CODE_LINE.match(line) or COLUMNS.search(line.strip()) for line in lines):
        return False
    text = " ".join(lines)
    words = text.split()
    if len(words) < MIN_WORDS or not any(word.lower() in FUNCTION_WORDS for word in words):
        return False
    # many docstrings lack the full stop; then every word has to look like one
    required = 0.65 if re.search(r"[.!?:;)\"']$", text) else 0.9
    return sum(1 for word in words if PLAIN_WORD.match(word)) >= required * len(words)


def prose_parts(lines):
    """Yields the block of lines if it is prose, else its indented parts that are prose."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    is_heading = len(lines) > 1 and indents[0] < indents[1] and len(lines[0].split()) <= 2
    if not is_heading and is_prose(lines):
        yield lines
        return
    starts = [i for i, indent in enumerate(indents) if indent == min(indents)]
    if starts == [0]:
        starts = [1]
    elif len(starts) == len(lines):  # nothing is indented
        return
    elif starts[0] != 0:
        starts.insert(0, 0)
    for start, end in zip(starts, starts[1:] + [len(lines)]):
        if start < end:
            yield from prose_parts(lines[start:end])


def paragraphs(text):
    """Yields the prose paragraphs of a text, each as one line."""
    block = []
    for line in text.expandtabs().splitlines() + [""]:
        is_item = LIST_ITEM.match(line)
        if block and (not line.strip() or is_item):
            for lines in prose_parts(block):
                yield " ".join(" ".join(lines).split())
            block = []
        if line.strip():
            block.append(" " * is_item.end() + line[is_item.end() :] if is_item else line)


def wrap(paragraph):
    """Cuts a paragraph into lines of at most MAX_CHARS, at sentence ends if possible."""
    line = ""
    for sentence in SENTENCE_END.split(paragraph):
        if line and len(line) + 1 + len(sentence) > MAX_CHARS:
            yield line
            line = ""
        for word in sentence.split():
            if line and len(line) + 1 + len(word) > MAX_CHARS:
                yield line
                line = ""
            line = (line + " " + word).strip()
    if line:
        yield line


def in_valid(source):
    """By a hash that, unlike Python's hash(), does not change from run to run."""
    digest = hashlib.sha256(source.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < VALID_PERCENT


def texts():
    """Yields (module or topic, text)."""
    yield from topics()
    for name, path in source_files(sysconfig.get_paths()["stdlib"]):
        yield from ((name, text) for text in docstrings_in_source(path))
    for name in compiled_modules():
        yield from ((name, text) for text in docstrings_in_module(name))


def write_corpus(texts, folder, every=1):
    """Writes the prose of (source, text) to train.txt and valid.txt: one paragraph of ``every``."""
    lines = {"train": [], "valid": []}
    sources = {"train": set(), "valid": set()}
    seen = set()
    for source, text in texts:
        split = "valid" if in_valid(source) else "train"
        for paragraph in paragraphs(text):
            if paragraph.lower() not in seen:
                seen.add(paragraph.lower())
                if len(seen) % every:
                    continue
                sources[split].add(source)
                lines[split].extend(wrap(paragraph))

    os.makedirs(folder, exist_ok=True)
    for split in ("train", "valid"):
        path = os.path.join(folder, split + ".txt")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in lines[split])
        print(
            f"{path}: {sum(len(line.split()) for line in lines[split]):,} words in "
            f"{len(lines[split]):,} lines from {len(sources[split]):,} sources"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output_dir", metavar="DIR", help="folder for train.txt and valid.txt")
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="keep one paragraph of N, for a smaller corpus; default %(default)s",
    )
    args = parser.parse_args()
    if args.every < 1:
        parser.error(f"--every is {args.every}; give 1 or more")

    write_corpus(texts(), args.output_dir, args.every)


if __name__ == "__main__":
    main()
