"""Observed data: components, functions, hidden parameters, noise, and the states behind them."""

import h5py
import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.data import Observation
from vpintegrator.errors import InputError

SMALL = {"count": 12, "steps": 8}


def observed(folder, system="henon-heiles", name="a.h5", **options):
    return vp.generate(system, folder / name, **{**SMALL, "overwrite": True} | options)


@pytest.mark.parametrize(
    ("system", "components", "names", "expected"),
    [
        ("henon-heiles", ["q1"], ("q1",), lambda z: z[..., :1]),
        ("henon-heiles", ["p2", "q1"], ("p2", "q1"), lambda z: z[..., [3, 0]]),
        ("henon-heiles", ["q"], ("q1", "q2"), lambda z: z[..., :2]),
        ("toda", ["q[2]", "p[0]"], ("q3", "p1"), lambda z: z[..., [2, 8]]),
        ("toda", ["q2*p[1]"], ("y1",), lambda z: z[..., [1]] * z[..., [9]]),
        (
            "pendulum",
            ["height = 1 - cos(q)", "sin(q)*p", "q"],
            ("height", "y2", "q"),
            lambda z: np.stack(
                [1 - np.cos(z[..., 0]), np.sin(z[..., 0]) * z[..., 1], z[..., 0]], axis=-1
            ),
        ),
        ("rigid-body", ["energy = z1**2/(2*I1)"], ("energy",), lambda z: z[..., :1] ** 2 / 4),
    ],
)
def test_components_and_functions_are_observed(system, components, names, expected, tmp_path):
    options = {"parameters": {"I1": 2.0}} if system == "rigid-body" else {}
    full = observed(tmp_path, system, "full.h5", **options)
    dataset = observed(tmp_path, system, observe={"components": components}, **options)
    assert dataset.system.components == names and dataset.dim == len(names)
    for group in full.shapes:
        np.testing.assert_array_equal(dataset.complete_states(group), full.states(group))
        np.testing.assert_allclose(
            dataset.states(group), expected(full.states(group)), rtol=1e-14, atol=1e-14
        )
        np.testing.assert_array_equal(dataset.times(group), full.times(group))
    assert dataset.step == full.step
    assert dataset.complete_system.text == full.system.text
    assert dataset.complete_system.parameters == full.system.parameters


def test_observed_data_claim_nothing_but_angles(tmp_path):
    for system, components, periods in (
        ("pendulum", ["q", "p"], {0: 2 * np.pi}),
        ("pendulum", ["p"], {}),
        ("double-pendulum", [], {0: 2 * np.pi, 1: 2 * np.pi}),
    ):
        noise = 0 if components else 1e-3
        found = observed(tmp_path, system, observe={"components": components, "noise": noise})
        assert found.system.is_measured and found.system.kind == "measured"
        assert not (found.system.divergence_free or found.system.is_canonical)
        assert found.system.equations.divergence_free is None
        assert found.system.periods == pytest.approx(periods) and found.is_observed


def test_a_hidden_parameter_is_not_told_and_others_are(tmp_path):
    vary = {"I1": [1.5, 2.5], "I2": [0.5, 1.5], "step": [0.1, 0.2]}
    full = observed(tmp_path, "rigid-body", "full.h5", vary=vary)
    for hide, told in ((["I1"], ["step", "I2"]), (["step", "I1"], ["I2"]), ([*vary], [])):
        found = observed(tmp_path, "rigid-body", vary=vary, observe={"hide": hide})
        assert list(found.varied) == told and found.is_family == bool(told)
        assert set(found.system.parameters) == {*told} - {"step"}
        columns = [list(full.varied).index(name) for name in told]
        np.testing.assert_array_equal(
            found.conditions("train"), full.conditions("train")[:, columns]
        )
        np.testing.assert_array_equal(found.states("test"), full.states("test"))
        if "step" in hide:
            assert found.step == pytest.approx(0.15)
            np.testing.assert_allclose(found.times("train"), 0.15 * np.arange(9))
        with h5py.File(found.path) as file:  # it is told where no training looks
            whole = file["complete/train/parameter_I1"][...]
        np.testing.assert_array_equal(whole, full.conditions("train")[:, 1])


def test_functions_read_the_parameters_of_each_trajectory(tmp_path):
    vary = {"I1": [1.5, 2.5]}
    full = observed(tmp_path, "rigid-body", "full.h5", vary=vary)
    found = observed(
        tmp_path, "rigid-body", vary=vary, observe={"components": ["w = z1/I1"], "hide": ["I1"]}
    )
    expected = full.states("train")[..., 0] / full.conditions("train")[:, :1]
    np.testing.assert_allclose(found.states("train")[..., 0], expected, rtol=1e-14)


def test_noise_is_gaussian_of_the_spread_and_repeatable(tmp_path):
    noise = {"components": ["q1", "p1", "far = 1e3*q1"], "noise": 0.05}
    exact = observed(tmp_path, count=300, observe={"components": noise["components"]})
    clean = {group: exact.states(group) for group in exact.shapes}
    noisy = observed(tmp_path, count=300, observe=noise)
    spread = clean["train"].std(axis=(0, 1))
    parts = [(noisy.states(group) - clean[group]) / spread / 0.05 for group in clean]
    errors = np.concatenate([part.reshape(-1, 3) for part in parts])  # (state, quantity)
    np.testing.assert_allclose(errors.std(axis=0), 1, atol=0.05)
    np.testing.assert_allclose(np.corrcoef(errors.T), np.eye(3), atol=0.07)
    assert abs(errors.mean()) < 0.03 and np.abs((errors**4).mean() - 3) < 0.3
    again = vp.generate(noisy.recipe, tmp_path / "again.h5")
    assert again.fingerprint == noisy.fingerprint and again.recipe == noisy.recipe
    other = observed(tmp_path, name="b.h5", count=300, observe=noise, seed=7)
    assert other.fingerprint != noisy.fingerprint


def test_training_never_opens_the_states_behind(tmp_path):
    dataset = observed(tmp_path, observe=Observation(("q1", "q2")), count=40)
    kinds = vp.training.search("polynomial")
    first = vp.fit(dataset, [kinds], epochs=1)
    with h5py.File(dataset.path, "r+") as file:
        del file["complete"]
    again = vp.fit(vp.open_dataset(dataset.path), [kinds], epochs=1)
    assert again.error == first.error
    with pytest.raises(InputError, match="holds no other states"):
        vp.open_dataset(dataset.path).complete_states("train")
    assert vp.open_dataset(dataset.path).complete_system is None


@pytest.mark.parametrize(
    ("system", "table", "options", "message"),
    [
        ("pendulum", {"components": ["x"]}, {}, r"\[observe\] y1.*x"),
        ("pendulum", {"components": ["q", "q"]}, {}, "components: q is there twice"),
        ("pendulum", {"components": ["sin(q"]}, {}, "not a valid expression"),
        ("pendulum", {"components": ["2 = q"]}, {}, r"\[observe\]"),
        ("pendulum", {"components": "q"}, {}, "expected a list of texts"),
        ("pendulum", {"components": [""]}, {}, "expected a list of texts"),
        ("pendulum", {"components": ["log(q)"]}, {}, r"y1 = log\(q\) is not finite at time \d+ of"),
        ("pendulum", {"components": ["1/(q - q)"]}, {}, "not finite|division|zero"),
        ("pendulum", {"hide": ["g"]}, {}, "hide: g does not vary; give it a range: --vary g="),
        ("pendulum", {"hide": ["step"]}, {}, "step does not vary; give it a range"),
        ("rigid-body", {"hide": ["I4"]}, {}, "hide: I4 does not vary"),
        ("rigid-body", {"hide": ["I2"]}, {"vary": {"I1": [1.5, 2.5]}}, "hide: I2 does not vary"),
        ("pendulum", {"noise": -0.1}, {}, "noise = -0.1 must be 0 or more"),
        ("pendulum", {"noise": np.nan}, {}, "noise = nan must be"),
        ("pendulum", {"noise": "loud"}, {}, "noise = 'loud' must be"),
        ("pendulum", {"sound": 1}, {}, "sound"),
        ("pendulum", {"components": ["q"]}, {"steps": 1}, "trajectories of 2 steps or more"),
        ("pendulum", {"components": ["q"]}, {"count": 2}, "count = 2"),
        ("pendulum", {"components": ["q"]}, {"resume": True}, "made at once"),
    ],
)
def test_mistakes(system, table, options, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        vp.generate(system, tmp_path / "a.h5", **SMALL | options, observe=table)
    assert "\n" not in str(error.value)
    assert not [*tmp_path.iterdir()]  # nothing is left behind


def test_orbits_shorter_than_a_window_are_named(tmp_path):
    dataset = observed(tmp_path, steps=3, observe={"components": ["q1", "q2"]})
    with pytest.raises(InputError, match="need trajectories of 6 states, but these have 4"):
        vp.fit(dataset, [vp.training.search("transformer", {"window": 5})], epochs=1)
