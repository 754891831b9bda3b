"""tupe-compare's flags."""

import argparse

from tupe_fairseq.command_flags.checked_compare import check as check
from tupe_fairseq.command_flags.config_flag import add_config_flag
from tupe_fairseq.compare.parse_schemes import FLAGS
from tupe_fairseq.options import POSITION_ENCODINGS


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-compare",
        description="Pre-train a tupe_roberta with each position encoding and seed, everything "
        "else equal, and write OUT/results.md (validation loss and its difference to the "
        "baseline's, with 95% intervals over the seeds, the updates to the baseline's final loss, "
        "parameters, speed and memory, for each model size; and what --pairs, --tasks and --claims "
        "ask for), OUT/results.json and figures. Each run is a plain fairseq-train "
        "command, which is printed. Finished runs are not repeated, an interrupted one resumes "
        "from its last validation, and schemes, sizes and seeds can be added later.",
        epilog="example: tupe-compare data-bin --output-dir comparison --schemes "
        '"learned; learned --rel-pos; tupe; tupe --rel-pos" --arch tupe_roberta_tiny --seeds 1,2 '
        "--updates 2000 --cpu",
    )
    add = parser.add_argument
    add(
        "data",
        metavar="DATA",
        help="folder made by tupe-prepare-pretrain or fairseq-preprocess; shards separated "
        "by colons",
    )
    add_config_flag(
        parser,
        {
            "data": ":",
            "schemes": "; ",
            "seeds": ",",
            "arch": ",",
            "tune-lrs": ",",
            "gpus": ",",
            "tasks": ",",
            "poolings": ",",
            "claims": "; ",
        },  # fmt: skip
    )
    add("--output-dir", required=True, metavar="OUT", help="folder for runs and results")
    add(
        "--schemes",
        required=True,
        metavar="LIST",
        help="position encodings separated by semicolons, each followed by its own flags "
        f"({', '.join(flag + ' N' * number for flag, number in FLAGS.items())}) and, if it has "
        "seeds of its own, by @ and these: 'tupe --rel-pos @1,2,3; alibi @1'; names: "
        f"{', '.join(POSITION_ENCODINGS)}",
    )
    add("--updates", type=int, metavar="N", help="number of updates of each run")
    add(
        "--tokens",
        type=_whole,
        metavar="N",
        help="in place of --updates: tokens of each run, such as 2e7; an update has --batch-size x "
        "--tokens-per-sample of them, times the --update-freq of --train-flags",
    )
    add(
        "--seconds",
        type=float,
        metavar="S",
        help="in place of --updates: training time of each run, without start, validation and "
        "saving; a short run of each scheme tells how many updates these are; 5%% of them are "
        "warm-up, and a validation follows each 5%%",
    )
    add(
        "--seeds",
        default="1,2",
        metavar="LIST",
        help="fairseq's seeds, for schemes without @; default %(default)s",
    )
    add(
        "--baseline",
        metavar="SCHEME",
        help="the scheme that the others are compared with; default: learned, or the "
        "first scheme if learned is not listed",
    )
    add = parser.add_argument_group("training settings, the same for all runs").add_argument
    add(
        "--arch",
        default="tupe_roberta_tiny",
        metavar="LIST",
        help="model sizes, such as tupe_roberta_tiny,tupe_roberta_mini; each gets its own "
        "comparison; default %(default)s; for other sizes use --train-flags",
    )
    add(
        "--batch-size",
        type=int,
        default=16,
        metavar="N",
        help="samples per update; default %(default)s",
    )
    add("--tokens-per-sample", type=int, default=128, metavar="N", help="default %(default)s")
    add(
        "--lr",
        type=float,
        metavar="RATE",
        help="peak learning rate; default 0.001",
    )
    add(
        "--tune-lrs",
        metavar="LIST",
        help="in place of --lr: peak learning rates such as 5e-4,1e-3,2e-3; each scheme of each "
        "size takes the one with the lowest final validation loss in short runs, which have its "
        "first seed and a whole schedule",
    )
    add(
        "--tune-updates",
        type=int,
        metavar="N",
        help="updates of each of these runs; default: a tenth of --updates",
    )
    add("--warmup-updates", type=int, metavar="N", help="default: 5%% of --updates")
    add(
        "--validate-every",
        type=int,
        metavar="N",
        help="updates between validations, which also save the checkpoint to resume from; "
        "default: 5%% of --updates",
    )
    add(
        "--train-flags",
        default="",
        metavar="FLAGS",
        help="further fairseq-train flags, quoted as one argument: --train-flags='--encoder-layers "
        "3 --dropout 0'",
    )
    add = parser.add_argument_group("what else is read out of each trained model").add_argument
    add(
        "--pairs",
        metavar="PATH",
        help="minimal pairs, such as BLiMP's: a file, folder or archive for tupe-score --pairs",
    )
    add("--pairs-per-file", type=int, metavar="N", help="the first N of each file; default: all")
    add(
        "--tasks",
        metavar="LIST",
        help="folders of tupe-prepare-glue or tupe-prepare-task, made with the vocabulary of DATA, "
        "separated by commas; the model is fine-tuned on each by tupe-finetune, and the score is "
        "the mean over the fine-tuning seeds at the best of the rates",
    )
    add(
        "--poolings",
        metavar="LIST",
        help="with what the heads are fed, each in turn: cls, mean, or cls,mean; default cls",
    )
    add(
        "--finetune-flags",
        metavar="FLAGS",
        help="further flags of tupe-finetune, quoted as one argument: --finetune-flags='--lrs 1e-4 "
        "--seeds 1,2 --epochs 3'",
    )
    add(
        "--claims",
        metavar="LIST",
        help="what the results are to say, separated by semicolons, each 'SCHEME over SCHEME: "
        "READOUT by AMOUNT', with the difference that would count: 'tupe over learned: loss by "
        "0.05; alibi --untie-cls over alibi: CoLA,RTE/cls by 2'; readouts: loss (bits), updates "
        "(the share that is saved until the other's final loss), pairs (points), TASK/POOLING "
        "(points), of several tasks the mean, and 'A - B'",
    )
    add = parser.add_argument_group("machine").add_argument
    add("--cpu", action="store_true", help="train on the CPU")
    add("--fp16", action="store_true", help="mixed precision, on GPUs")
    add(
        "--gpus",
        metavar="LIST",
        help="GPU numbers, such as 0,1; each run uses one; default 0",
    )
    add(
        "--parallel",
        type=int,
        metavar="N",
        help="number of concurrent runs; speed and memory are then marked as measured "
        "concurrently; default: one per GPU, 1 on the CPU",
    )
    add(
        "--threads",
        type=int,
        metavar="N",
        help="CPU threads of each run; default: OMP_NUM_THREADS, or the cores divided "
        "by --parallel",
    )
    add(
        "--keep-checkpoints",
        action="store_true",
        help="keep checkpoint_last.pt of the runs that finish in this call (for tupe-plot); "
        "default: only of unfinished runs",
    )
    add(
        "--stop-after",
        type=float,
        metavar="MINUTES",
        help="end this call at most so long after it has read its flags, with exit code 75 if runs "
        "are left; those that run then save where they are, and the same command goes on there",
    )
    add(
        "--dry-run",
        action="store_true",
        help="check everything and print the commands, without running them",
    )
    return parser


def _whole(text: str) -> int:
    """A whole number, which may be written as 2e7."""
    try:
        number = float(text)
        if number.is_integer():
            return int(text) if text.isdigit() else int(number)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number such as 20000000 or 2e7")
