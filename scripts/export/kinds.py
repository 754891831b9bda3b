"""The kinds of models whose exported folders are tried, each small enough for a CPU."""

SIZE = [
    "--encoder-layers", 2, "--encoder-embed-dim", 48, "--encoder-ffn-embed-dim", 96,
    "--encoder-attention-heads", 4, "--max-positions", 128,
]  # fmt: skip

# name -> the flags of fairseq-train
PRETRAINED = {
    "tupe-a": [],
    "tupe-r": ["--rel-pos"],
    "tupe-r-tied": ["--rel-pos", "--tie-cls"],
    "tupe-r-pre-ln": ["--rel-pos", "--encoder-normalize-before"],
    "tupe-r-buckets": ["--rel-pos", "--rel-pos-buckets", 8, "--max-rel-pos", 20],
    "tupe-r-untied-words": ["--rel-pos", "--untie-weights-roberta"],
    "tupe-r-relu": ["--rel-pos", "--activation-fn", "relu"],
    "learned": ["--position-encoding", "learned"],
    "learned-pre-ln": ["--position-encoding", "learned", "--encoder-normalize-before"],
    "learned-r": [
        "--position-encoding", "learned", "--rel-pos", "--untie-cls", "--position-each-layer",
    ],
    "sinusoidal": ["--position-encoding", "sinusoidal", "--position-each-layer"],
    "sinusoidal-r": ["--position-encoding", "sinusoidal", "--rel-pos", "--untie-cls"],
    "none": ["--position-encoding", "none"],
    "none-r": ["--position-encoding", "none", "--rel-pos", "--rel-pos-buckets", 16],
    "transformer-xl": ["--position-encoding", "transformer-xl"],
    "enformer": ["--position-encoding", "enformer"],
    "enformer-symmetric": ["--position-encoding", "enformer", "--symmetric-basis"],
    "rope": ["--position-encoding", "rope"],
    "rope-pre-ln": ["--position-encoding", "rope", "--encoder-normalize-before"],
    "alibi": ["--position-encoding", "alibi"],
    "alibi-untied": ["--position-encoding", "alibi", "--untie-cls"],
    "shaw": ["--position-encoding", "shaw", "--max-rel-pos", 5],
    "disentangled": ["--position-encoding", "disentangled"],
    "disentangled-r": ["--position-encoding", "disentangled", "--rel-pos", "--untie-cls"],
}  # fmt: skip

# name -> the GLUE task on which tupe-r is fine-tuned
FINE_TUNED = {"cola": "CoLA", "sts-b": "STS-B"}

# name -> the TUPE authors' checkpoint
CONVERTED = {
    "authors-tupe-a": "tupe_a",
    "authors-tupe-r-long": "tupe_r_long",
    "authors-tupe-r-finetuned": "tupe_r_finetuned",
}

# also written as the library's own RoBERTa: name -> the kind
AS_ROBERTA = {"learned-as-roberta": "learned"}

QUICK = ["tupe-r", "tupe-r-pre-ln", "disentangled-r"]
