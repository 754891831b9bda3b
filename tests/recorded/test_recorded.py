"""The package gives what the first edition gave, which record.py wrote beside this file."""

import json
import shutil

import numpy as np
import pytest
import torch

from recorded import record
from recorded.record import CASES, CONTENT, FOLDER, GLUE, LAYOUTS

VARIANTS = ["eager", "sdpa", "chunked", "auto", "eager unpad", "sdpa unpad", "chunked unpad"]


def recorded(name):
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return record.Work(tmp_path_factory.mktemp("recorded"))


def assert_near(actual, expected, tolerance, floor=0.0):
    """Within a part of the largest expected number, or ``floor`` where that is larger."""
    assert actual.keys() == expected.keys()
    for name, numbers in expected.items():
        numbers = np.asarray(numbers, dtype=float)
        error = np.abs(np.asarray(actual[name], dtype=float) - numbers).max()
        allowed = max(tolerance * np.abs(numbers).max(), floor)
        assert error <= allowed, f"{name}: {error:.1e} > {allowed:.1e}"  # False for NaN


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", CASES)
def test_encoding(case, variant):
    """Outputs, hidden states and gradients in float64."""
    name, *unpad = variant.split()
    if name == "chunked" and CASES[case][0] in CONTENT:
        with pytest.raises(RuntimeError, match="chunked"):
            record.outputs(record.encoder(case, attn_impl=name), "whole")
        return
    with np.load(FOLDER / "encodings.npz") as arrays:
        expected = {layout: arrays[f"{case}/{layout}"] for layout in LAYOUTS}
    for layout in LAYOUTS:
        found = record.outputs(record.encoder(case, attn_impl=name, unpad=bool(unpad)), layout)
        sizes = [len(numbers) for numbers in found.values()]
        parts = torch.from_numpy(expected[layout]).split(sizes)
        # 1e-6, of which the record in float32 takes 6e-8; the floor is for gradients that cancel
        assert_near(found, dict(zip(found, parts, strict=True)), 1e-6, floor=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_state_dict(case):
    """Names, shapes and the recorded options; a name that changes would refuse checkpoints."""
    expected, found = recorded("encodings"), record.state_dict(case)
    own = expected["cases"][case]
    common = {n: s for n, s in expected["common"].items() if n in found["shapes"]}
    if not CASES[case][1].get("normalize_before"):
        assert set(expected["common"]) - set(common) == {"layer_norm.weight", "layer_norm.bias"}
    assert found == {"shapes": {**own["shapes"], **common}, "options": own["options"]}


def test_another_vocabulary_of_the_same_size_is_refused(work, tmp_path):
    from tupe_fairseq import TupeRobertaModel

    folder = shutil.copytree(work.checkpoint().parent, tmp_path / "swapped")
    first, second, *rest = (folder / "dict.txt").read_text("utf-8").splitlines(keepends=True)
    (folder / "dict.txt").write_text("".join([second, first, *rest]), "utf-8")
    with pytest.raises(ValueError, match="different vocabulary"):
        TupeRobertaModel.from_pretrained(str(folder), "checkpoint_last.pt")


@pytest.mark.parametrize("vocabulary", ["sentencepiece", "gpt2", "fastbpe"])
def test_ids(vocabulary, work):
    expected, found = recorded("ids")[vocabulary], record.ids_of_lines(work, vocabulary)
    assert found["first"] == expected["first"]
    pairs = zip(found["hashes"], expected["hashes"], strict=True)
    differ = [f"lines {50 * n} to {50 * n + 49}" for n, (a, b) in enumerate(pairs) if a != b]
    assert not differ
    assert found == expected


def test_text(work):
    """If this fails, the text of the other tests is another one, not what is made of it."""
    assert record.sha256(work.text()) == recorded("prepare")["text"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["learned", "given", "options"])
def test_prepare_pretrain(kind, workers, work):
    assert record.prepared(work, f"{kind}-{workers}") == recorded("prepare")[kind]


@pytest.mark.skipif(not GLUE.is_dir(), reason=f"{GLUE} is absent: it holds GLUE's official files")
def test_prepare_glue(work):
    assert record.prepared_glue(work) == recorded("glue")


def assert_same_outcome(found, expected):
    assert found["updates"] == expected["updates"]
    assert found["valid"] == pytest.approx(expected["valid"], abs=0.0011)  # fairseq rounds to 0.001
    # float32 weights after three updates; Adam divides by the root of squared gradients, so that
    # rounding of small gradients counts
    assert_near(found["weights"], expected["weights"], 2e-5)


@pytest.mark.parametrize("name", ["plain", "isolated", "whole_words"])
def test_pretraining(name, work):
    assert_same_outcome(record.trained(work, name), recorded("trainings")[name])


def test_fine_tuning_from_the_same_head(work):
    assert_same_outcome(record.fine_tuned(work), recorded("trainings")["fine_tuned"])


def test_exported_folder(work):
    expected, found = recorded("exported"), record.exported(work)
    # float32 logits of two layers
    assert_near(found["hub"], expected["hub"], 1e-6)
    assert_near(found["exported"], expected["exported"], 1e-6)


def test_comparison(work):
    expected, found = recorded("results")["compare"], record.comparison(work)
    assert found["baseline"] == expected["baseline"]
    for scheme, run in expected["measured"].items():
        losses = found["measured"][scheme].pop("losses")
        # initial weights may be drawn in another order: after four updates that is 2% at most
        assert losses == pytest.approx(run.pop("losses"), rel=0.02)
        assert found["measured"][scheme] == run
    assert found["summary"].keys() == expected["summary"].keys()
    for scheme, row in expected["summary"].items():
        assert found["summary"][scheme].pop("seeds") == row.pop("seeds")
        for name, values in row.items():
            assert found["summary"][scheme][name] == pytest.approx(values, rel=1e-9, abs=1e-9), name


def test_fine_tuning_results(work):
    expected, found = recorded("results")["finetune"], record.fine_tuning(work)
    assert found == expected
