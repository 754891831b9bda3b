"""Prints what the quickstart's model has learned, where it is, and what to try next."""

import argparse
import logging
import os
import re

import torch

SENTENCES = [
    "Returns <mask> if the value is a number, False otherwise.",
    "The file must <mask> opened in binary mode.",
    "Raises an <mask> if the file does not exist.",
]

NEXT = """\
Fill in a sentence of your own:

  python - <<'END'
  from tupe_fairseq import TupeRobertaModel
  tupe = TupeRobertaModel.from_pretrained("{folder}")
  print(tupe.eval().fill_mask("Return the number <mask> bytes in the buffer."))
  END

Draw its position terms and attention:

  tupe-plot {folder} --data {data} --output-dir figures

Variants of the training: give the fairseq-train command above another --save-dir, and
  leave out --rel-pos                         TUPE-A: absolute positions only
  replace it by --position-encoding learned   BERT's positions, as in stock RoBERTa
  add --arch tupe_roberta_mini                4 layers, 256 wide
All flags of the model: tupe-options.  Fine-tuning, your own text, the base size: README.md"""


def logged_perplexity(path):
    """The perplexity that fairseq-validate printed.

    Raises:
        ValueError: if the log has none.
    """
    with open(path, encoding="utf-8") as file:
        found = re.findall(r"\| ppl ([0-9.e+]+|inf|nan)", file.read())
    if not found:
        raise ValueError(f"{path} has no 'ppl' of fairseq-validate; remove it and run again")
    return float(found[-1])


def unigram_perplexity(task):
    """Perplexity of the token frequencies of train, on the masked tokens of valid.

    These are the tokens that fairseq-validate lets the model predict, <s> and </s> included.
    One is added to each count, for tokens that do not occur in train.
    """
    counts = torch.ones(len(task.source_dictionary), dtype=torch.double)
    for tokens in task._load_dataset_split("train", epoch=1, combine=False):  # not masked
        counts += torch.bincount(tokens, minlength=len(counts))
    task.load_dataset("valid")
    dataset = task.datasets["valid"]
    dataset.set_epoch(1)  # the masks depend on it; fairseq-validate uses 1
    targets = [dataset[i]["target"] for i in range(len(dataset))]
    masked = torch.cat([target[target.ne(task.source_dictionary.pad())] for target in targets])
    bits = -(counts / counts.sum()).log2()
    return 2 ** bits[masked].mean().item(), len(masked)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir", metavar="DIR", help="folder that quickstart.sh wrote")
    args = parser.parse_args()
    logging.disable(logging.INFO)  # fairseq logs a lot, even on import
    from tupe_fairseq import TupeRobertaModel

    trained = logged_perplexity(os.path.join(args.run_dir, "validate.log"))
    folder = os.path.join(args.run_dir, "checkpoints")
    tupe = TupeRobertaModel.from_pretrained(folder, "checkpoint_best.pt")
    tupe.eval()
    tupe.task.cfg.data = data = os.path.join(args.run_dir, "data-bin")
    unigram, num_masked = unigram_perplexity(tupe.task)

    print(f"\nvalidation perplexity, over the same {num_masked:,} masked tokens")
    print(f"  token frequencies alone {unigram:9.2f}")
    print(f"  this model              {trained:9.2f}")
    print("\nthe five likeliest fills")
    for sentence in SENTENCES:
        # a few more, because some are not text: fairseq leaves out </s>
        fills = [token.strip() for _, _, token in tupe.fill_mask(sentence, topk=8)]
        fills = [token for token in fills if token][:5]
        print(f"  {sentence}\n      {', '.join(fills)}")
    print(f"\ncheckpoint: {os.path.join(folder, 'checkpoint_best.pt')}, with its dictionary")
    print("and SentencePiece model in the same folder\n")
    print(NEXT.format(folder=folder, data=data))


if __name__ == "__main__":
    main()
