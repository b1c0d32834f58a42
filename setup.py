"""Lay the packages out; everything else is in pyproject.toml.

The codemods lie beside the package in a checkout and inside it once installed: `codemods` never becomes a
top-level package, which would break users who have a folder of that name. pyproject.toml can only list
packages one by one, and a forgotten one is a wheel that lacks it.
"""

from setuptools import find_packages, setup

FOLDERS = {"speedpatch": "speedpatch", "speedpatch.codemods": "codemods"}

setup(
    package_dir=FOLDERS,
    packages=[
        *FOLDERS,
        *(f"{package}.{name}" for package, folder in FOLDERS.items() for name in find_packages(folder)),
    ],
)
