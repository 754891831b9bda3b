from setuptools import find_packages, setup

BENCH = ["matplotlib", "rich"]

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
        # triton for its interpreter, which proves the GPU's kernels without a GPU
        "test": [
            "pytest",
            "pytest-xdist",
            "ruff==0.17.5",
            *BENCH,
            "triton>=3.7; python_version >= '3.11' and sys_platform == 'linux'",
        ],
    },
    entry_points={
        "console_scripts": [
            "tupe-convert=tupe_fairseq.commands.convert:main",
            "tupe-finetune=tupe_fairseq.commands.finetune:main",
            "tupe-prepare-glue=tupe_fairseq.commands.prepare_glue:main",
            "tupe-prepare-pretrain=tupe_fairseq.commands.prepare_pretrain:main",
        ]
    },
)
