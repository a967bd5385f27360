"""PolynomialInvariants that data show, and the maps that keep them."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.training import Budget, PolynomialRegression, Trainer
from vpintegrator.training.invariants import find_invariants, find_quadratic_invariants
from vpintegrator.training.kinds.invariants import KeptInvariants
from vpintegrator.training.training_data import TrainingData

SYSTEMS = {"rigid-body": 2, "henon-heiles": 1, "kepler": 1, "lotka-volterra-3d": 1, "pendulum": 0}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("invariants")

    def make(name, noise=0.0, count=40, steps=20):
        states = vp.generate(
            name, folder / f"{name}-{count}-{steps}.h5", count=count, steps=steps, overwrite=True
        ).states("train")
        states = states + noise * np.random.default_rng(0).normal(size=states.shape)
        path = folder / f"{name}-{noise}-{count}.h5"
        return TrainingData(vp.import_dataset(states, path, step=0.1, overwrite=True))

    return make


def untrained(data, **sizes):
    model = vp.models.PolynomialMap(dim=data.dataset.dim, degree=2, **sizes)
    data.normalise(model)
    return model


@pytest.mark.parametrize("name", SYSTEMS)
def test_those_of_polynomials_are_found(data, name):
    own = data(name)
    model = untrained(own)
    found = find_invariants(model, own, 1e-6)
    assert (0 if found is None else found.count) == SYSTEMS[name]
    if found is None:
        return
    # on orbits of other initial states too
    system = vp.load_system(name)
    start = system.sample_initial(5, np.random.default_rng(3))
    states = vp.solve(system, start, np.linspace(0, 5, 20), rtol=1e-12, atol=1e-12)
    values = found(model.coordinates(torch.from_numpy(states))[:, :, None])
    assert float((values - values[:, :1]).abs().max()) < 1e-9


def test_those_of_windows_are_found(data, tmp_path):
    """The energy of a plane oscillator is no function of the positions, but of two of them."""
    states = data("harmonic-oscillator", count=80).dataset.states("train")
    half = len(states) // 2
    both = np.concatenate([states[:half, :, :1], states[-half:, :, :1]], 2)  # two oscillators
    seen = TrainingData(vp.import_dataset(both, tmp_path / "seen.h5", step=0.1))
    assert find_invariants(untrained(seen), seen, 1e-6) is None
    assert find_invariants(untrained(seen, window=2), seen, 1e-6).count == 1  # less than dim


@pytest.mark.parametrize("damping", [0.0, 1e-4])
def test_a_slow_decay_below_the_noise_is_no_invariant(tmp_path, damping):
    random = np.random.default_rng(0)
    times = 0.1 * np.arange(21)
    phase = random.uniform(0, 2 * np.pi, (100, 1))
    radius = random.uniform(0.5, 1.5, (100, 1)) * np.exp(-damping * times)
    states = np.stack([radius * np.cos(times + phase), -radius * np.sin(times + phase)], -1)
    states += 1e-4 * random.normal(size=states.shape)
    own = TrainingData(vp.import_dataset(states, tmp_path / "turn.h5", step=0.1))
    found = find_invariants(untrained(own), own, 1.5e-4)
    assert (found is None) == bool(damping)


def test_long_orbits(data):
    long = data("rigid-body", count=15, steps=2_000)
    assert find_invariants(untrained(long), long, 1e-6).count == 2


def test_noise_and_few_orbits_show_none(data):
    noisy = data("rigid-body", noise=1e-2)
    assert find_invariants(untrained(noisy), noisy, 1e-6) is None
    few = data("rigid-body", count=6, steps=200)
    assert find_invariants(untrained(few), few, 1e-6) is None


def test_a_map_that_keeps_them_errs_no_more_and_does_not_drift(data):
    own = data("rigid-body", count=100)
    train = Trainer(PolynomialRegression({"degree": 5}), own, Budget(seconds=60))
    train.kind.search(own, train, train.fits)
    kept = Trainer(KeptInvariants(), own, Budget(seconds=60))
    assert kept.kind.is_needed(own, train.fits)
    kept.kind.search(own, kept, train.fits)
    (plain,) = train.fits
    (fit,) = kept.fits
    assert fit.error < plain.error
    assert fit.model.invariants.count == 2
    start = own.dataset.states("train")[:10, :1]
    drifts = []
    for each in (plain, fit):
        with np.errstate(all="ignore"):
            squares = (vp.rollout(each.model, start, 300, compiled=False) ** 2).sum(-1)
            drifts.append(np.nan_to_num(np.abs(squares - squares[:, :1]), nan=np.inf).max())
    assert drifts[1] < 1e-11
    assert drifts[0] > 1.0  # the states are on a sphere: off it the polynomial may be anything
    assert vp.training.best([plain, fit]) is fit
    assert "keeps 2 invariants" in str(fit)
    assert not kept.kind.is_needed(own, [fit])


# quadratic invariants whose flows rotate planes


def waves(count, seed=0):
    """Three resonant waves: orbits (orbit, time, 6) of complex amplitudes q + ip."""
    from scipy.integrate import solve_ivp

    def field(_, z):
        a, b, c = z[:3] + 1j * z[3:]
        slope = -1j * np.array([b * c + 0.7 * a, a * c.conjugate(), a * b.conjugate()])
        return np.concatenate([slope.real, slope.imag])

    times = 0.2 * np.arange(21)
    starts = np.random.default_rng(seed).uniform(-1, 1, (count, 6))
    runs = [solve_ivp(field, (0, 4), z, "DOP853", times, rtol=1e-13, atol=1e-13) for z in starts]
    return np.stack([run.y.T for run in runs])


@pytest.mark.parametrize(("name", "count"), [("kepler", 1), ("henon-heiles", 0), ("pendulum", 0)])
def test_quadratic_invariants_are_found(data, name, count):
    own = data(name)
    model = vp.models.SymplecticGeneratingFunctionMap(dim=own.dataset.dim, degree=2)
    own.normalise(model)
    assert len(find_quadratic_invariants(model, own, 1e-6)) == count


def test_a_map_that_keeps_quadratic_invariants_is_chosen():
    """The invariants of Manley and Rowe, from an array without names."""
    kind = vp.training.GeneratingFunctions(form="symplectic")
    result = vp.fit(waves(60), [kind], step=0.2, target=1e-6, seconds=60)
    assert result.error < 1e-6
    assert result.model.remark == "keeps 2 quadratic invariants"
    assert result.model.structure.form == "symplectic"
    states = [waves(5, 1)[:, :1]]
    for _ in range(300):
        states.append(result.model.map(states[-1]))
    far = np.concatenate(states, 1)  # (orbit, time, 6)
    a = np.abs(far[..., :3] + 1j * far[..., 3:]) ** 2
    for sums in (a[..., 0] + a[..., 1], a[..., 0] + a[..., 2]):
        assert np.ptp(sums, axis=1).max() < 1e-9  # those of the data, as found there


def test_of_flows_that_do_not_commute_a_largest_set_is_taken(data, tmp_path):
    """Three angular momenta about one point have flows of which only one at a time is kept."""
    generator = np.random.default_rng(0)
    q, p = generator.normal(size=(2, 40, 3))
    times = 0.2 * np.arange(21)[None, :, None]
    rate = 1 + 0.3 * ((q**2 + p**2).sum(1) + 2 * np.linalg.norm(np.cross(q, p), axis=1))
    angle = times * rate[:, None, None]
    states = np.concatenate(
        [
            q[:, None] * np.cos(angle) + p[:, None] * np.sin(angle),
            p[:, None] * np.cos(angle) - q[:, None] * np.sin(angle),
        ],
        2,
    )
    own = TrainingData(vp.import_dataset(states, tmp_path / "orbits.h5", step=0.2))
    model = vp.models.SymplecticGeneratingFunctionMap(dim=6, degree=2)
    own.normalise(model)
    forms = find_quadratic_invariants(model, own, 1e-6)
    assert forms
    vp.models.SymplecticGeneratingFunctionMap(dim=6, degree=4, quadratic_invariants=forms)
