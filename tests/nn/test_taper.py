"""Couplings that fade outside a region stay what they are: shears, and equivariant."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.systems import system
from vpintegrator.compiled import compile_model
from vpintegrator.errors import InputError
from vpintegrator.nn.basis_coupling import BasisCoupling
from vpintegrator.nn.taper import END, tapered

BODY = system("rigid-body").reversing_symmetries
FLIPS = [np.diag([1.0, -1.0, -1.0]), np.diag([-1.0, 1.0, -1.0])]


def states(seed, size=3, count=40):
    """Inside, where the weight falls, and far outside."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(count, 3, dtype=torch.float64, generator=generator)
    return size * z


def layer(seed, taper=1.5, **options):
    torch.manual_seed(seed)
    made = BasisCoupling(3, 4, taper=taper, **options)
    with torch.no_grad():
        made.coefficients.copy_(0.5 * torch.randn_like(made.coefficients))
    return made


@given(st.integers(0, 10_000), st.sampled_from([0.5, 2.0, 30.0]))
@settings(max_examples=20)
def test_volume_and_inverse(seed, size):
    coupling, z = layer(seed, symmetries=FLIPS), states(seed, size)
    jacobian = torch.func.vmap(torch.func.jacrev(coupling))(z[:10])
    sizes = jacobian.abs().amax((1, 2)).clamp(min=1) ** 3
    assert ((torch.linalg.det(jacobian) - 1).abs() <= 1e-12 * sizes).all()
    back = coupling.inverse(coupling(z))
    assert ((back - z).abs().amax() / z.abs().amax()) <= 1e-11
    for rho in torch.from_numpy(np.stack(FLIPS)):
        torch.testing.assert_close(coupling(z @ rho.T), coupling(z) @ rho.T, rtol=0, atol=1e-11)


def test_exactly_as_it_was_inside_and_nothing_outside():
    tapering, free = layer(0), layer(0, taper=None)
    z = states(1, size=0.4).clamp(-1.49, 1.49)
    # components move on the way: each block is looked at alone
    for a in range(3):
        assert torch.equal(tapering.move(z, a), free.move(z, a))
        far = torch.full_like(z, 1.5 * END)
        assert not tapering.move(far, a).any()
        assert not tapering.move(1e200 * far, a).any()
        assert torch.equal(tapering.move(far, a), -tapering.move(far, a))


def test_the_weight_falls_smoothly():
    x = torch.linspace(0, 3, 3001, dtype=torch.float64).unsqueeze(1)
    inside, weight = tapered(x, [0], 1.5)
    assert torch.equal(weight[x <= 1.5], torch.ones_like(weight[x <= 1.5]))
    assert not weight[x >= 2.25].any() and inside.max() == 2.25
    first, second = (np.diff(weight.squeeze().numpy(), n) / 1e-3**n for n in (1, 2))
    assert first.max() <= 0
    assert np.abs(np.diff(second)).max() < 0.05 * np.abs(second).max()


def test_angles_do_not_fade():
    torch.manual_seed(0)
    coupling = BasisCoupling(2, 2, periodic=[0], taper=1.0)
    z = torch.tensor([[100.0, 0.3], [100.0, 7.0]], dtype=torch.float64)
    assert coupling(z)[0, 1] != z[0, 1]  # moved by the angle
    assert coupling.move(z, 0)[1, 0] == 0  # not moved from far away


@pytest.mark.parametrize("name", ["vpff", "vpt", "vpmt"])
def test_models_are_reversible_compiled_and_kept_in_files(name, tmp_path):
    torch.manual_seed(0)
    options = {"window": 2} if name != "vpff" else {}
    model = vp.models.ARCHITECTURES[name](
        dim=3,
        depth=1,
        functions="polynomial",
        degree=3,
        taper=1.0,
        reversing_symmetries=BODY,
        initial_scale=1.0,
        **options,
    )
    window = states(2, count=30 * model.window).reshape(-1, model.window, 3)
    rho = torch.from_numpy(BODY[0])
    # R Phi R Phi = 1, R turning time round too
    turned = lambda z: (z @ rho.T).flip(1)  # noqa: E731
    with torch.no_grad():
        back = turned(model(turned(model(window))))
        assert (back - window).abs().max() / window.abs().max() <= 1e-11
        vp.save(model, tmp_path / "model.safetensors")
        other = vp.load(tmp_path / "model.safetensors")
        assert other.arguments["taper"] == 1.0
        torch.testing.assert_close(other(window), model(window), rtol=0, atol=0)
    if name == "vpff":
        found, _ = compile_model(model, len(window), window.numpy()).advance(window.numpy(), 1)
        np.testing.assert_allclose(found, model.predict(window).detach(), rtol=1e-11, atol=1e-12)


def test_it_is_stored_only_where_it_is_given():
    model = vp.models.VolumePreservingFeedForward(dim=3, functions="polynomial")
    assert "taper" not in model.arguments


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"functions": "polynomial", "taper": -1.0}, "must be positive"),
        ({"taper": 3.0}, "functions = polynomial"),
        ({"feed_forward": "triangular", "taper": 3.0}, "for couplings"),
    ],
)
def test_mistakes(options, words):
    with pytest.raises(InputError, match=words):
        vp.models.VolumePreservingFeedForward(dim=3, **options)
