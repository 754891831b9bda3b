"""For pip before 21.3, which installs a clone in editable mode (-e) only with this file."""

from setuptools import setup

setup()
