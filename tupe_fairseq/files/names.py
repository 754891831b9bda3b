"""Names used by several parts: files of a data folder, and fairseq's symbols."""

import re

#: fairseq's dictionary: "symbol count" on each line, without the built-in symbols
DICTIONARY = "dict.txt"
#: the name under which fairseq's hub looks for it next to a checkpoint
SENTENCEPIECE_MODEL = "sentencepiece.bpe.model"
#: the checkpoint that tupe-convert and tupe-extend write
MODEL = "model.pt"
#: the vocabulary of a converted checkpoint: its kind, and the hashes of its files
VOCABULARY = "vocabulary.json"
#: what was read, kept and dropped, and how the text was treated
REPORT = "report.json"

#: what new rows of a longer table of positions are made of
TABLE_METHODS = ("interpolate", "tile", "zero")

#: how one vector is made of a text: the mean of its tokens, or the first one
MEAN, CLS = POOLING_NAMES = ("mean", "cls")

#: the first ids of every dictionary of fairseq's, which dict.txt does not list
BUILT_IN_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
#: masked_lm and sentence_prediction add it at the end, if dict.txt does not list it
MASK = "<mask>"
#: with these fairseq-preprocess fills a dict.txt up to a multiple of eight words
FILLER = re.compile(r"madeupword\d+")
