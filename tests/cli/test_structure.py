"""Structure that measured data support, as the commands say it."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.cli.gen import main as generate
from vpintegrator.cli.structure import contradiction, found_structure, structure_lines
from vpintegrator.cli.train import main as train


@pytest.fixture(scope="module")
def damped(tmp_path_factory):
    """Noisy orbits of a pendulum with friction, taken for symplectic."""
    rng = np.random.default_rng(0)
    states = [rng.uniform(-1, 1, (60, 2))]
    for _ in range(15):
        q, p = states[-1].T
        p = 0.99 * (p - 0.2 * np.sin(q))
        states.append(np.stack([q + 0.2 * p, p], 1))
    noisy = np.stack(states, 1) + 1e-3 * rng.normal(size=(60, 16, 2))
    path = tmp_path_factory.mktemp("structure") / "lab.h5"
    return vp.import_dataset(noisy, path, step=0.2, components=["q", "p"])


def test_inspection_prints_few_lines(run, damped):
    found = run(generate, "--inspect", str(damped.path), "--overwrite")
    assert found.exit_code == 0, found.output
    assert "volume: not preserved" in found.output
    assert "contraction: volumes shrink by 0.0" in found.output
    assert len(list(structure_lines(vp.data.inspect_structure(damped)))) <= 6


def test_models_that_the_data_reject(damped):
    model = vp.models.build(damped.system, "spff")
    assert contradiction(model, damped).startswith("the data contradict the symplectic form (p = ")
    assert contradiction(vp.models.build(damped.system, "resnet"), damped) == ""


def test_a_constant_of_friction_is_taken_where_the_data_contract(run, damped):
    options = ["-o", "m.safetensors", "--seconds", "5", "--orbits", "0"]
    told = run(train, damped.path, *options)
    assert told.exit_code == 0, told.output
    assert "volumes shrink uniformly by 0.0" in told.output
    assert "conformally symplectic" in told.output and "friction 0.0" in told.output
    assert "Warning" not in told.output
    assert vp.load("m.safetensors").arguments["damping"] is True
    assert "friction" in run(generate, "--inspect", "m.safetensors").output


def test_another_model_is_told_of_friction(damped):
    plain = vp.models.build(damped.system, "sgf", degree=2)
    assert "--option damping=true" in contradiction(plain, damped)
    with_friction = vp.models.build(damped.system, "sgf", degree=2, damping=True)
    assert contradiction(with_friction, damped) == ""


def test_the_symplectic_form_is_found_where_nothing_claims_it(run, tmp_path):
    rng = np.random.default_rng(0)
    states = [rng.uniform(-1, 1, (60, 4))]
    for _ in range(8):
        q, p = states[-1][:, :2], states[-1][:, 2:]
        p = p - 0.2 * (q + 0.3 * q[:, ::-1] + 0.2 * q**3)
        states.append(np.concatenate([q + 0.2 * p, p], 1))
    data = vp.import_dataset(np.stack(states, 1), tmp_path / "two.h5", step=0.2)
    kind, sentence = found_structure(data)
    assert kind == "symplectic" and "sgf is tried" in sentence
    told = run(train, data.path, "--seconds", "4", "--orbits", "0", "--no-verdict")
    assert told.exit_code == 0, told.output
    assert "support the symplectic form" in told.output
