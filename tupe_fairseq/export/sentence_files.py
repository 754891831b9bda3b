"""The files by which sentence-transformers, and embedding servers, know a folder's pooling.

In the form of its version 2, which version 6 reads, too, and which servers look for.
"""

from typing import Any

from tupe_fairseq.files.names import CLS, MEAN

#: what --pooling may be -> its switch in 1_Pooling/config.json
POOLINGS = {MEAN: "pooling_mode_mean_tokens", CLS: "pooling_mode_cls_token"}
_OTHER_SWITCHES = ("pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens")
_MODULES = "sentence_transformers.models"


def sentence_files(pooling: str, hidden_size: int, max_length: int) -> dict[str, Any]:
    """The content of each file, as JSON values, by its path in the folder.

    Args:
        pooling (str): one of :data:`POOLINGS`: the mean of the tokens, or the first one.
        hidden_size (int): the width of the model.
        max_length (int): the longest sequence; longer ones are cut.
    """
    switches = dict.fromkeys((*POOLINGS.values(), *_OTHER_SWITCHES), False)
    return {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{_MODULES}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{_MODULES}.Pooling"},
        ],
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden_size,
            **switches,
            POOLINGS[pooling]: True,
            "include_prompt": True,
        },
    }
