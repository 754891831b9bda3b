"""Writes the Python files of a model folder, from the files of this package.

transformers loads a model from two files without imports of their own kind, so
``modeling_tupe.py`` is many files in a row.  Their text stays what it is; imports among them are
left out, and all others stand at the top.
"""

from typing import Dict, Iterable, List, Set

from tupe_fairseq.export.source_file import PACKAGE, BundleError, Import, SourceFile, read_source
from tupe_fairseq.version import __version__

CONFIGURATION = "export/remote/configuration_tupe.py"
#: what the environment of a folder must hold
LIBRARIES = ("torch", "transformers")
LINE_LENGTH = 100

#: The files of ``modeling_tupe.py``, each below those that it needs.  In place of the package's
#: attention/choice.py, attention/split_qkv.py and modules/dropout.py, which know kernels that a
#: folder does not hold, there are attention_function.py and plain_parts.py.
SOURCES = (
    "position/known_schemes.py",
    "position/positions.py",
    "position/bias_factors.py",
    "position/reset_cls.py",
    "position/encoding.py",
    "position/relative_position_bias.py",
    "position/absolute.py",
    "position/projected_table.py",
    "position/untied_absolute.py",
    "position/relative_keys.py",
    "position/schemes/tupe.py",
    "position/schemes/learned.py",
    "position/schemes/sinusoidal.py",
    "position/schemes/none.py",
    "position/schemes/transformer_xl.py",
    "position/schemes/enformer.py",
    "position/schemes/rope.py",
    "position/schemes/alibi.py",
    "position/schemes/shaw.py",
    "position/schemes/disentangled.py",
    "position/catalogue.py",
    "attention/recorded.py",
    "attention/padding.py",
    "attention/shifted.py",
    "attention/bias.py",
    "attention/unpacked.py",
    "attention/merged_mask.py",
    "attention/joined.py",
    "attention/eager.py",
    "attention/sdpa.py",
    "export/remote/flex_attention.py",
    "export/remote/attention_function.py",
    "export/remote/plain_parts.py",
    "modules/activations.py",
    "modules/pooling.py",
    "modules/input_checks.py",
    "modules/shared_bias.py",
    "modules/tupe_multihead_attention.py",
    "modules/tupe_encoder_layer.py",
    "encoder_stack.py",
    "export/remote/checkpointed_stack.py",
    "export/remote/pretrained_model.py",
    "export/remote/tupe_model.py",
    "export/remote/masked_lm.py",
    "export/remote/sequence_classification.py",
    "export/remote/token_classification.py",
    "export/remote/question_answering.py",
)

HEADER = f'''"""TUPE for transformers: positions untied from words, and other position encodings.

Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595.

Made by tupe_fairseq {__version__}: its files stand here one after the other, each under its path in
that package, where changes belong (tupe_fairseq/export/bundle.py puts them together).  Position
encodings come first, the only part that knows where a token stands; then how attention is computed,
the layers, the encoder, and last the models that transformers loads.

In shapes: B sequences of L or T tokens, N tokens without padding, V words, D model width, H heads
of width K.

MIT License, Copyright (c) 2026 The tupe_fairseq authors
"""
'''
RULER = "# " + "-" * 98


def bundle() -> Dict[str, str]:
    """The Python files of a model folder, by name.

    Raises:
        BundleError: if two sources give one name to two things, or leave one without any.
    """
    sources = [read_source(path) for path in SOURCES]
    configuration = read_source(CONFIGURATION)
    check_names(sources, configuration)
    sections = [f"{RULER}\n{_title(source)}\n{RULER}\n\n\n{source.code}\n" for source in sources]
    return {
        "configuration_tupe.py": (PACKAGE / CONFIGURATION).read_text(encoding="utf-8"),
        "modeling_tupe.py": f"{HEADER}\n{import_lines(sources)}\n" + "\n\n".join(sections),
    }


def check_names(sources: Iterable[SourceFile], configuration: SourceFile) -> None:
    """Refuse names that would mean another thing in one file than in many.

    Raises:
        BundleError: if a name is defined twice, or imported from a file that is left out.
    """
    meaning = dict.fromkeys(configuration.defines, configuration.path)
    of_import: Dict[str, Import] = {}
    for source in sources:
        for name in source.defines:
            if name in meaning:
                raise BundleError(f"{name} is defined in {meaning[name]} and in {source.path}")
            meaning[name] = source.path
        for found in source.imports:
            if not found.is_ours and of_import.setdefault(found.name_here, found) != found:
                raise BundleError(f"{source.path} imports another {found.name_here} than others do")
    for source in sources:
        for found in source.imports:
            if found.is_ours and found.name not in meaning:
                raise BundleError(f"{source.path} needs {found.name}, which no source defines")
            if not found.is_ours and found.name_here in meaning:
                raise BundleError(
                    f"{found.name_here} is imported by {source.path}, and defined in "
                    f"{meaning[found.name_here]}"
                )


def import_lines(sources: Iterable[SourceFile]) -> str:
    """The imports of all sources, as the house's formatter writes them."""
    imports = {found for source in sources for found in source.imports}
    configuration = "tupe_fairseq." + CONFIGURATION[:-3].replace("/", ".")
    groups: List[Set[Import]] = [set(), set(), set()]
    for found in imports:
        if found.module == configuration:
            groups[2].add(found._replace(module=".configuration_tupe"))
        elif not found.is_ours:
            groups[found.module.split(".")[0] in LIBRARIES].add(found)
    return "\n\n".join("\n".join(_lines(group)) for group in groups) + "\n"


def _lines(imports: Set[Import]) -> List[str]:
    whole = sorted(found for found in imports if not found.name)
    lines = [
        f"import {module}" + (f" as {here}" if here != module else "") for module, _, here in whole
    ]
    for module in sorted({found.module for found in imports if found.name}):
        names = [found.name for found in imports if found.name and found.module == module]
        # constants, classes, functions
        names.sort(key=lambda name: (not name.isupper(), not name[0].isupper(), name))
        line = f"from {module} import {', '.join(names)}"
        if len(line) > LINE_LENGTH:
            listed = "".join(f"    {name},\n" for name in names)
            line = f"from {module} import (\n{listed})"
        lines.append(line)
    return lines


def _title(source: SourceFile) -> str:
    """A comment: where a section comes from, and what it holds."""
    return "\n".join(f"# {line}" for line in [source.path, *source.summary.split("\n")])
