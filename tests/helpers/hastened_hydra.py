"""Hydra composes the config of a training, the same one, in half the time.

fairseq composes one from two hundred defaults; the official fairseq takes longer for that than to
train a tiny model.  Most of the time goes into copies of a node with all that is above it, which
get another parent at once, into copies of what never changes, and into reading the same words.
"""

import copy
import functools
import types

import omegaconf._utils
import omegaconf.base
import omegaconf.basecontainer
from hydra._internal.core_plugins.importlib_resources_config_source import (
    ImportlibResourcesConfigSource,
)
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata, Node
from omegaconf.nodes import ValueNode

_ATOMS = (type(None), bool, int, float, str)


def hasten_hydra(put=setattr):
    """For this process and its forks.

    Args:
        put (callable): puts a value under a name of an object, as ``setattr`` does.
    """
    for kind in (Metadata, ContainerMetadata):
        put(kind, "__deepcopy__", _copy_metadata)
    put(ValueNode, "_deepcopy_impl", _sharing_atoms(ValueNode._deepcopy_impl))
    if omegaconf.__version__.startswith("2.0."):  # later ones do so themselves
        for kind in (DictConfig, ListConfig):
            put(kind, "__deepcopy__", _copy_container)
    # of the function that copies a node and then sets its parent
    copying = types.SimpleNamespace(deepcopy=_copy_below, copy=copy.copy)
    put(omegaconf.basecontainer, "copy", copying)
    put(OverridesParser, "parse_rule", _reading_once(OverridesParser.parse_rule))
    is_group = ImportlibResourcesConfigSource.is_group  # of an installed package, so it stays so
    put(ImportlibResourcesConfigSource, "is_group", _asking_once(is_group))
    plain = omegaconf._utils.ValueKind.VALUE
    for module in (omegaconf._utils, omegaconf.base):
        put(module, "get_value_kind", _seeing_plain_words(module.get_value_kind, plain))


def _copy_metadata(metadata, memo):
    made = memo[id(metadata)] = object.__new__(type(metadata))
    for name, value in vars(metadata).items():
        # the others are types and whether there is something
        if name in ("key", "flags", "resolver_cache") and type(value) not in _ATOMS:
            value = copy.deepcopy(value, memo) if value else copy.copy(value)
        vars(made)[name] = value
    return made


def _copy_container(container, memo):
    made = memo[id(container)] = object.__new__(type(container))
    for name, value in vars(container).items():
        vars(made)[name] = copy.deepcopy(value, memo)
    content = vars(made)["_content"]
    children = content.values() if isinstance(content, dict) else content
    for child in children if isinstance(content, (dict, list)) else ():
        if isinstance(child, Node):
            vars(child)["_parent"] = made
    return made


def _sharing_atoms(copy_value):
    def copied(node, res, memo=None):
        if type(node._val) not in _ATOMS:
            return copy_value(node, res, memo)
        for name, value in vars(node).items():
            vars(res)[name] = value if name == "_val" else copy.deepcopy(value, memo)

    return copied


def _copy_below(value, memo=None):
    parent = vars(value).get("_parent") if hasattr(value, "__dict__") else None
    memo = {} if memo is None else memo
    return copy.deepcopy(value, memo if parent is None else {**memo, id(parent): parent})


def _reading_once(parse_rule):
    @functools.cache
    def read(text, rule_name):
        return parse_rule(OverridesParser.create(), text, rule_name)

    # a copy, because Hydra writes into it
    return lambda parser, s, rule_name: copy.deepcopy(read(s, rule_name))


def _asking_once(is_group):
    answers = {}

    def ask(source, config_path):
        key = source.path, config_path
        if key not in answers:
            answers[key] = is_group(source, config_path)
        return answers[key]

    return ask


def _seeing_plain_words(get_value_kind, plain):
    def kind(value, *flags, **named):
        if type(value) is str and "${" not in value and value != "???" and not flags and not named:
            return plain
        return get_value_kind(value, *flags, **named)

    return kind
