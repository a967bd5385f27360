"""Models of one step and one set of parameters out of a family: the same map, and a plain model."""

import json
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models.family import MEMBER, OutsideTraining

SIZES = {"functions": "polynomial", "degree": 3, "depth": 2}
# system, model, what varies, arguments
CASES = {
    "vpff": ("rigid-body", "vpff", {"step": [0.01, 0.4], "I1": [1.6, 2.4]}, SIZES),
    "to and fro": ("rigid-body", "vpff", {"I1": [1.6, 2.4]}, SIZES | {"sweep": "symmetric"}),
    "not reversible": ("abc-flow", "vpff", {"step": [0.01, 0.2], "A": [0.5, 1.5]}, SIZES),
    "spff": ("henon-heiles", "spff", {"step": [0.01, 0.2]}, SIZES),
    "angles": ("pendulum", "spff", {"step": [0.01, 0.2], "g": [0.5, 2.0]}, SIZES),
    "neurons": ("rigid-body", "vpff", {"step": [0.01, 0.2]}, {"width": 4, "depth": 1}),
    "symplectic neurons": (
        "pendulum",
        "spff",
        {"step": [0.01, 0.2], "g": [0.5, 2.0]},
        {"width": 4},
    ),
    "no structure": ("rigid-body", "resnet", {"step": [0.01, 0.2]}, {"width": 4, "depth": 1}),
}


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    made = {}

    def make(case):
        if case not in made:
            source, name, vary, arguments = CASES[case]
            path = tmp_path_factory.mktemp("family") / "family.h5"
            data = vp.generate(source, path, count=24, steps=4, vary=vary)
            model = vp.models.build(data.family.extended, name, arguments)
            vp.train(model, data, epochs=1, progress=False)
            torch.manual_seed(1)
            with torch.no_grad():
                for weight in model.parameters():
                    weight.copy_(0.2 * torch.randn_like(weight) * weight.any())
            made[case] = model
        return made[case]

    return make


def windows_of(model, count=7):
    system = vp.load_system(CASES_OF[model.metadata["system_name"]])
    z = torch.from_numpy(system.sample_initial(count, np.random.default_rng(0)))
    return z.unsqueeze(1) + 0.01 * torch.arange(model.window).view(1, -1, 1)


def parameters_of(model, share):
    return {name: low + share * (high - low) for name, (low, high) in model.ranges.items()}


def tensor(values):
    return torch.tensor([*values.values()], dtype=torch.float64)


CASES_OF = {source: source for source, *_ in CASES.values()}


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=5, deadline=None)
@given(share=st.floats(0, 1))
def test_is_the_map_of_the_family(family, case, share):
    model = family(case)
    values, z = parameters_of(model, share), windows_of(model)
    single = model.at(**values)
    assert single.dim == model.dim == z.shape[-1] and not single.ranges
    with torch.no_grad():
        found, expected = single(z), model(z, tensor(values))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert single.structure == model.structure


MAPS = [c for c in CASES if "step" in CASES[c][2] and c != "no structure"]


@pytest.mark.parametrize("case", MAPS)
@settings(max_examples=5, deadline=None)
@given(share=st.floats(0, 1))
def test_no_step_is_no_motion_and_a_step_back_the_inverse(family, case, share):
    model = family(case)
    values, z = parameters_of(model, share), windows_of(model)
    k, none, back = (tensor(values | {"step": f * values["step"]}) for f in (1.0, 0.0, -1.0))
    with torch.no_grad():
        assert torch.equal(model(z, none), model.coordinates.inverse(model.coordinates(z)))
        torch.testing.assert_close(model.inverse(model(z, k), k), z, rtol=0, atol=1e-11)
        if len(model.reversing_symmetries):
            torch.testing.assert_close(model(model(z, k), back), z, rtol=0, atol=1e-11)


def test_arrays_and_derivatives(family):
    """As a Map it takes arrays, a set of parameters or one for each window."""
    model = family("vpff")
    z, k = windows_of(model, 3), torch.tensor([[0.1, 1.7], [0.2, 2.0], [0.3, 2.3]]).double()
    with torch.no_grad():
        np.testing.assert_array_equal(model.map(z.numpy(), k.numpy()), model(z, k).numpy())
    D = model.derivative(z.numpy(), k.numpy())
    np.testing.assert_allclose(np.linalg.det(D), 1, atol=1e-11)
    vectors = np.eye(3)[:, :1]
    images = model.tangent(z.numpy(), vectors, k.numpy())
    np.testing.assert_allclose(images, D @ vectors, atol=1e-13)
    steps = next(model.advance(z.numpy(), 2, parameters=k[0].numpy()))
    twice = model(model(z, k[0]), k[0]).detach()
    np.testing.assert_allclose(steps[:, 1:], twice, atol=1e-14)


def test_is_a_model_like_any_other(family, tmp_path):
    model = family("vpff")
    single = model.at(step=0.17, I1=2.2)
    assert single.metadata["step"] == "0.17" and MEMBER in single.metadata
    assert json.loads(single.metadata["parameters"])["I1"] == 2.2
    path = tmp_path / "single.safetensors"
    vp.save(single, path)
    window = torch.rand(5, 1, 3, dtype=torch.float64)
    assert torch.equal(vp.load(path)(window), single(window))
    report = vp.compare(single, "rk4", steps=3, trajectories=2, compiled=False)
    assert report.step == 0.17 and report.system.parameters["I1"] == 2.2


def test_what_is_not_named_is_the_systems(family):
    model = family("vpff")
    nominal = vp.load_system("rigid-body").parameters["I1"]
    window = torch.rand(5, 1, 3, dtype=torch.float64)
    assert torch.equal(model.at(step=0.1)(window), model.at(step=0.1, I1=nominal)(window))


def test_each_trajectory_may_have_its_own_conditions(family):
    model = family("vpff")
    z = vp.load_system("rigid-body").sample_initial(4, np.random.default_rng(0))
    steps, moments = np.array([0.05, 0.1, 0.2, 0.3]), np.array([1.7, 1.8, 2.0, 2.3])
    k = {"step": steps, "I1": moments}
    states = vp.rollout(model, torch.from_numpy(z[:, None]), 3, compiled=False, parameters=k)
    machine = vp.rollout(model, torch.from_numpy(z[:, None]), 3, compiled=True, parameters=k)
    torch.testing.assert_close(machine, states, rtol=0, atol=1e-12)
    for n in range(4):
        single = model.at(step=steps[n], I1=moments[n])
        alone = vp.rollout(single, torch.from_numpy(z[n : n + 1, None]), 3, compiled=False)
        torch.testing.assert_close(states[n : n + 1], alone, rtol=0, atol=1e-12)


def test_outside_of_the_ranges_it_warns(family):
    model = family("vpff")
    with pytest.warns(OutsideTraining, match=r"I1 = 3 lies outside of \[1.6, 2.4\]"):
        model.at(step=0.1, I1=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in (-0.4, 0.0, 0.4):
            model.at(step=step, I1=1.6)


@pytest.mark.parametrize(
    "conditions, message",
    [
        ({}, "needs a value of step"),
        ({"step": 0.1, "I4": 1.0}, "I4 is no parameter"),
        ({"step": float("nan")}, "must be a finite number"),
        ({"step": "long"}, "must be a finite number"),
        ({"step": 0.1, "I1": 0.0}, "not finite"),
    ],
)
def test_what_is_wrong_is_said(family, conditions, message):
    with pytest.raises(InputError, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        family("vpff").at(**conditions)
