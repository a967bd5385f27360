"""Networks and functions of one's own: shapes, comparisons, training, files."""

import numpy as np
import pytest
import torch
from torch import nn

import vpintegrator as vp
from vpintegrator.errors import InputError

STATES = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 2))


class Net(nn.Module):
    """A residual network as others write it."""

    def __init__(self, width=8, dtype=torch.float64):
        super().__init__()
        self.inner = nn.Linear(2, width, dtype=dtype)
        self.outer = nn.Linear(width, 2, dtype=dtype)

    def forward(self, z):
        return z + self.outer(torch.tanh(self.inner(z)))


class Reader(nn.Module):
    """A recurrent network that gives the next state alone."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(2, 5, batch_first=True).double()
        self.out = nn.Linear(5, 2).double()

    def forward(self, windows):
        return self.out(self.cell(windows)[0][:, -1])


class Applied(nn.Module):
    """A module of a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, z):
        return self.function(z)


@pytest.fixture
def net():
    return Net()


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    path = tmp_path_factory.mktemp("swing") / "swing.h5"
    return vp.generate("pendulum", path, count=20, steps=20)


@pytest.mark.parametrize("whole", [True, False])
def test_windows(whole):
    reader = Reader()
    shifted = Applied(lambda z: torch.cat([z[:, 1:], reader(z)[:, None]], dim=1))
    model = vp.wrap(shifted if whole else reader, dim=2, step=0.1, window=3)
    first = np.random.default_rng(1).normal(size=(4, 3, 2))
    states = vp.rollout(model, first, 5)
    assert states.shape == (4, 6, 2)
    with torch.no_grad():
        after = reader(torch.from_numpy(states[:, 2:5])).numpy()
    np.testing.assert_allclose(states[:, 5], after, rtol=1e-14)
    np.testing.assert_allclose(vp.rollout(reader, first, 5), states, rtol=1e-14)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Applied(torch.sum), r"must map states of shape \(5, 2\) to \(5, 2\), but it gives shape"),
        (Applied(lambda z: None), "but it gives None"),
        (Applied(lambda z: 1 / 0), "but it raises ZeroDivisionError: division by zero"),
        (nn.Linear(3, 3), "Linear must map states .* but it raises RuntimeError"),
    ],
)
def test_another_shape_is_told_in_a_sentence(module, message):
    with pytest.raises(InputError, match=message):
        vp.rollout(module, STATES, 1)


@pytest.mark.parametrize("module", [3, None, Net, np.sin])
def test_only_modules_are_models(module, swing):
    for use in (
        lambda: vp.wrap(module, 2),
        lambda: vp.rollout(module, STATES, 1),
        lambda: vp.train(module, swing),
        lambda: vp.compare({"mine": module}, system="pendulum"),
    ):
        with pytest.raises(InputError, match=r"must be a model or a torch module"):
            use()


@pytest.mark.thorough
def test_a_network_stands_beside_methods_and_models(net, swing, tmp_path):
    ours = vp.models.VolumePreservingFeedForward(dim=2, depth=2, functions="polynomial")
    maps = {"mine": net, "ours": ours, "map": nn.Identity()}
    report = vp.compare(maps, "rk4", system=swing.system, steps=20)
    assert list(report.runs) == [*maps, "rk4"] and report.step == swing.system.defaults["step"]
    states = report.runs["mine"].states
    after = net(torch.from_numpy(states[:, 0])).detach()
    np.testing.assert_allclose(states[:, 1], after, rtol=1e-12)
    vp.draw(report, tmp_path / "figures", ["png"])
    assert (tmp_path / "figures" / "overview.png").exists()
    assert "mine" in (tmp_path / "figures" / "table.tex").read_text()
    again = vp.compare([net, net], (), dataset=swing, steps=5, trajectories=2)
    assert list(again.runs) == ["Net", "Net-2"]
    with pytest.raises(InputError, match="says which system it is for"):
        vp.compare(net)


@pytest.mark.parametrize(("dtype", "epochs"), [(torch.float64, 30), (torch.float32, 200)])
def test_parameters_are_trained_in_place(dtype, epochs, swing):
    net = Net(dtype=dtype)
    states = torch.from_numpy(swing.states("test")).to(dtype)

    def error():
        return float((net(states[:, :-1]) - states[:, 1:]).detach().square().mean())

    before = error()
    history = vp.train(net, swing, epochs=epochs)
    assert error() < before / 10
    assert next(net.parameters()).dtype == dtype
    assert history.best_validation_error < 1


def test_a_python_if_on_states_is_differentiated(net, swing):
    branching = Applied(lambda z: net(z) if z.abs().max() < 1.8 else z)
    branching.net = net
    model = vp.wrap(branching, dim=2, step=0.2)
    assert vp.rollout(model, STATES, 3).shape == (6, 4, 2)
    expected = vp.wrap(net, dim=2).derivative(STATES[:, None])
    np.testing.assert_allclose(model.derivative(STATES[:, None]), expected, atol=1e-12)
    assert vp.train(model, swing, epochs=2).epochs == 2
    with pytest.raises(InputError, match="Identity has no parameters to train"):
        vp.train(nn.Identity(), swing)


def test_weights_are_stored_and_fill_a_module_that_is_given(net, swing, tmp_path):
    path = tmp_path / "net.safetensors"
    model = vp.wrap(net, dim=2, step=0.1)
    vp.train(model, swing, epochs=2)
    vp.save(model, path)
    again = vp.load(path, model=Net())
    np.testing.assert_array_equal(vp.rollout(again, STATES, 3), vp.rollout(model, STATES, 3))
    assert (again.record, again.step, again.name) == (model.record, model.step, "Net")
    for module, message in (
        (None, r"of the class '.*test_wrapped.Net', .* a new module .*vp.load\(path, model="),
        (3, "or a new module to be filled"),
        (Net(width=9), "its weights do not fit"),
        (Reader(), "must map states"),
    ):
        with pytest.raises(InputError, match=message):
            vp.load(path, model=module)
    with pytest.raises(InputError, match=r"save vp.wrap\(module"):
        vp.save(net, path)


def test_a_module_that_shares_weights_is_stored(tmp_path):
    tied, fresh = Net(width=2), Net(width=2)
    for module in (tied, fresh):
        module.outer.weight = module.inner.weight
    vp.save(vp.wrap(tied, dim=2, step=0.1), tmp_path / "tied.safetensors")
    again = vp.load(tmp_path / "tied.safetensors", model=fresh)
    np.testing.assert_array_equal(vp.rollout(again, STATES, 2), vp.rollout(tied, STATES, 2))


def test_claims_of_a_module_are_believed(net):
    assert not vp.wrap(net, 2).structure.keeps_volume
    net.volume_preserving = net.symplectic = True
    model = vp.wrap(net, 2)
    assert model.structure.keeps_volume and model.structure.is_symplectic
