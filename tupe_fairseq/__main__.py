"""python -m tupe_fairseq finetune ... does what tupe-finetune does."""

from tupe_fairseq.cli.main import main

main()
