"""tupe_roberta with ``learned`` positions is fairseq's own RoBERTa, number for number."""

import pytest
import torch
import torch.nn.functional as F
from fairseq import options, tasks
from fairseq.data import Dictionary

from helpers.running import USER_DIR
from tupe_fairseq.checkpoint.from_roberta import rename_tensors

SIZES = [
    "--encoder-layers", 3, "--encoder-embed-dim", 24, "--encoder-ffn-embed-dim", 40,
    "--encoder-attention-heads", 4, "--max-positions", 17, "--tokens-per-sample", 16,
]  # fmt: skip
NO_DROPOUT = ["--dropout", 0, "--attention-dropout", 0]
STOCK = {
    "post_ln": ["--arch", "roberta_base"],
    "pre_ln": ["--arch", "roberta_prenorm", "--layernorm-embedding"],
}
OURS = {"post_ln": [], "pre_ln": ["--encoder-normalize-before"]}
# fairseq's gelu always rounds to float32
ACTIVATION = {torch.float32: "gelu", torch.float64: "relu"}
TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-10}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dictionary")
    dictionary = Dictionary()
    for n in range(20):
        dictionary.add_symbol(f"w{n}")
    dictionary.save(str(folder / "dict.txt"))
    return folder


def build(folder, *flags):
    words = [folder, "--user-dir", USER_DIR, "--task", "masked_lm", *SIZES, *NO_DROPOUT, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), [str(w) for w in words])
    return tasks.setup_task(args).build_model(args)


def ours_from(tensors, ours):
    """The tensors of a stock state dict with those that only our files have."""
    own = ours.state_dict()
    versions = ("encoder.vocabulary_version", "encoder.sentence_encoder.position_version")
    return {**rename_tensors(tensors), **{name: own[name] for name in versions}}


@pytest.fixture(params=["post_ln", "pre_ln"])
def style(request):
    return request.param


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def models(request, style, folder):
    """Stock RoBERTa with random weights, nothing at its initial 0 or 1, and ours from it."""
    activation = ["--activation-fn", ACTIVATION[request.param]]
    stock = build(folder, *STOCK[style], *activation).to(request.param)
    for parameter in stock.parameters():
        torch.nn.init.normal_(parameter, mean=0.1, std=0.3)
    flags = ["--arch", "tupe_roberta", "--position-encoding", "learned", *OURS[style], *activation]
    ours = build(folder, *flags).to(request.param)
    ours.load_state_dict(ours_from(stock.state_dict(), ours))
    return stock, ours


@pytest.fixture
def tokens():
    tokens = torch.randint(4, 24, (4, 16))
    tokens[:, 0] = 0
    for row, length in enumerate((16, 11, 5, 1)):
        tokens[row, length:] = 1
    return tokens


def assert_equal(ours, stock):
    """Within the rounding of the largest entry."""
    atol = TOLERANCE[stock.dtype] * stock.abs().max().item()
    torch.testing.assert_close(ours, stock, rtol=0, atol=atol)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_outputs_and_gradients(models, tokens, training):
    real = tokens.ne(1)
    target = torch.randint(4, 24, tokens.shape)[real]
    found = []
    for model in models:
        model.train(training)
        logits, extra = model(tokens, return_all_hiddens=True)
        hiddens = [hidden.transpose(0, 1)[real] for hidden in extra["inner_states"]]
        features, _ = model(tokens, features_only=True)
        loss = F.cross_entropy(logits[real], target)
        loss.backward()
        found.append((hiddens, features[real], logits[real], loss))
    (hiddens, *outputs), (our_hiddens, *our_outputs) = found
    assert len(hiddens) == len(our_hiddens) == 4
    for our_output, output in zip([*our_hiddens, *our_outputs], [*hiddens, *outputs]):
        assert_equal(our_output, output)

    stock, ours = models
    gradients = {n: p.grad for n, p in stock.named_parameters() if p.grad is not None}
    unread = gradients["encoder.sentence_encoder.embed_positions.weight"][:2]
    assert unread.abs().max() == 0
    expected = rename_tensors(gradients)
    assert sorted(expected) == sorted(name for name, _ in ours.named_parameters())
    for name, parameter in ours.named_parameters():
        assert_equal(parameter.grad, expected[name])


def test_inference_on_loaded_weights(models, tokens):
    """With relu, post-LN, fairseq 0.12.2 has a fused kernel for it and its own weight copies."""
    stock, ours = (model.eval() for model in models)
    stock.load_state_dict(stock.state_dict())
    real = tokens.ne(1)
    with torch.no_grad():
        for features_only in (False, True):
            expected, _ = stock(tokens, features_only=features_only)
            found, _ = ours(tokens, features_only=features_only)
            assert_equal(found[real], expected[real])
