"""Every position encoding through fairseq-train, on real text."""

import json
import sys

import pytest
import torch
from fairseq import options, tasks
from fairseq.models.roberta import RobertaModel

from helpers.running import USER_DIR
from helpers.training import (
    PRETRAINING,
    SIZE,
    assert_same_weights,
    hydra,
    hydra_words,
    losses,
    pretrain,
    weights,
)
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.position import CATALOGUE

# each scheme as it is, and two with more flags; what a checkpoint must record of them
OPTIONS = {name: {"position_encoding": name} for name in CATALOGUE}
OPTIONS["learned-rel_pos-each_layer"] = {
    "position_encoding": "learned", "rel_pos": True, "rel_pos_buckets": 32, "max_rel_pos": 128,
    "untie_cls": True, "position_each_layer": True,
}  # fmt: skip
OPTIONS["none-rel_pos"] = {
    "position_encoding": "none", "rel_pos": True, "rel_pos_buckets": 16, "max_rel_pos": 40,
}  # fmt: skip


# through fairseq they differ from the others by their flags alone
AGAIN = ("learned", "sinusoidal", "shaw", "transformer-xl")


def params(names):
    return [
        pytest.param(name, marks=pytest.mark.thorough) if name in AGAIN else name for name in names
    ]


def flags_of(name):
    words = []
    for option, value in OPTIONS[name].items():
        words.append("--" + option.replace("_", "-"))
        if value is not True:
            words.append(value)
    return words


MIDDLE, LAST = "checkpoint_1_25.pt", "checkpoint_last.pt"
LENGTH = ["--max-update", 30, "--save-interval-updates", 25]
# fairseq-train's own main, once for each command: a process costs more than these updates
RESUME = """
import json, sys
from fairseq_cli.train import cli_main
for command in json.load(open(sys.argv[1])):
    sys.argv = ["fairseq-train", *command]
    cli_main()
"""


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """30 updates of a scheme, run when it is first asked for: (folder, losses)."""
    done = {}

    def train(name):
        if name not in done:
            folder = tmp_path_factory.mktemp(name)
            done[name] = folder, losses(pretrain(data, folder, *flags_of(name), *LENGTH))
        return done[name]

    return train


def load(data, folder, **options):
    return RobertaModel.from_pretrained(
        str(folder), LAST, str(data), user_dir=USER_DIR, bpe=None, **options
    ).eval()


@pytest.mark.parametrize("name", params(OPTIONS))
def test_it_learns(name, trained):
    _, loss = trained(name)
    assert sorted(loss) == list(range(1, 31))
    first, last = (sum(loss[n] for n in updates) / 5 for updates in (range(1, 6), range(26, 31)))
    # from the 8.2 bits of 300 pieces towards the entropy of their frequencies
    assert last < first - 0.7


@pytest.mark.parametrize("name", params(OPTIONS))
def test_its_options_are_stored(name, trained):
    folder, _ = trained(name)
    model = vars(torch.load(folder / LAST, map_location="cpu")["cfg"]["model"])
    expected = {
        "rel_pos": False, "tie_cls": False, "untie_cls": False, "symmetric_basis": False,
        "position_each_layer": False, "max_positions": 64, **OPTIONS[name],
    }  # fmt: skip
    assert {key: model.get(key) for key in expected} == expected


@pytest.mark.parametrize("name", params(OPTIONS))
def test_from_pretrained_computes_what_was_trained(name, data, trained):
    """Its features, from the stored tensors and the options that were asked for alone."""
    folder, _ = trained(name)
    state = weights(folder / LAST)
    prefix = "encoder.sentence_encoder."
    state = {key[len(prefix) :]: x for key, x in state.items() if key.startswith(prefix)}
    embedding = state.pop("embed_tokens.weight")
    encoder = TupeEncoder(
        TupeConfig(
            embed_dim=32,
            num_heads=4,
            num_layers=2,
            ffn_embed_dim=64,
            max_positions=64,
            **OPTIONS[name],
        )
    ).eval()
    encoder.load_state_dict(state)

    tokens = torch.tensor([[0, 9, 8, 7, 30, 2], [0, 20, 2, 1, 1, 1]])
    with torch.no_grad():
        features = load(data, folder).extract_features(tokens)
        expected = encoder(embedding[tokens], tokens == 1)
    real = tokens != 1
    # the same kernels, for a batch of the same shape
    torch.testing.assert_close(features[real], expected[real], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", params(name for name in CATALOGUE if CATALOGUE[name].TABLE))
def test_another_length_of_the_table_is_refused_by_name(name, data, trained):
    folder, _ = trained(name)
    with pytest.raises(ValueError, match="max_positions is 64 in the checkpoint but 80 in this"):
        load(data, folder, max_positions=80)


def test_another_scheme_is_refused_on_loading(data, trained):
    folder, _ = trained("none")
    with pytest.raises(ValueError, match="--position-encoding is none in the checkpoint and rope"):
        load(data, folder, position_encoding="rope")


@pytest.fixture(scope="module")
def resumed(data, trained, run, tmp_path_factory, request):
    """The folder of each, stopped after 25 updates and gone on with."""
    names = [n for n in OPTIONS if n not in AGAIN or request.config.getoption("--thorough")]
    folders = {name: tmp_path_factory.mktemp(f"{name}-resumed") for name in names}
    commands = []
    for name, folder in folders.items():
        (trained(name)[0] / MIDDLE).rename(folder / LAST)
        flags = [*PRETRAINING, *flags_of(name), *LENGTH, "--save-dir", folder]
        commands.append([str(word) for word in [data, *flags]])
    program = tmp_path_factory.mktemp("resume") / "resume.py"
    program.write_text(RESUME)
    program.with_name("commands.json").write_text(json.dumps(commands))
    process = run(sys.executable, program, program.with_name("commands.json"))
    assert process.stdout.count("checkpoint_last.pt (epoch 1 @ 25 updates)") >= len(names)
    return folders


@pytest.mark.parametrize("name", params(OPTIONS))
def test_stopped_and_resumed_is_bit_identical(name, trained, resumed):
    assert_same_weights(resumed[name] / LAST, trained(name)[0] / LAST)


def test_through_hydra(data, tmp_path, run):
    process = hydra(
        "tupe_tiny", data, tmp_path, "optimization.max_update=10", "dataset.batch_size=4",
        "model.rel_pos=false", "~model.rel_pos_buckets", "~model.max_rel_pos",
        "model.position_encoding=rope", *hydra_words(SIZE),
    )  # fmt: skip
    loss = losses(process)
    assert sorted(loss) == list(range(1, 11))
    model = torch.load(tmp_path / LAST, map_location="cpu")["cfg"]["model"]
    assert model["position_encoding"] == "rope" and not model["rel_pos"]
    tokens = torch.tensor([[0, 9, 8, 7, 2]])
    assert load(data, tmp_path).extract_features(tokens).isfinite().all()


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--position-encoding", "sinusoidal", "--tie-cls"], "'sinusoidal' does not take tie_cls"),
        (["--untie-cls"], "'tupe' does not take untie_cls"),
        (["--position-encoding", "rope", "--rel-pos"], "'rope' does not take rel_pos"),
        (["--position-encoding", "none", "--max-rel-pos", "40"], r"max_rel_pos \(40\).*--rel-pos"),
        (["--position-each-layer"], "'tupe' adds nothing to the input"),
    ],
    ids=["tie_cls", "untie_cls", "rel_pos", "max_rel_pos", "each_layer"],
)
def test_flags_without_effect_are_refused(data, flags, message):
    args = parse(data, *flags)
    with pytest.raises(ValueError, match=message):
        tasks.setup_task(args).build_model(args)


def test_an_unknown_name_lists_those_there_are(data, capsys):
    with pytest.raises(SystemExit):
        parse(data, "--position-encoding", "rotary")
    message = capsys.readouterr().err
    assert all(name in message for name in ["'rotary'", *CATALOGUE])


@pytest.mark.parametrize("flag", ["--checkpoint-activations", "--offload-activations"])
@pytest.mark.parametrize("name", params(OPTIONS))
def test_recomputed_activations_change_nothing(name, flag, data):
    tokens = torch.tensor([[0, 9, 8, 7, 30, 2], [0, 20, 2, 1, 1, 1]])
    grads = []
    for flags in ([], [flag]):
        args = parse(data, *flags_of(name), "--dropout", 0, "--attention-dropout", 0, *flags)
        torch.manual_seed(1)
        model = tasks.setup_task(args).build_model(args)
        logits, _ = model(tokens)
        logits[tokens != 1].square().sum().backward()
        found = model.named_parameters()
        grads.append({key: p.grad for key, p in found if "classification" not in key})
    assert grads[0].keys() == grads[1].keys()
    for key, grad in grads[0].items():
        # the same operations once more, but in another order of addition
        torch.testing.assert_close(grads[1][key], grad, rtol=1e-5, atol=1e-6, msg=key)


def parse(data, *flags):
    parser = options.get_training_parser()
    return options.parse_args_and_arch(parser, [str(word) for word in [data, *PRETRAINING, *flags]])
