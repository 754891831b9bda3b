"""A position option is written once: everything else takes it from the table."""

import argparse
import dataclasses
import re
from pathlib import Path

import pytest
import torch

import tupe_fairseq
from helpers.glue_data import MODEL, write_checkpoint
from tupe_fairseq import TupeConfig, TupeRobertaModel
from tupe_fairseq.compare.parse_schemes import FLAGS
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.position import CATALOGUE, POSITION_OPTIONS, PositionOptions
from tupe_fairseq.programs.command import parse_training

PACKAGE = Path(tupe_fairseq.__file__).parent
# where an option's name means something: the option that the encoder itself acts on, and the
# options of the authors' own code
KNOWN = {
    "config.py": {"position_each_layer"},
    "encoder_stack.py": {"position_each_layer"},
    # TUPE-R's and T5's names
    "export/card.py": {"rel_pos"},
    # transformers wants each as an argument
    "export/configuration_tupe.py": set(POSITION_OPTIONS),
    "export/modeling_tupe.py": set(POSITION_OPTIONS),
    "checkpoint/from_authors.py": {"rel_pos", "rel_pos_buckets", "max_rel_pos"},
}


def named_in(path):
    """The options that a file names outside of docstrings and comments."""
    text = re.sub(r'""".*?"""|#.*?$', "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {name for name in POSITION_OPTIONS if re.search(rf"\b{name}\b", text)}


def test_no_other_file_lists_the_options():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] != "position" and named_in(path):
            found[place.as_posix()] = named_in(path)
    assert found == KNOWN


def test_every_option_is_taken_by_a_scheme_or_the_encoder():
    taken = {name for scheme in CATALOGUE.values() for name in scheme.OPTIONS}
    assert taken | {"position_each_layer"} == set(POSITION_OPTIONS)


def value_of(option):
    return 12 if option.is_number else True


@pytest.mark.parametrize("option", POSITION_OPTIONS.values(), ids=lambda option: option.name)
def test_flag_preset_config_record_comparison_and_fine_tuning(option, tmp_path):
    parser = argparse.ArgumentParser()
    TupeRobertaModel.add_args(parser)
    given = [option.flag, *(["12"] if option.is_number else [])]
    assert " ".join(option.help.split()) in " ".join(parser.format_help().split())

    words = ["data", "--arch", "tupe_roberta_tiny", "--task", "masked_lm", "--max-positions", "16"]
    args = parse_training([*words, *given])
    assert getattr(args, option.name) == value_of(option)
    config = TupeConfig.from_roberta_options(args)
    assert getattr(config, option.name) == value_of(option)
    assert config.position_options[option.name] == value_of(option)
    not_given = TupeConfig().position_options
    assert (option.name in not_given) == option.always_recorded

    assert FLAGS[option.flag] == option.is_number
    options = {**MODEL, "rel_pos_buckets": None, "max_rel_pos": None, "rel_pos": False}
    options[option.name] = value_of(option)
    flags = read_pretrained(str(write_checkpoint(tmp_path / "checkpoint.pt", options))).flags
    assert "=".join(given) in flags
    names = [flag.partition("=")[0] for flag in flags]
    assert not [other.flag for other in POSITION_OPTIONS.values()
                if other is not option and other.flag in names]  # fmt: skip


def test_kinds_and_defaults_are_those_of_the_fields():
    fields = {field.name: field for field in dataclasses.fields(PositionOptions)}
    assert list(fields) == list(POSITION_OPTIONS)
    for name, option in POSITION_OPTIONS.items():
        assert option.default is fields[name].default
        assert option.is_number == (fields[name].default is None)
        assert getattr(TupeConfig(), name) is option.default


@pytest.mark.parametrize("name", CATALOGUE)
def test_defaults_of_a_scheme_are_what_it_is_built_with(name):
    """A default that is given gives the same module."""
    scheme = CATALOGUE[name]
    for given in ({}, {"rel_pos": True}):
        if not set(given) <= set(scheme.OPTIONS):
            continue
        defaults = scheme.defaults(given)
        torch.manual_seed(1)
        without = scheme(12, 3, 16, **given)
        torch.manual_seed(1)
        with_them = scheme(12, 3, 16, **given, **defaults)
        ours, theirs = without.state_dict(), with_them.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(ours[key].equal(theirs[key]) for key in ours)
        config = TupeConfig(position_encoding=name, **given)
        assert {**config.position_options, **defaults} == config.position_options
