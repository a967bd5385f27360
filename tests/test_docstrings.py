"""Examples in docstrings give what they say, and every public function and class has one."""

import doctest
import importlib
import inspect
import pkgutil
from dataclasses import is_dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import vpintegrator as vp

FACES = (
    "compiled",
    "data",
    "dynamics",
    "models",
    "nn",
    "plotting",
    "rollout",
    "rollout.diagnostics",
    "training",
)
MODULES = [module.name for module in pkgutil.walk_packages(vp.__path__, "vpintegrator.")]


def examples_of(name):
    module = importlib.import_module(name)
    names = {**vars(module), "vp": vp, "torch": torch, "np": np}
    return doctest.DocTestFinder(exclude_empty=True).find(module, globs=names)


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said = []
    for test in examples_of(name):
        torch.manual_seed(0)
        runner.run(test, out=said.append)
    assert not runner.summarize(verbose=False).failed, "".join(said)


def needs_example(thing):
    """Whether it is called by users: results, bases and errors are not."""
    if inspect.isclass(thing):
        result = is_dataclass(thing) or issubclass(thing, SimpleNamespace)
        return not (result or inspect.isabstract(thing) or issubclass(thing, Exception))
    return inspect.isfunction(thing)


@pytest.mark.parametrize("face", FACES)
def test_what_users_call_has_an_example(face):
    module = importlib.import_module(f"vpintegrator.{face}")
    things = {name: getattr(module, name) for name in module.__all__}
    assert things
    lacking = [n for n, t in things.items() if needs_example(t) and ">>>" not in (t.__doc__ or "")]
    assert not lacking
