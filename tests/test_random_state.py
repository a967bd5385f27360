"""No public function changes the random state of torch or NumPy; a seed decides alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp

STATES = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 9, 2))


@pytest.fixture(scope="module")
def given_values(tmp_path_factory):
    """A system, data, a model, and a folder for files."""
    folder = tmp_path_factory.mktemp("random")
    system = vp.load_system("pendulum")
    dataset = vp.generate(system, folder / "data.h5", count=6, steps=6)
    model = vp.models.build(
        system, "vpff", {"functions": "polynomial", "degree": 2, "depth": 1}, seed=0
    )
    vp.save(model, folder / "model.safetensors")
    return system, dataset, model, folder


CALLS = {
    "build": lambda s, d, m, f: vp.models.build(s, "vpff", seed=3),
    "compare": lambda s, d, m, f: vp.compare(m, "rk4", system=s, steps=4, trajectories=2),
    "fit": lambda s, d, m, f: vp.fit(d, epochs=2),
    "generate": lambda s, d, m, f: vp.generate(s, f / "a.h5", count=4, steps=4, overwrite=True),
    "import": lambda s, d, m, f: vp.import_dataset(
        STATES, f / "b.h5", system=s, step=0.1, overwrite=True
    ),
    "integrate": lambda s, d, m, f: vp.integrate(s, "rk4", [[0.1, 0.0]], 0.1, 3),
    "load": lambda s, d, m, f: vp.load(f / "model.safetensors"),
    "load_system": lambda s, d, m, f: vp.load_system("kepler"),
    "prolong": lambda s, d, m, f: vp.prolong(m, depth=2),
    "rollout": lambda s, d, m, f: vp.rollout(m, STATES[:, 0], 3),
    "save": lambda s, d, m, f: vp.save(m, f / "c.safetensors", overwrite=True),
    "solve": lambda s, d, m, f: vp.solve(s, STATES[:, 0], [0.0, 1.0]),
    "train": lambda s, d, m, f: vp.train(vp.prolong(m, depth=2), d, epochs=2),
    "wrap": lambda s, d, m, f: vp.wrap(torch.nn.Identity(), 2, 0.1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_random_state_stays(name, given_values, seed):
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    CALLS[name](*given_values)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


@given(seed=st.none() | st.integers(0, 2**63 - 1), states=st.tuples(*[st.integers(0, 99)] * 2))
def test_weights_are_those_of_the_seed_or_of_the_state(seed, states):
    system, weights = vp.load_system("pendulum"), []
    for state in states:
        torch.manual_seed(state)
        model = vp.models.build(system, "vpff", {"functions": "neurons", "depth": 1}, seed=seed)
        weights.append(torch.nn.utils.parameters_to_vector(model.parameters()))
    assert torch.equal(*weights) == (seed is not None or states[0] == states[1])
