"""Training leaves modes of a user's layers as they were, and works in any mode of autograd."""

from contextlib import suppress

import pytest
import torch
from torch import nn

import vpintegrator as vp
from vpintegrator.training.residuals import relative_error


class Noisy(nn.Module):
    """A network whose layers differ in training and in evaluation."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.1), nn.Linear(6, 2)
        ).double()

    def forward(self, z):
        return z + self.layers(z)


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    return vp.generate("pendulum", tmp_path_factory.mktemp("s") / "s.h5", count=20, steps=20)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_layers_keep_their_modes(mode, frozen, swing):
    net = Noisy().train(mode)
    if frozen:
        net.layers[1].eval()

    def modes():
        return [layer.training for layer in net.modules()]

    before = modes()
    windows = torch.from_numpy(swing.states("test")[:, :2])  # (trajectory, time, dim)
    model = vp.wrap(net, dim=2, step=swing.step)
    for use in (
        lambda: vp.wrap(net, dim=2),
        lambda: vp.train(net, swing, epochs=1),
        lambda: vp.train(model, swing, epochs=1),
        lambda: vp.train(net, swing, epochs=1, target=-1.0),  # refused
        lambda: vp.rollout(net, windows[:, 0], 2),
        lambda: relative_error(model, windows[:, :1], windows[:, 1:]),
        lambda: model.derivative(windows[:, :1].numpy()),
    ):
        with suppress(vp.InputError):
            use()
        assert modes() == before


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("optimizer", ["levenberg-marquardt", "adam", "l-bfgs"])
def test_training_in_any_mode_of_autograd(context, optimizer, swing):
    def trained():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2)).double()
        history = vp.train(net, swing, epochs=2, optimizer=optimizer)
        return history.best_validation_error, vp.rollout(net, swing.states("test")[:, 0], 3)

    error, states = trained()
    with context():  # the network is made in it, too
        again, others = trained()
    assert again == error
    assert (others == states).all()


def test_shared_parameters_made_under_inference_mode_stay_shared(swing):
    with torch.inference_mode():
        net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)).double()
        net[2].weight = net[0].weight
        vp.train(net, swing, epochs=1)
    assert net[2].weight is net[0].weight and not net[0].weight.is_inference()
    assert len([*net.parameters()]) == 3


def test_a_fit_under_inference_mode(swing):
    kinds = [vp.training.search("sgf")]
    with torch.inference_mode():
        result = vp.fit(swing, kinds, seconds=30, epochs=5, target=1e-4)
    assert result.error < 1e-4
