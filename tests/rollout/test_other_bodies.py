"""A trained model for another number of bodies; anything else that parameters change is refused."""

import json

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.dynamics.training_domain import Domain

SPRINGS = """
state = {q = "2*len(m)", p = "2*len(m)"}
hamiltonian = \"\"\"
sum((p[2*j]**2 + p[2*j + 1]**2)/(2*m[j]) for j in range(len(m)))
+ k*sum((q[2*j] - q[2*l])**2 + (q[2*j + 1] - q[2*l + 1])**2
for j in range(len(m)) for l in range(j))\"\"\"
[parameters]
m = [1, 1, 1]
k = 2
[[symmetry]]
translate = ["q"]
dimension = 2
[[symmetry]]
permute = ["q", "p"]
like = "m"
dimension = 2
"""


def trained(source, name="spff", **parameters):
    """A model that says it was trained on some states of a system."""
    system = vp.load_system(source, **parameters)
    model = vp.models.build(system, name, depth=1)
    states = np.random.default_rng(0).uniform(-1, 1, (20, system.dim))
    model.metadata |= {
        "system": system.text,
        "parameters": json.dumps(system.definitions),
        "region": Domain.of_states(states, system).text,
        "step": "0.1",
    }
    return model


@pytest.mark.parametrize(
    ("source", "parameters", "given", "count"),
    [
        ("toda", {"n": 5}, {"n": 64}, 64),
        ("toda", {"n": 3}, {"n": 5}, 5),
        ("fput", {"n": 9}, {"n": 4}, 4),
        ("lennard-jones-chain", {"n": 6}, {"n": 20}, 20),
        (SPRINGS, {}, {"m": [1, 1, 1, 1, 1]}, 5),
        (SPRINGS, {}, {"m": [1, 1], "k": "4/2"}, 2),
    ],
)
def test_another_number_of_bodies(source, parameters, given, count):
    model = trained(source, **parameters)
    other = vp.rollout.with_parameters(model, **given)
    system = vp.load_system(source, **parameters | given)
    assert other.dim == system.dim and other.bodies == count
    for own, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(own, theirs, rtol=0, atol=0)
    assert json.loads(other.metadata["parameters"]) == system.definitions
    # bounds of any body are those of all in the training, without positions that may drift
    region = Domain.from_text(other.metadata["region"], "region")
    assert not region.invariants
    seen = np.array([*Domain.from_text(model.metadata["region"], "region").components.values()])
    moving = region.components.keys() >= {"q[0]"}
    assert moving != system.bodies.translations
    assert {*region.components} <= {*system.components}
    assert region.bounds.min() >= seen.min() and region.bounds.max() <= seen.max()


def test_parameters_that_stay_leave_the_model():
    model = trained("toda", n=4)
    assert vp.rollout.with_parameters(model, n="8/2") is model


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        ("fput", {"alpha": 0.5}, "trained with alpha = 0.25, and alpha = 0.5 would not change the"),
        ("fput", {"n": 32, "alpha": 0.5}, "more than the number of bodies: the force on one by"),
        ("linear-wave", {"n": 64}, "trained with n = 31, and n = 64 would change more than"),
        (SPRINGS, {"m": [2, 2]}, "trained with m = 1, 1, 1, and m = 2, 2 would change more than"),
        (SPRINGS, {"m": [1, 1], "k": 1}, "would change more than the number of bodies"),
        (SPRINGS, {"m": [1, 1, 2]}, "m = 1, 1, 2 would not change the number of bodies"),
        ("pendulum", {"g": 2}, "trained with g = 1, and g = 2 would not change the number of"),
        ("toda", {"no": 2}, "has no parameter 'no'"),
    ],
)
def test_parameters_that_change_more_are_refused(source, given, message):
    with pytest.raises(vp.InputError, match=message):
        vp.rollout.with_parameters(trained(source), **given)


def test_models_that_know_no_bodies():
    with pytest.raises(vp.InputError, match="weights of this vpff are of a state as a whole"):
        vp.rollout.with_parameters(trained("toda", "vpff", n=4), n=8)
    with pytest.raises(vp.InputError, match="with_parameters changes the number of bodies"):
        vp.compare(trained("toda", n=4), system=vp.load_system("toda", n=5), steps=2)
    with pytest.raises(vp.InputError, match="does not say which system it was trained on"):
        vp.rollout.with_parameters(vp.models.SymplecticFeedForward(dim=4), n=8)


def test_a_comparison_at_another_number_of_bodies():
    model = vp.rollout.with_parameters(trained("toda", n=4), n=10)
    report = vp.compare(model, "stoermer-verlet", steps=5, trajectories=2, compiled=False)
    assert report.system.bodies.count == 10
    assert report.runs["spff"].states.shape == (2, 6, 20)
    momentum = report.system.invariants["momentum"](report.runs["spff"].states)
    np.testing.assert_allclose(momentum, momentum[:, :1] * np.ones(6), atol=1e-13)
