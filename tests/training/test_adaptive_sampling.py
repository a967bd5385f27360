"""Training states where a model errs most."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli.train import main
from vpintegrator.errors import InputError
from vpintegrator.training import AdaptiveData, train_where_wrong
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def few(tmp_path):
    return vp.generate("pendulum", tmp_path / "few.h5", count=40, steps=2)


def test_states_are_added_where_errors_are_large(tmp_path):
    text = """
    title = "Right"
    state = ["q", "p"]
    [map]
    p = "p + (1 + tanh(60*q))/2"
    [initial_conditions]
    distribution = "uniform"
    low = [-1, -1]
    high = [1, 1]
    """
    data = vp.generate(text, tmp_path / "right.h5", count=300, steps=1)
    model = vp.models.ResidualNetwork(dim=2, depth=1)
    TrainingData(data).normalise(model)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)  # the identity
    adaptive = AdaptiveData(data)
    largest = adaptive.add_where_wrong(model, 80, np.random.default_rng(0))
    assert len(adaptive.inputs) == 80
    assert (adaptive.inputs[:, 0] > -0.2).all() and (adaptive.inputs[:, 0] > 0).mean() > 0.9
    np.testing.assert_allclose(adaptive.targets, data.system.map(adaptive.inputs), atol=1e-12)
    scale = float(model.state_scale[1])
    assert largest == pytest.approx(1 / scale, rel=1e-6)
    assert len(adaptive.pairs(model)) == len(TrainingData(data).pairs(model)) + 80


def test_images_are_exact_also_of_families_and_of_sections(tmp_path):
    for name, options in [
        ("pendulum", {"step": 0.5}),
        ("pendulum", {"vary": {"step": (0.1, 0.4)}}),
        (vp.return_map("henon-heiles", "q[0] = 0", energy=0.08).text, {}),
        ("standard-map", {"vary": {"K": (0.1, 0.9)}}),
    ]:
        data = vp.generate(name, tmp_path / "a.h5", count=60, steps=1, overwrite=True, **options)
        adaptive = AdaptiveData(data)
        model = vp.models.ResidualNetwork(dim=adaptive.dataset.dim, depth=1)
        adaptive.normalise(model)
        adaptive.add_where_wrong(model, 10, np.random.default_rng(0))
        assert 5 <= len(adaptive.inputs) <= 10
        system, times = adaptive.dataset.system, np.array([0.0, adaptive.dataset.step])
        exact = vp.solve(system, adaptive.inputs, times)[:, -1]
        np.testing.assert_allclose(adaptive.targets, exact, atol=1e-10)


@pytest.mark.thorough
def test_training_goes_on_with_them_and_lowers_the_largest_error(few):
    torch.manual_seed(0)
    model = vp.models.build(few.system, functions="polynomial", degree=5, depth=3)
    options = {"compiled": False, "progress": False}
    before = vp.train(model, few, epochs=30, **options).best_validation_error
    after = train_where_wrong(model, few, 60, epochs=60, progress=False)
    assert after.best_validation_error < before


def test_what_has_no_equations_or_no_single_states_is_refused(tmp_path, few):
    states = np.random.default_rng(0).normal(size=(20, 3, 2))
    measured = vp.data.import_dataset(states, tmp_path / "m.h5", step=1.0)
    with pytest.raises(InputError, match="leave adaptive sampling out"):
        AdaptiveData(measured)
    model = vp.models.VolumePreservingTransformer(dim=2, window=2)
    with pytest.raises(InputError, match="reads several states"):
        train_where_wrong(model, few, 5)
    run = CliRunner().invoke(main, [str(measured.path), "--adaptive", "5"])
    assert run.exit_code == 2 and "adaptive sampling" in run.output


def test_the_command_writes_the_model_again(few):
    output = few.path.with_suffix(".safetensors")
    options = ["--adaptive", "20", "--epochs", "60", "--quiet", "-o", str(output)]
    run = CliRunner().invoke(main, [str(few.path), *options])
    assert run.exit_code == 0, run.output
    assert vp.load(output).metadata["training"]
