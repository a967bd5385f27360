"""Models that read constants of a trajectory from a few of its states."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import SIGN_FLIPS, assert_close, randomise, sample
from vpintegrator.compiled import compile_model
from vpintegrator.errors import InputError
from vpintegrator.models import InContextIntegrator
from vpintegrator.models.inference import gauss_newton, least_squares
from vpintegrator.native import NotCompilable

FORM = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)


def drawn(seed=0, latent=2, error=None, **options):
    """A model at random weights, whose maps stay near the identity.

    States drawn at random are far from its orbits: an ``error`` of 0.1 makes them probable.
    """
    torch.manual_seed(seed)
    options = {"dim": 3, "degree": 3} | options
    name = {"sgf": "SymplecticGeneratingFunctionMap"}.get(options.pop("stepper", ""))
    plain = getattr(vp.models, name or "VolumePreservingGeneratingFunctionMap")(**options)
    model = InContextIntegrator.over(plain, latent)
    if error is not None:
        model.set_errors(torch.full((model.dim,), error, dtype=torch.float64))
    return randomise(model, 0.02, seed).eval()


def orbit(model, count, length, seed=0):
    """Trajectories of the stepper, and their constants."""
    generator = torch.Generator().manual_seed(seed)
    k = 0.3 * torch.randn(count, model.latent, generator=generator, dtype=torch.float64)
    z = torch.rand(count, model.dim, generator=generator, dtype=torch.float64) - 0.5
    states = [torch.cat([z, k], -1)]
    with torch.no_grad():
        for _ in range(length - 1):
            states.append(model.stepper(states[-1][:, None])[:, 0])
    return torch.stack(states, 1)[..., : model.dim], k


@pytest.mark.thorough
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), symmetric=st.booleans())
def test_volume_is_kept_for_every_context(seed, symmetric):
    options = {"reversing_symmetries": SIGN_FLIPS} if symmetric else {}
    model = drawn(seed, error=0.1, **options)
    windows = sample(3, 4, 3, scale=0.5)
    x = model.begin(windows)
    one = model.at(windows[0])
    assert one.volume_preserving and one.window == 1
    D = torch.func.jacrev(lambda z: one(z[None])[0])(windows[0, -1])
    assert abs(float(torch.linalg.slogdet(D)[1])) < 1e-12
    assert_close(one(windows[0, -1:])[0], model.stepper(x[:1])[0, 0, :3], 1e-12)
    if symmetric:
        R = torch.tensor(SIGN_FLIPS[0], dtype=torch.float64)
        z = windows[0, -1:]
        assert_close(one(one(z) @ R.mT) @ R.mT, z, 1e-12)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_form_is_kept_for_every_context(seed):
    model = drawn(seed, error=0.1, dim=2, stepper="sgf", degree=4)
    window = sample(1, 4, 2, scale=0.5)
    one = model.at(window[0])
    assert one.symplectic
    D = torch.func.jacrev(lambda z: one(z[None])[0])(window[0, -1])
    assert_close(D.mT @ FORM @ D, FORM, 1e-12)


def test_constants_are_found_again_from_exact_states():
    model = drawn(1)
    states, k = orbit(model, 20, 6)
    found = model.infer(states)
    assert_close(found.values, k, 1e-8)
    assert bool((found.determined == 2).all())
    assert bool((found.uncertainties > 0).all())


def test_local_minima_are_left():
    """Least squares of one unknown with several minima, each with residuals in units of 1e-4."""
    targets = torch.linspace(-3, 3, 13, dtype=torch.float64)
    start, rows = torch.zeros(13, 1, dtype=torch.float64), torch.arange(13)

    def residual(u, rows):
        r = 1e4 * (u + 1.3 * torch.sin(2.5 * u + 2) - targets[rows, None])
        slope = 1e4 * (1 + 3.25 * torch.cos(2.5 * u + 2))
        ones = torch.ones_like(u)
        return torch.cat([r, u], 1), torch.cat([slope, ones], 1)[..., None]

    def improbable(u):
        return int((residual(u, rows)[0].square().mean(1) > 100).sum())

    assert improbable(gauss_newton(residual, start)[0]) >= 5
    assert improbable(least_squares(residual, start)[0]) == 0


def test_the_order_of_states_does_not_matter_where_times_are_given():
    model = drawn(2)
    model.metadata["step"] = "0.5"
    states, k = orbit(model, 5, 6)
    order = [3, 0, 5, 1, 4, 2]
    times = 0.5 * np.arange(6)
    found = model.infer(states[:, order], times[order])
    assert_close(found.values, model.infer(states).values, 1e-12)
    assert_close(found.state, states[:, -1], 0)
    apart = [0, 2, 3, 5]  # states between are missing
    assert_close(model.infer(states[:, apart], times[apart]).values, k, 1e-7)


def test_results_are_those_of_any_batch():
    model = drawn(3, error=0.1)
    windows = sample(7, 4, 3, scale=0.5)
    together = model.infer(windows).values
    alone = torch.cat([model.infer(each).values[None] for each in windows])
    assert_close(together, alone, 1e-10)
    assert_close(model(windows)[2], model(windows[2]), 1e-10)


@pytest.mark.thorough
def test_noise_averages_out():
    model = drawn(4)
    states, _ = orbit(model, 80, 17)
    noisy = states[:, :16] + 1e-2 * torch.randn(
        80, 16, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    errors = []
    for length in (2, 4, 8, 16):
        x = model.begin(noisy[:, 16 - length :], noise=1e-2)
        with torch.no_grad():
            new = model.stepper(x)[:, 0, :3]
        errors.append(float((new - states[:, 16]).square().mean().sqrt()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.65 * errors[0]


def test_a_rollout_reads_its_context_once():
    model = drawn(5)
    states, _ = orbit(model, 3, 30)
    found = vp.rollout.rollout(model, states[:, :5], 29)
    assert_close(found, states, 1e-6)
    k = model.begin(states[:, :5])
    following = vp.rollout.rollout(model.stepper, k, 25)[..., :3]
    assert torch.equal(found[:, 4:], following)


def test_a_file_holds_it(tmp_path):
    model = drawn(6, reversing_symmetries=SIGN_FLIPS)
    model.set_normalisation([0, 0, 0], [2, 2, 2])
    model.set_prior(sample(50, 2))
    model.set_errors(torch.full((3,), 1e-5))
    vp.save(model, tmp_path / "a.safetensors")
    again = vp.load(tmp_path / "a.safetensors")
    window, _ = orbit(model, 4, 4)
    assert_close(again(window), model(window), 0)
    assert again.arguments == model.arguments
    assert len(again.stepper.reversing_symmetries) == 3


@pytest.mark.thorough
def test_the_map_of_a_context_compiles_and_the_model_says_so():
    model = drawn(7)
    window = sample(4, 3, scale=0.5)
    one = model.at(window)
    states, _ = compile_model(one).advance(window[:, None].numpy(), 1)
    assert_close(torch.from_numpy(states)[:, 0], one(window[:, None])[:, 0].detach(), 1e-12)
    with pytest.raises(NotCompilable, match=r"model.at\(states\)"):
        compile_model(model)


@pytest.mark.parametrize(
    ("states", "times", "message"),
    [
        (np.zeros((1, 3)), None, "one state tells nothing"),
        (np.zeros((4, 2)), None, r"\(time, 3\)"),
        (np.full((4, 3), np.nan), None, "not finite"),
        (np.zeros((3, 3)), [0.0, 0.1, 0.4], "whole steps of 0.2"),
        (np.zeros((3, 3)), [0.0, 0.2], "3 numbers"),
        (np.zeros((3, 3)), [0.0, 0.2, 0.2], "differ from one another"),
    ],
)
def test_contexts_that_tell_nothing(states, times, message):
    model = drawn(8)
    model.metadata["step"] = "0.2"
    with pytest.raises(InputError, match=message):
        model.infer(states, times)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 1}, "two states or more"),
        ({"latent": 1000}, "at most 50"),
        ({"prediction_window": 2}, "predicts one state"),
        ({"stepper_arguments": {"degree": 3}}, "these are conserved"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(InputError, match=message):
        InContextIntegrator(dim=3, **arguments)


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    path = tmp_path_factory.mktemp("family") / "o.h5"
    vary = {"k": (0.7, 1.3), "m": (0.8, 1.2)}
    data = vp.generate("harmonic-oscillator", path, count=200, steps=4, vary=vary)
    extended = vp.data.ExtendedDataset(data)
    model = vp.models.build(extended.system, "sgf", degree=10)
    vp.train(model, extended, optimizer="linear")
    return model, data


def test_parameters_of_a_family_are_inferred(family):
    model, data = family
    states, true = data.states("test"), data.conditions("test")
    found = model.infer(states)
    assert found.names == tuple(data.varied)
    off = np.abs(found.values.numpy() - true)
    assert np.median(off) < 1e-5
    single = model.infer(states[0], k=true[0, 0])
    assert single.names == ("m",) and abs(single["m"] - true[0, 1]) < 1e-5
    assert "m = " in repr(single)


def test_what_a_context_does_not_determine_is_refused(family):
    model, _ = family
    rest = np.zeros((3, 2))  # the equilibrium of all of them
    with pytest.raises(InputError, match="determines 0 of 2 combinations of the parameters k, m"):
        model.infer(rest)
    found = model.infer(rest, undetermined=True)
    assert_close(found.values, torch.tensor([1.0, 1.0], dtype=torch.float64), 1e-6)
    assert float(found.uncertainties[0]) == pytest.approx(0.6 / 12**0.5, rel=1e-2)
    with pytest.raises(InputError, match="nothing to infer"):
        vp.models.VolumePreservingFeedForward(dim=2).infer(rest)
    with pytest.raises(InputError, match="all parameters"):
        model.infer(rest, k=1.0, m=1.0)
