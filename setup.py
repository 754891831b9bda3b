from setuptools import find_packages, setup

BENCH = ["rich"]

with open("README.md", encoding="utf-8") as readme:
    long_description = readme.read()

setup(
    name="tupe_fairseq",
    version="0.1.0",
    description="TUPE (Transformer with Untied Positional Encoding) as a fairseq plugin",
    long_description=long_description,
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.8",
    packages=find_packages(include=["tupe_fairseq", "tupe_fairseq.*"]),
    install_requires=[
        "torch>=1.13",
        "numpy",
        "sentencepiece",
        "tqdm",
        # tupe-compare, tupe-plot, and the pictures in TensorBoard
        "matplotlib>=3.7",
        # metrics and sentence splitting of the data and GLUE commands
        "scikit-learn",
        "scipy",
        "sentence-splitter",
    ],
    extras_require={
        # An extra, because a second fairseq on top of one's own build breaks both.
        "fairseq": [
            "fairseq==0.12.2; python_version < '3.11'",
            "numpy<1.24; python_version < '3.11'",
            "ve-fairseq==0.12.3; python_version >= '3.11'",
        ],
        # for scripts/benchmark.py and scripts/words_per_second.py
        "bench": BENCH,
        # triton for its interpreter, which proves the GPU's kernels without a GPU; transformers
        # for its rotary, ALiBi and T5 positions, which ours must equal
        "test": [
            "pytest",
            "pytest-xdist",
            "ruff==0.17.5",
            "transformers",
            *BENCH,
            "tensorboard",
            "triton>=3.7; python_version >= '3.11' and sys_platform == 'linux'",
        ],
    },
    entry_points={
        "console_scripts": [
            "tupe-compare=tupe_fairseq.commands.compare:main",
            "tupe-convert=tupe_fairseq.commands.convert:main",
            "tupe-finetune=tupe_fairseq.commands.finetune:main",
            "tupe-plot=tupe_fairseq.commands.plot:main",
            "tupe-prepare-glue=tupe_fairseq.commands.prepare_glue:main",
            "tupe-prepare-pretrain=tupe_fairseq.commands.prepare_pretrain:main",
        ]
    },
)
