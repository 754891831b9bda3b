"""Exports small models of four kinds, and uses the folders in any environment with transformers.

    python scripts/check_export.py make OUT       with fairseq and this package: OUT/KIND/folder
    OTHER/python scripts/check_export.py use OUT  with transformers, and what else there is of
                                                  sentence-transformers, accelerate, onnxruntime

``use`` ends with 1 if a folder does not compute what the checkpoint does, cannot be used by a
pipeline, trained by Trainer, saved and loaded again, or differs in one of the other libraries.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()
sys.modules["torchaudio"] = None  # one for another torch breaks the import of Trainer

import torch  # noqa: E402

LIMIT = 1e-4
LENGTH = 128  # the longest sequence
LABELS = ["no", "yes", "perhaps"]
#: kind -> labels, flags of tupe-export, options of fairseq
KINDS = {
    "tupe": ([], [], {"rel_pos": True}),
    "roberta": ([], ["--as", "roberta"], {"position_encoding": "learned"}),
    "classifier": (LABELS, [], {"task": "sentence_prediction"}),
    "tagger": (LABELS, [], {"task": "token_tagging", "position_encoding": "rope"}),
}
TEXTS = [
    "The cat sat on the mat.",
    "Nobody knows why: in 1969, 600,000 people came (on July 20th).",
    "Ein naïver Mann isst 100 % Brot; café and thé.",
    " Soft\u00adhyphen, cafe\u0301,\na zero-width\u200b space. ",
    "Yes.",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("make", "use"))
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.step == "make":
        make(args.out)
    else:
        sys.exit(use(args.out))


# ---- In the environment of this package ---------------------------------------------------------


def make(out: Path) -> None:
    """Write each kind's checkpoint, folder, and what the checkpoint computes."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from helpers.glue_files import write_pretrain_dir
    from helpers.models import write_model
    from tupe_fairseq import TupeRobertaModel
    from tupe_fairseq.cli.main import run

    out.mkdir(parents=True)
    write_pretrain_dir(out / "data")
    for kind, (labels, flags, options) in KINDS.items():
        run_folder = out / kind / "run"
        head = "token_tagging_head" if kind == "tagger" else "mine"
        heads = {head: len(labels)} if labels else {}
        checkpoint = write_model(run_folder, out / "data", heads, max_positions=LENGTH, **options)
        for name in ("dict.txt", "sentencepiece.bpe.model"):
            shutil.copy(out / "data" / name, run_folder)
        (run_folder / "label").mkdir()
        (run_folder / "label" / "dict.txt").write_text("".join(f"{x} 1\n" for x in labels))
        if importlib.util.find_spec("onnxruntime"):
            flags = [*flags, "--onnx"]
        words = [str(checkpoint), "--output-dir", str(out / kind / "folder"), *flags]
        if run("export", words) != 0:
            sys.exit(1)
        hub = TupeRobertaModel.from_pretrained(
            str(run_folder), checkpoint.name, task="masked_lm", tokens_per_sample=LENGTH
        ).eval()
        ids = [hub.encode(text) for text in TEXTS]
        of_head = {"features_only": True, "classification_head_name": head} if labels else {}
        with torch.no_grad():
            logits = [hub.model(x[None], **of_head)[0][0] for x in ids]
        expected = {"texts": TEXTS, "ids": [x.tolist() for x in ids], "logits": logits}
        torch.save(expected, out / kind / "expected.pt")


# ---- In an environment with transformers --------------------------------------------------------


def use(out: Path) -> int:
    """Use every folder; the exit code."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    versions = {
        name: installed(name)
        for name in ("transformers", "torch", "sentence-transformers", "onnxruntime")
    }
    print(", ".join(f"{name} {version or 'missing'}" for name, version in versions.items()))
    failed = 0
    for kind in KINDS:
        folder, expected = str(out / kind / "folder"), torch.load(out / kind / "expected.pt")
        for check in CHECKS:
            try:
                result = check(kind, folder, expected)
            except Exception as error:  # whatever it is, the other checks go on
                failed, result = failed + 1, f"FAILED: {type(error).__name__}: {error}"
            print(f"{kind:11} {check.__name__.replace('_', ' '):22} {result}")
    return min(failed, 1)


def installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def auto_class(kind: str):
    import transformers

    end = {"classifier": "SequenceClassification", "tagger": "TokenClassification"}
    return getattr(transformers, f"AutoModelFor{end.get(kind, 'MaskedLM')}")


def load(kind: str, folder: str, **options):
    return auto_class(kind).from_pretrained(folder, trust_remote_code=True, **options).eval()


def tokenizer_of(folder: str):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


def largest(kind: str, logits, expected) -> str:
    """The largest difference of a padded batch from one text at a time."""
    pairs = zip(logits, expected["logits"])
    parts = [(x if kind == "classifier" else x[: len(y)]) - y for x, y in pairs]
    difference = torch.cat([part.abs().flatten() for part in parts]).max().item()
    assert difference <= LIMIT, f"differs by {difference:.1e}"
    return f"{difference:.1e}"


def same_ids(kind: str, folder: str, expected) -> str:
    ids = tokenizer_of(folder)(expected["texts"])["input_ids"]
    assert ids == expected["ids"], "other ids"
    return f"{sum(map(len, ids))} tokens"


def batch_of(folder: str, expected):
    return tokenizer_of(folder)(expected["texts"], padding=True, return_tensors="pt")


def eager(kind: str, folder: str, expected, **options) -> str:
    model = load(kind, folder, attn_implementation="eager", **options)
    with torch.no_grad():
        return largest(kind, model(**batch_of(folder, expected)).logits, expected)


def sdpa(kind: str, folder: str, expected) -> str:
    model = load(kind, folder, attn_implementation="sdpa")
    with torch.no_grad():
        return largest(kind, model(**batch_of(folder, expected)).logits, expected)


def pipeline(kind: str, folder: str, expected) -> str:
    from transformers import pipeline as make_pipeline

    task = {"classifier": "text-classification", "tagger": "token-classification"}
    pipe = make_pipeline(task.get(kind, "fill-mask"), folder, trust_remote_code=True)
    result = pipe("The cat <mask>." if kind in ("tupe", "roberta") else "The cat sat.")[0]
    label = result.get("label") or result.get("entity") or result["token_str"]
    assert kind in ("tupe", "roberta") or label in LABELS, label
    return repr(label)


def trainer(kind: str, folder: str, expected) -> str:
    """Five steps; what is saved computes the same after loading it."""
    if not installed("accelerate"):
        return "skipped: accelerate is missing"
    from transformers import Trainer, TrainingArguments

    model, rows = load(kind, folder), []
    for ids in expected["ids"]:
        labels = torch.tensor(ids) % 3 if kind == "tagger" else torch.tensor(ids)
        rows.append({"input_ids": ids, "labels": 1 if kind == "classifier" else labels.tolist()})
    before = next(model.parameters()).clone()
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            out, max_steps=5, per_device_train_batch_size=1, use_cpu=True, report_to=[],
            save_strategy="no", disable_tqdm=True, learning_rate=1e-3, logging_strategy="no",
        )  # fmt: skip
        training = Trainer(model, arguments, train_dataset=rows)
        loss = training.train().training_loss
        training.save_model(f"{out}/saved")
        again, batch = load(kind, f"{out}/saved"), batch_of(folder, expected)
        with torch.no_grad():
            assert torch.equal(again(**batch).logits, model.eval()(**batch).logits), "saved"
    assert not torch.equal(before, next(model.parameters())), "nothing was trained"
    return f"loss {loss:.2f}"


def sentence_transformers(kind: str, folder: str, expected) -> str:
    """The mean of the last hidden states, at tokens that are no padding."""
    if not installed("sentence-transformers"):
        return "skipped: missing"
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel

    vectors = SentenceTransformer(folder, trust_remote_code=True, device="cpu").encode(
        expected["texts"], convert_to_tensor=True
    )
    batch = batch_of(folder, expected)
    with torch.no_grad():
        model = AutoModel.from_pretrained(folder, trust_remote_code=True)
        hidden = model.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    difference = (vectors - mean).abs().max().item()
    assert difference <= LIMIT, f"differs by {difference:.1e}"
    return f"{difference:.1e}"


def onnxruntime(kind: str, folder: str, expected) -> str:
    path = Path(
        folder, "onnx", "model.onnx" if kind in ("classifier", "tagger") else "model_masked_lm.onnx"
    )
    if not installed("onnxruntime") or not path.exists():
        return "skipped: missing"
    from onnxruntime import InferenceSession

    session = InferenceSession(path, providers=["CPUExecutionProvider"])
    batch = {name: x.numpy() for name, x in batch_of(folder, expected).items()}
    (logits,) = session.run(["logits"], batch)
    return largest(kind, torch.from_numpy(logits), expected)


CHECKS = (same_ids, eager, sdpa, pipeline, trainer, sentence_transformers, onnxruntime)

if __name__ == "__main__":
    main()
