"""Models of one step and one set of parameters out of a family: the same map, and a plain model."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import assert_close, randomise
from vpintegrator.errors import InputError
from vpintegrator.models.family import OutsideTraining

SIZES = {"functions": "polynomial", "degree": 3, "depth": 2}
NEURONS = {"width": 4, "depth": 1}
STEP, ANGLES = {"step": [0.01, 0.2]}, {"step": [0.01, 0.2], "g": [0.5, 2.0]}
# system, model, what varies, arguments
CASES = {
    "vpff": ("rigid-body", "vpff", {"step": [0.01, 0.4], "I1": [1.6, 2.4]}, SIZES),
    "to and fro": ("rigid-body", "vpff", {"I1": [1.6, 2.4]}, SIZES | {"sweep": "symmetric"}),
    "not reversible": ("abc-flow", "vpff", {**STEP, "A": [0.5, 1.5]}, SIZES),
    "spff": ("henon-heiles", "spff", STEP, SIZES),
    "angles": ("pendulum", "spff", ANGLES, SIZES),
    "neurons": ("rigid-body", "vpff", STEP, NEURONS),
    "symplectic neurons": ("pendulum", "spff", ANGLES, {"width": 4}),
    "no structure": ("rigid-body", "resnet", STEP, NEURONS),
}


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """A family of CASES with random weights, and windows."""
    made = {}

    def make(case):
        if case not in made:
            source, name, vary, arguments = CASES[case]
            path = tmp_path_factory.mktemp("family") / "family.h5"
            data = vp.generate(source, path, count=24, steps=4, vary=vary)
            model = vp.models.build(data.family.extended, name, arguments)
            vp.train(model, data, epochs=1, progress=False, equations=True)
            zero = [weight for weight in model.parameters() if not weight.any()]
            randomise(model, 0.2, 1)
            for weight in zero:
                weight.data.zero_()
            z = vp.load_system(source).sample_initial(7, np.random.default_rng(0))
            made[case] = model, torch.from_numpy(z)[:, None]
        return made[case]

    return make


def parameters_of(model, share):
    return {name: low + share * (high - low) for name, (low, high) in model.ranges.items()}


def tensor(values):
    return torch.tensor([*values.values()], dtype=torch.float64)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=5, deadline=None)
@given(share=st.floats(0, 1))
def test_is_the_map_of_the_family(family, case, share):
    model, z = family(case)
    values = parameters_of(model, share)
    single = model.at(**values)
    assert single.dim == model.dim == z.shape[-1] and not single.ranges
    assert_close(single(z).detach(), model(z, tensor(values)).detach(), 1e-12)
    assert single.structure == model.structure


@pytest.mark.parametrize("case", [c for c in CASES if "step" in CASES[c][2] and c[:3] != "no "])
@settings(max_examples=5, deadline=None)
@given(share=st.floats(0, 1))
def test_no_step_is_no_motion_and_a_step_back_the_inverse(family, case, share):
    model, z = family(case)
    values = parameters_of(model, share)
    k, none, back = (tensor(values | {"step": f * values["step"]}) for f in (1.0, 0.0, -1.0))
    with torch.no_grad():
        assert torch.equal(model(z, none), z)
        assert_close(model.inverse(model(z, k), k), z, 1e-11)
        if len(model.reversing_symmetries):
            assert_close(model(model(z, k), back), z, 1e-11)


def test_arrays_and_derivatives(family):
    """As a Map it takes arrays, a set of parameters or one for each window."""
    model, z = family("vpff")
    z, k = z[:3], torch.tensor([[0.1, 1.7], [0.2, 2.0], [0.3, 2.3]]).double()
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
    """Parameters that are not named are the system's."""
    model, z = family("vpff")
    single = model.at(step=0.17, I1=2.2)
    assert single.step == 0.17 and single.origin.member.family == model.family
    assert single.system.parameters["I1"] == 2.2
    vp.save(single, tmp_path / "single.safetensors")
    assert torch.equal(vp.load(tmp_path / "single.safetensors")(z), single(z))
    report = vp.compare(single, "rk4", steps=3, trajectories=2, compiled=False)
    assert report.step == 0.17 and report.system.parameters["I1"] == 2.2
    nominal = vp.load_system("rigid-body").parameters["I1"]
    assert torch.equal(model.at(step=0.1)(z), model.at(step=0.1, I1=nominal)(z))


def test_each_trajectory_may_have_its_own_conditions(family):
    model, z = family("vpff")
    z, k = z[:4], {"step": np.array([0.05, 0.1, 0.2, 0.3]), "I1": np.array([1.7, 1.8, 2.0, 2.3])}
    states, machine = (vp.rollout(model, z, 3, compiled=c, parameters=k) for c in (False, True))
    assert_close(machine, states, 1e-12)
    for n in range(4):
        single = model.at(**{name: values[n] for name, values in k.items()})
        assert_close(states[n : n + 1], vp.rollout(single, z[n : n + 1], 3, compiled=False), 1e-12)


def test_outside_of_the_ranges_it_warns(family):
    model, _ = family("vpff")
    with pytest.warns(OutsideTraining, match=r"I1 = 3 lies outside of \[1.6, 2.4\]"):
        model.at(step=0.1, I1=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in (-0.4, 0.0, 0.4):
            model.at(step=step, I1=1.6)


@pytest.mark.filterwarnings("ignore")
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
    with pytest.raises(InputError, match=message):
        family("vpff")[0].at(**conditions)
