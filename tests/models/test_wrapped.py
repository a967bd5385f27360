"""Networks and functions of one's own: shapes, comparisons, training, files."""

import numpy as np
import pytest
import torch
from torch import nn

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.rollout.flow import DifferencesFlow

TURN = np.array([[0.8, 0.6], [-0.6, 0.8]])
STATES = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 2))


class Net(nn.Module):
    """A residual network as others write it, in single precision unless told otherwise."""

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


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    path = tmp_path_factory.mktemp("swing") / "swing.h5"
    return vp.generate("pendulum", path, count=20, steps=20)


def kicked(x, p):
    return x, p - 0.1 * x**2


def in_rows(z):
    return np.stack(kicked(z[..., 0], z[..., 1]), axis=-1) @ TURN.T


def in_columns(z):
    x, p = z
    return TURN @ np.array(kicked(x, p))


def of_one_state(z):
    return TURN @ np.array(kicked(float(z[0]), float(z[1])))


def in_windows(z):
    assert z.ndim == 3
    return in_rows(z)


def of_tensors(z):
    return torch.stack(kicked(z[..., 0], z[..., 1]), dim=-1) @ torch.as_tensor(TURN.T).to(z)


@pytest.mark.parametrize("turn", [in_rows, in_columns, of_one_state, in_windows, of_tensors])
def test_functions_of_every_shape_are_the_same_map(turn):
    model = vp.wrap(turn, dim=2)
    expected = np.stack([STATES, in_rows(STATES), in_rows(in_rows(STATES))], axis=1)
    np.testing.assert_allclose(vp.rollout(model, STATES, 2), expected, rtol=1e-14)
    np.testing.assert_allclose(vp.rollout(turn, STATES, 2), expected, rtol=1e-14)
    assert model.differentiable == (turn is of_tensors)
    assert vp.rollout(model, torch.from_numpy(STATES), 2).shape == (6, 3, 2)


def test_functions_in_single_precision_are_differentiated_all_the_same():
    def turn(z):
        return in_rows(z.astype(np.float32))

    ring = vp.load_system('measured = true\nstate = ["x", "px"]\n')
    flow = vp.rollout.as_flow(vp.wrap(turn, 2, step=1), ring)
    exact = vp.rollout.as_flow(vp.wrap(of_tensors, 2, step=1), ring)
    windows = STATES[:, None]
    np.testing.assert_allclose(flow.derivative(windows), exact.derivative(windows), atol=1e-4)


def test_derivatives_of_functions_are_differences():
    ring = vp.load_system('measured = true\nsymplectic = true\nstate = ["x", "px"]\n')
    flow = vp.rollout.as_flow(vp.wrap(in_columns, 2, step=1), ring)
    exact = vp.rollout.as_flow(vp.wrap(of_tensors, 2, step=1), ring)
    assert isinstance(flow, DifferencesFlow) and not isinstance(exact, DifferencesFlow)
    assert "central differences" in flow.description
    windows, vectors = STATES[:, None], np.eye(2)[:, :1]
    np.testing.assert_allclose(flow.derivative(windows), exact.derivative(windows), atol=1e-11)
    np.testing.assert_allclose(
        flow.tangent(windows, vectors), exact.tangent(windows, vectors), atol=1e-11
    )
    assert vp.rollout.diagnostics.symplecticity_defect(flow, windows) < 1e-11


@pytest.mark.parametrize("whole", [True, False])
def test_windows(whole):
    torch.manual_seed(0)
    reader = Reader()

    def shifted(windows):
        return torch.cat([windows[:, 1:], reader(windows)[:, None]], dim=1)

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
        (lambda z: z.sum(), r"must map states of shape \(5, 2\) to \(5, 2\), but it gives shape"),
        (lambda z: None, "but it gives None"),
        (lambda z: 1 / 0, "but it raises ZeroDivisionError: division by zero"),
        (nn.Linear(3, 3), "Linear must map states .* but it raises RuntimeError"),
        (lambda z: z[..., :1], r"but it gives shape \(5, 1\)"),
    ],
)
def test_another_shape_is_told_in_a_sentence(module, message):
    with pytest.raises(InputError, match=message):
        vp.rollout(module, STATES, 1)


@pytest.mark.parametrize("module", [3, None, "net", Net, np.zeros(3)])
def test_only_modules_and_functions_are_models(module, swing):
    for use in (
        lambda: vp.wrap(module, 2),
        lambda: vp.rollout(module, STATES, 1),
        lambda: vp.train(module, swing),
        lambda: vp.compare({"mine": module}, system="pendulum"),
    ):
        with pytest.raises(InputError, match=r"torch module or a function of states"):
            use()


@pytest.mark.thorough
def test_a_network_stands_beside_methods_and_models(net, swing, tmp_path):
    ours = vp.models.VolumePreservingFeedForward(dim=2, depth=2, functions="polynomial")
    report = vp.compare(
        {"mine": net, "ours": ours, "map": lambda z: z}, "rk4", system=swing.system, steps=20
    )
    assert list(report.runs) == ["mine", "ours", "map", "rk4"]
    step = swing.system.defaults["step"]
    states = report.runs["mine"].states
    with torch.no_grad():
        after = net(torch.from_numpy(states[:, 0])).numpy()
    np.testing.assert_allclose(states[:, 1], after, rtol=1e-12)
    assert report.step == step
    vp.draw(report, tmp_path / "figures", ["png"])
    assert (tmp_path / "figures" / "overview.png").exists()
    assert "mine" in (tmp_path / "figures" / "table.tex").read_text()
    again = vp.compare([net, net], (), dataset=swing, steps=5, trajectories=2)
    assert list(again.runs) == ["Net", "Net-2"]
    with pytest.raises(InputError, match="does not say which system it is for"):
        vp.compare(net)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_parameters_are_trained_in_place(dtype, swing):
    torch.manual_seed(0)
    net = Net(dtype=dtype)
    states = torch.from_numpy(swing.states("test")).to(dtype)

    def error():
        with torch.no_grad():
            return float((net(states[:, :-1]) - states[:, 1:]).square().mean())

    before = error()
    history = vp.train(net, swing, epochs=30 if dtype == torch.float64 else 200)
    assert error() < before / 10
    assert next(net.parameters()).dtype == dtype
    assert history.best_validation_error < 1


def test_what_has_nothing_to_train_is_refused(swing):
    with pytest.raises(InputError, match="in_rows has no parameters to train"):
        vp.train(in_rows, swing)


def test_weights_are_stored_and_fill_a_module_that_is_given(net, swing, tmp_path):
    path = tmp_path / "net.safetensors"
    model = vp.wrap(net, dim=2, step=0.1)
    vp.train(model, swing, epochs=2)
    vp.save(model, path)
    found = vp.load(path, module=Net())
    np.testing.assert_array_equal(vp.rollout(found, STATES, 3), vp.rollout(model, STATES, 3))
    assert found.metadata == model.metadata
    assert found.name == "Net"
    for module, message in (
        (None, r"holds the weights of a module .*test_wrapped.Net, .*vp.load\(path, module="),
        (3, "whose code is not in the file"),
        (Net(width=9), "do not fit the module given"),
        (Reader(), "is missing|is not expected"),
    ):
        with pytest.raises(InputError, match=message):
            vp.load(path, module=module)
    with pytest.raises(InputError, match=r"save vp.wrap\(module"):
        vp.save(net, tmp_path / "other.safetensors")
    ours = tmp_path / "ours.safetensors"
    vp.save(vp.models.ResidualNetwork(dim=2), ours)
    with pytest.raises(InputError, match="leave out module"):
        vp.load(ours, module=net)


def test_a_module_that_shares_weights_is_stored(tmp_path):
    tied = Net(width=2)
    tied.outer.weight = tied.inner.weight
    vp.save(vp.wrap(tied, dim=2, step=0.1), tmp_path / "tied.safetensors")
    fresh = Net(width=2)
    fresh.outer.weight = fresh.inner.weight
    found = vp.load(tmp_path / "tied.safetensors", module=fresh)
    np.testing.assert_array_equal(vp.rollout(found, STATES, 2), vp.rollout(tied, STATES, 2))


def test_flows_of_functions_need_a_system_or_a_number_of_components():
    with pytest.raises(InputError, match=r"vp.wrap\(module, dim"):
        vp.rollout.as_flow(in_rows)
    with pytest.raises(InputError, match="for which step"):
        vp.rollout.as_flow(in_rows, vp.load_system("pendulum"))
    assert vp.rollout.as_flow(in_rows, vp.load_system("standard-map")).step == 1


def test_claims_of_a_module_are_believed(net):
    assert not vp.wrap(net, 2).volume_preserving
    net.volume_preserving = net.symplectic = True
    model = vp.wrap(net, 2)
    assert model.volume_preserving and model.symplectic
