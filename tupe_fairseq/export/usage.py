"""How a folder is used, as the section of a model card."""

from typing import Any

from tupe_fairseq.export.folder_config import Head
from tupe_fairseq.export.model_types import MODEL_TYPE

_CODE = """\
**The folder holds Python code** (`modeling_tupe.py`), which `trust_remote_code=True` runs: read it
first, and if you load it by name from a model hub, pin the commit that you have read with
`revision="..."`."""
_FILL_MASK = """\
## Use with transformers

```python
from transformers import pipeline

fill_mask = pipeline("fill-mask", "{name}"{trust})
print(fill_mask(f"The {{fill_mask.tokenizer.mask_token}} sat on the mat."))
```

`AutoModel` and `AutoModelForMaskedLM` load it, too, and, with a new head to train,
`AutoModelForSequenceClassification`, `AutoModelForTokenClassification` and
`AutoModelForQuestionAnswering`{given}."""
_CLASSIFY = """\
## Use with transformers

```python
from transformers import pipeline

classify = pipeline("text-classification", "{name}"{trust})
print(classify("The cat sat on the mat."))
print(classify({{"text": "A first sentence.", "text_pair": "And a second one."}}))
```"""
_TAG = """\
## Use with transformers

```python
from transformers import pipeline

tag = pipeline("token-classification", "{name}"{trust})
print(tag("The cat sat on the mat."))
```

It was trained on the first token of each word; what it says of the others counts for nothing."""
_PIPELINES = {
    "fill-mask": _FILL_MASK,
    "text-classification": _CLASSIFY,
    "token-classification": _TAG,
}
_SENTENCES = """\
## Use with sentence-transformers

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}"{trust})
print(model.encode(["The cat sat on the mat.", "A dog barked."]).shape)
```

It has not been trained to make vectors of sentences: train it so before you compare them."""
_ONNX = """\
## Use with onnxruntime

```python
import onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
session = onnxruntime.InferenceSession("{name}/{file}")
batch = tokenizer(["The cat sat on the mat.", "Yes."], padding=True, return_tensors="np")
names = [one.name for one in session.get_inputs()]
found = session.run(None, {{name: batch[name].astype("int64") for name in names}})
print({{output.name: value.shape for output, value in zip(session.get_outputs(), found)}})
```

Files: {files}."""


def pipeline_of(head: Head | None) -> str:
    """The name of transformers' pipeline for a folder with this head, or with none."""
    if head is None:
        return "fill-mask"
    return "token-classification" if head.of_tokens else "text-classification"


def usage(name: str, config: dict[str, Any], head: Head | None, onnx: list[str]) -> str:
    """The section.

    Args:
        name (str): of the folder.
        config (dict): of config.json.
        head (Head, optional): its classification head.
        onnx (list of str): the files for onnxruntime, if any.
    """
    is_ours = config["model_type"] == MODEL_TYPE
    trust = ", trust_remote_code=True" if is_ours else ""
    given = " (with `trust_remote_code=True`)" if is_ours else ""
    parts = [_CODE] if is_ours else []
    parts += [_PIPELINES[pipeline_of(head)], _SENTENCES, *([_ONNX] if onnx else [])]
    words = {
        "name": name,
        "trust": trust,
        "given": given,
        "file": next(iter(onnx), ""),
        "files": ", ".join(f"`{one}`" for one in onnx),
    }
    return "\n\n".join(part.format(**words) for part in parts)
