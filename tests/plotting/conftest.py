"""Reports of real rollouts, small enough to be made anew."""

import functools

import numpy as np
import pytest
import torch

from tests.rollout.systems import system
from vpintegrator import models
from vpintegrator.dynamics import System, load_system
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.rollout import compare


def only(monkeypatch, *names):
    """Draw these figures alone."""
    for name in set(FIGURES) - set(names):
        monkeypatch.delitem(FIGURES, name)


def captions(scene, names=tuple(FIGURES)):
    """Of the figures that apply."""
    figures = [FIGURES[name](scene) for name in names]
    return {figure.name: figure.caption() for figure in figures if figure.applies()}


def untrained(dim, step, system):
    torch.manual_seed(0)
    model = models.VolumePreservingTransformer(dim=dim, window=3, width=4)
    model.origin = models.Origin(System(system, "test"), step)
    return model


@pytest.fixture(scope="session")
def body():
    """Orbits on a sphere, a learned window model, two invariants."""
    model = untrained(3, 0.2, load_system("rigid-body").text)
    against = ["implicit-midpoint", "rk4"]
    return compare({"net": model}, against, steps=60, trajectories=3, compiled=False)


@pytest.fixture(scope="session")
def oscillators():
    """Four dimensions, a Poincare section; explicit Euler diverges, and the step is too long."""
    methods = ["explicit-euler", "stoermer-verlet", "rk4"]
    return compare(None, methods, system="coupled-oscillators", steps=620, step=2.5, trajectories=4)


@pytest.fixture(scope="session")
def thinned():
    """States stored far apart, a reference that ends early, work and precision."""
    return compare(
        None,
        ["stoermer-verlet", "rk4"],
        system="pendulum",
        steps=600,
        every=20,
        trajectories=2,
        reference_time=60.0,
        work_precision=True,
    )


@pytest.fixture(scope="session")
def flow():
    """Three dimensions and no sphere."""
    initial = np.random.default_rng(0).uniform(-1, 1, (2, 3))
    abc = system("abc-flow")
    return compare(None, ["rk4"], system=abc, initial=initial, step=0.1, steps=40)


METHODS = [
    *("rk4", "implicit-midpoint", "explicit-euler", "heun", "dormand-prince-8", "yoshida-4"),
    *("gauss-legendre-4", "gauss-legendre-6", "explicit-midpoint", "yoshida-6"),
    *("blanes-moan-4", "blanes-moan-6"),
]


@pytest.fixture(scope="session")
def twelve():
    """Twelve methods on a sphere, in planes with a section, in space, by name."""

    @functools.cache
    def make(name):
        systems = {"sphere": "rigid-body", "plane": "henon-heiles", "space": "abc-flow"}
        cost = name == "sphere"
        size = {"step": 0.4, "steps": 100, "trajectories": 3, "work_precision": cost}
        return compare(None, METHODS, system=systems[name], **size)

    return make
