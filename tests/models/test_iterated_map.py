"""The map of windows that a rollout iterates, and what it keeps, at random weights."""

import itertools

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.models.cases import randomise
from vpintegrator.errors import InputError
from vpintegrator.rollout import diagnostics

FLIP = [[[1.0, 0], [0, -1]]]  # of one degree of freedom: (q, p) -> (q, -p)
FLIPS = [np.diag([1.0, 1, -1, -1]).tolist()]
WINDOWS = [(2, 2), (3, 3), (4, 4), (3, 1), (3, 2), (5, 1), (4, 3)]
MODELS = {
    "vpt": {"depth": 2, "width": 4},
    "vpt, coupled": {"depth": 1, "width": 4, "weighting": "coupled"},
    "vpt, triangular": {"depth": 2, "feed_forward": "triangular"},
    "vpt, polynomials": {"depth": 1, "functions": "polynomial", "degree": 2, "time_mixing": True},
    "vpmt": {"depth": 1, "width": 4},
    "spt": {"depth": 2, "width": 4},
    "transformer": {"depth": 1, "width": 4, "heads": 2},
}


def made(name, window, new, dim=4, scale=0.4, **arguments):
    architecture = vp.models.ARCHITECTURES[name.partition(",")[0]]
    sizes = {"dim": dim, "window": window, "prediction_window": new}
    model = architecture(**sizes, **{**MODELS[name], **arguments})
    randomise(model, scale, 1)
    model.origin = vp.models.Origin(step=0.1)
    return model.eval()


def some_windows(model, count=5, seed=0):
    shape = count, model.window, model.dim
    return 0.7 * np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("window", "new"), WINDOWS)
def test_a_rollout_is_the_iteration_of_the_model(name, window, new):
    model = made(name, window, new)
    first = some_windows(model, 3)
    states, by_hand = [first], torch.from_numpy(first)
    with torch.no_grad():
        for _ in range(4):
            before, by_hand = by_hand, model(by_hand)
            assert torch.equal(by_hand[:, : window - new], before[:, new:])  # old states stay
            states.append(by_hand[:, window - new :].numpy())
    states = np.concatenate(states, axis=1)
    steps = states.shape[1] - 1
    assert np.array_equal(vp.rollout(model, first, steps, compiled=False), states)
    assert np.array_equal(np.concatenate([*model.advance(first, 4 * new)], 1), states[:, window:])
    machine = vp.compiled.CompiledModel(model, 3)
    np.testing.assert_allclose(vp.rollout(machine, first, steps), states, atol=1e-11)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("window", "new"), WINDOWS)
def test_a_claim_is_kept_by_the_map_that_is_iterated(name, window, new):
    model = made(name, window, new)
    first = some_windows(model)
    size = window * model.dim

    def iterated(flat):  # the window after a call, put together from the states of a rollout
        rows = flat.reshape(-1, window, model.dim)
        states = np.concatenate([rows, *model.advance(rows, new)], axis=1)
        return states[:, -window:].reshape(-1, size)

    volume = diagnostics.log_determinant(model, first)
    # the same by differences of a rollout
    slopes = []
    for k, direction in itertools.product((1, 2), 1e-3 * np.eye(size)):
        flat = first.reshape(-1, size)
        slopes.append(
            (iterated(flat + k * direction) - iterated(flat - k * direction)) / (2e-3 * k)
        )
    near, far = np.stack(slopes[:size], -1), np.stack(slopes[size:], -1)
    differences = (4 * near - far) / 3
    signs = np.linalg.slogdet(differences)
    large = volume > -20  # of a nearly singular matrix differences tell less
    np.testing.assert_allclose(signs[1][large], volume[large], atol=1e-4)
    structured = name != "transformer" and new == window
    assert model.structure.keeps_volume == model.measure_preserving == structured
    assert model.structure.space == "windows" and model.invertible == structured
    if structured:
        assert np.abs(volume).max() < 1e-12
        there = model(torch.from_numpy(first))
        np.testing.assert_allclose(model.inverse(there).detach(), first, atol=1e-11)
        return
    assert np.abs(volume).max() > 1e-2 and not model.structure.keeps_volume
    assert not model.structure.reversing_symmetries and not model.structure.is_symplectic
    with pytest.raises(InputError, match="no explicit inverse"):
        model.inverse(torch.from_numpy(first))


@pytest.mark.parametrize(("window", "new"), [(3, 3), (3, 1), (4, 2)])
def test_the_form_of_windows_is_that_of_the_iterated_map(window, new):
    model = made("spt", window, new)
    model.system = vp.load_system("coupled-oscillators")
    defect = diagnostics.window_symplecticity_defect(model, some_windows(model))
    assert model.structure.is_symplectic == (window == new)
    assert defect < 1e-12 if window == new else defect > 1e-2


@pytest.mark.parametrize("name", [name for name in MODELS if name != "transformer"])
@pytest.mark.parametrize(("window", "new"), [(3, 3), (2, 2), (3, 1), (4, 2)])
def test_the_way_back_is_that_of_the_claim(name, window, new):
    """After n calls, R, n calls and R, orbits are where they began if the map is reversible."""
    triangular = name.endswith("triangular")
    model = made(
        name,
        window,
        new,
        2 if triangular else 4,
        0.1,
        reversing_symmetries=(FLIP if triangular else FLIPS),
    )
    first, rho = 0.3 * some_windows(model), np.array((FLIP if triangular else FLIPS)[0])
    calls = 6
    states = np.concatenate([first, *model.advance(first, calls * new)], axis=1)
    turned = states[:, -window:][:, ::-1] @ rho
    back = np.concatenate([turned, *model.advance(turned, calls * new)], axis=1)
    defect = np.abs(back[:, -window:][:, ::-1] @ rho - first).max()
    one = diagnostics.reversibility_defect(model, first, [rho])
    assert bool(model.structure.reversing_symmetries) == (new == window)
    if new == window:
        assert defect < 1e-9 and one < 1e-12
    else:
        assert not defect < 1e-3 and one > 1e-3


def test_a_map_of_ones_own_is_measured_as_it_is_iterated():
    """Old states in what ``map`` returns do not count: here they would keep the volume."""

    class Revising(vp.Map):
        dim, step, window, prediction_window = 2, 0.1, 3, 1

        def map(self, windows):
            angle = 0.3
            turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
            return 1.1 * windows @ np.array(turn) + 0.1 * windows[:, :1]

    map = Revising()
    first = some_windows(map, 2)
    determinants = np.exp(diagnostics.log_determinant(map, first))
    # of the shifted window it is that of the newest row by the oldest: 0.1 times the identity
    np.testing.assert_allclose(determinants, 0.01, rtol=1e-6)
    states, by_hand = vp.rollout(map, first, 6), first
    for step in range(3, 7):
        by_hand = map.map(by_hand)
        np.testing.assert_array_equal(by_hand, states[:, step - 2 : step + 1])
    module = torch.nn.Linear(2, 2, bias=False).double()
    wrapped = vp.wrap(module, 2, 0.1, window=3)
    states = vp.rollout(wrapped, first, 5)
    assert np.array_equal(states[:, :3], first)
    expected = [first[:, -1]]
    for _ in range(3):
        expected.append(expected[-1] @ module.weight.detach().numpy().T)
    np.testing.assert_allclose(states[:, 2:], np.stack(expected, 1), atol=1e-14)


def test_defaults_follow_the_data(tmp_path):
    """Complete states of known equations map whole windows; measured ones shift."""
    body = vp.load_system("rigid-body")
    states = vp.integrate(body, "rk4", body.sample_initial(20, np.random.default_rng(0)), 0.1, 12)
    measured = vp.import_dataset(states[..., :2], tmp_path / "seen.h5", step=0.1)
    for name in ("vpt", "vpmt", "transformer"):
        model = vp.models.build(body, name)
        assert model.prediction_window == model.window == 3
        withheld = vp.models.build(body.without_equations(), name)
        assert withheld.prediction_window == 3 and withheld.structure == model.structure
        model = vp.models.build(measured.system, name)
        assert (model.window, model.prediction_window) == (3, 1)
        assert any("the window shifts" in choice for choice in model.choices)
        assert "shifts windows by 1 of 3 states" in model.remark
        model = vp.models.build(measured.system, name, {"prediction_window": None})
        assert model.prediction_window == 3
        model = vp.models.build(body, name, {"prediction_window": 2})
        assert model.prediction_window == 2 and not model.structure.words
    model = vp.models.build(vp.load_system("pendulum"), "spt")
    assert model.prediction_window == model.window == 3
    assert "symplectic on windows" in model.structure.words
