"""Every public function refuses what is no argument at all in a sentence, without a traceback."""

import importlib
import inspect
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError

MODULES = ("", ".data", ".dynamics", ".models", ".rollout", ".training", ".plotting", ".compiled")
# they take any object
OF_ANYTHING = {"argument", "register"}
JUNK = {
    "None": None,
    "a negative number": -1.5,
    "a text": "x",
    "an object": object(),
    "a list": [1, "a"],
    "an array of no such shape": np.zeros((2, 3, 4, 5)),
    "complex numbers": np.full((2, 2), 1j),
    "numbers that are none": np.full((2, 2), np.nan),
    "a complex number": 1j,
    "a huge number": 10**400,
    "an array of objects": np.array([None, "a"], dtype=object),
    "a path that does not exist": Path("nowhere") / "none.h5",
    "a function": lambda *arguments: None,
    "a network": torch.nn.Linear(3, 5),
}


# what a function of the caller's raises is the caller's to see
CALLED = {("make", "a network")}  # it is meant, and takes minutes
CALLED |= {("source", "a text"), ("folder", "a text")}  # C++ with a mistake; a new folder


def public_functions():
    """Every function that a public module offers, each once."""
    found = {}
    for suffix in MODULES:
        module = importlib.import_module(f"vpintegrator{suffix}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) and name not in OF_ANYTHING:
                found.setdefault(value, f"vp{suffix}.{name}")
    return {name: function for function, name in found.items()}


FUNCTIONS = public_functions() | {"vp.System": vp.System}


@pytest.fixture(scope="module")
def plausible(tmp_path_factory):
    """Values of arguments by their names, as they are meant."""
    folder = tmp_path_factory.mktemp("public")
    pendulum = vp.load_system("pendulum")
    dataset = vp.generate("pendulum", folder / "data.h5", count=6, steps=6)
    model = vp.models.ResidualNetwork(dim=2, depth=1, width=2)
    vp.save(model, folder / "model.safetensors")
    report = vp.compare(None, "rk4", system=pendulum, steps=4, trajectories=2)
    report.save(folder / "rollout.h5")
    return {
        "path": folder / "new.h5",
        "folder": folder / "figures",
        "system": pendulum,
        "map": vp.classical("rk4", pendulum, 0.1),
        "model": model,
        "dataset": dataset,
        "report": report,
        "method": "rk4",
        "initial": np.zeros((2, 2)),
        "states": np.zeros((2, 5, 2)),
        "step": 0.1,
        "steps": 2,
        "times": np.linspace(0, 1, 3),
        "seconds": 1.0,
        "section": "q = 0",
        "window": 1,
        "dim": 2,
        "against": "rk4",
        "after": np.zeros((9, 2)),
        "source": "pendulum",
    }


def calls(function, place, junk, plausible):
    """The function with junk as one of its arguments, others as they are meant."""
    given, more = [], {}
    for number, parameter in enumerate(required(function)):
        value = plausible.get(parameter.name, plausible["states"])
        value = junk if number == place else value
        if parameter.kind is parameter.KEYWORD_ONLY:
            more[parameter.name] = value
        else:
            given.append(value)
    return function(*given, **more)


def required(function):
    """Its parameters without a default, and the first in any case."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    own = [p for p in inspect.signature(function).parameters.values() if p.kind not in kinds]
    return [p for k, p in enumerate(own) if k == 0 or p.default is p.empty]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_no_public_function_shows_a_traceback(name, plausible, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, wrong = FUNCTIONS[name], {}
    for place, parameter in enumerate(required(function)):
        for kind, junk in JUNK.items():
            begin = time.perf_counter()
            try:
                if (parameter.name, kind) not in CALLED:
                    calls(function, place, junk, plausible)
            except (InputError, TypeError) as error:
                assert str(error).strip() and "\n" not in str(error), kind
            except Exception as error:
                wrong[f"{parameter.name} = {kind}"] = f"{type(error).__name__}: {str(error)[:100]}"
            if (seconds := time.perf_counter() - begin) > 5:  # a second on a machine at rest
                wrong[f"{parameter.name} = {kind}"] = f"it takes {seconds:.1f} s"
    assert not wrong, "\n".join(f"{kind}: {error}" for kind, error in wrong.items())
