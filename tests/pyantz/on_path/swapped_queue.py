"""Puts another class in the place of pyantz's SqliteQueue, in every process that imports it.

pyantz's modules take the class out of one package by ``from … import``, and its workers import
all of it anew; so the class is exchanged right after that package was run, before anybody has
taken it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

VARIABLE = "PYANTZ_QUEUE_CLASS"
"""``module:Class`` of the class to use; unset, pyantz has its own."""
PACKAGE = "pyantz.infrastructure.distributed_queue.sql"


class Swap:
    """Finds that one package, as the path does, and adds a step to its loading."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What Python asks each entry of ``sys.meta_path``."""
        if name != PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_swap(module: ModuleType) -> None:
            run(module)
            module.SqliteQueue = _named_class()

        spec.loader.exec_module = run_and_swap
        return spec


def _named_class() -> type:
    module, _, name = os.environ[VARIABLE].partition(":")
    return getattr(import_module(module), name)


def install() -> None:
    """Do nothing where no class is named."""
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, Swap())
