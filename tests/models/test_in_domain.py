"""Whether states lie where a model was trained, and rollouts that leave."""

import warnings

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.dynamics.training_domain import Domain


@pytest.fixture(scope="module")
def vortex(tmp_path_factory):
    """A model of Hill's vortex, hardly trained."""
    path = tmp_path_factory.mktemp("vortex") / "vortex.h5"
    data = vp.generate("hill-vortex", path, count=60, steps=10, rtol=1e-8, atol=1e-8)
    sizes = {"functions": "polynomial", "degree": 3, "depth": 2}
    model = vp.models.build(data.system, "vpff", sizes)
    vp.train(model, data, epochs=1, compiled=False)
    return model


def test_the_axis_of_hills_vortex_is_outside(vortex):
    """It has no place in the chart; far away, or not finite, is outside as well."""
    states = np.array([[0.4, 0.2, 0.3], [0.0, 0.0, 0.3], [0.4, 3.0, 0.3], [np.nan, 0.2, 0.3]])
    inside = [True, False, False, False]
    np.testing.assert_array_equal(vortex.in_domain(states), inside)
    assert vortex.in_domain(torch.from_numpy(states)).tolist() == inside
    assert vortex.in_domain(states.tolist()).tolist() == inside
    assert vortex.in_domain(states.reshape(2, 2, 3)).shape == (2, 2)


def test_a_rollout_warns_and_the_model_does_not(vortex):
    first = torch.tensor([[[0.4, 0.2, 0.3]], [[0.0, 0.0, 0.3]]], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vortex(first)
        vp.rollout(vortex, first[:1], 2)
    with pytest.warns(UserWarning, match=r"1 of 2 trajectories leave .* first at step 0;"):
        vp.rollout(vortex, first, 2)


class Shift(torch.nn.Module):
    """Adds 0.25 to p."""

    def forward(self, z):
        return z + torch.tensor([0.0, 0.25]).to(z)


def test_the_step_at_which_the_first_leaves_is_told():
    model = vp.wrap(Shift(), dim=2)
    domain = Domain({"p": (-1.0, 1.0)}, {})
    model.origin = vp.models.Origin(vp.load_system("pendulum"), domain=domain)
    with pytest.warns(UserWarning, match=r"1 of 2 .* first at step 3;"):
        vp.rollout(model, [[0.0, 0.5], [0.0, -0.9]], 5)


def test_a_family_judges_the_state_itself(tmp_path):
    vary = {"step": [0.1, 0.2]}
    data = vp.generate("pendulum", tmp_path / "data.h5", vary=vary, count=20, steps=6)
    model = vp.models.build(data.family.extended, "spff", {"functions": "polynomial", "degree": 3})
    vp.train(model, data, epochs=1, compiled=False)
    assert model.in_domain([[0.5, 0.0], [0.5, 9.0]]).tolist() == [True, False]
    assert model.at(step=0.15).in_domain([[0.5, 0.0], [0.5, 9.0]]).tolist() == [True, False]


def test_models_that_do_not_know_say_so(vortex):
    with pytest.raises(vp.errors.InputError, match="does not say which states"):
        vp.models.ResidualNetwork(dim=2).in_domain([[0.0, 0.0]])
    with pytest.raises(vp.errors.InputError, match="dim 3"):
        vortex.in_domain([0.0, 0.0])
