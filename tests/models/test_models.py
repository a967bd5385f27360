"""Structure of the volume-preserving models, whatever their weights."""

import copy
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.needed import needed
from tests.nn.laws import SIGN_FLIPS, assert_close, determinant_error, randomise, sample
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import (
    ARCHITECTURES,
    StandardTransformer,
    VolumePreservingFeedForward,
    VolumePreservingMultiheadTransformer,
    VolumePreservingTransformer,
)
from vpintegrator.models.arguments import arguments_of

MOMENTA = torch.diag(torch.tensor([1.0, 1, -1, -1])).tolist()
POSITIONS = torch.diag(torch.tensor([-1.0, -1, 1, 1])).tolist()

MODELS = {
    "vpt": lambda **k: VolumePreservingTransformer(**k),
    "vpt, two units, time mixing": lambda **k: VolumePreservingTransformer(time_mixing=True, **k),
    "vpt, triangular": lambda **k: VolumePreservingTransformer(feed_forward="triangular", **k),
    "vpt, coupled": lambda **k: VolumePreservingTransformer(weighting="coupled", **k),
    "vpmt": lambda **k: VolumePreservingMultiheadTransformer(depth=1, attention_width=4, **k),
    "vpff": lambda window, **k: VolumePreservingFeedForward(**k),
    "vpff, to and fro": lambda window, **k: VolumePreservingFeedForward(
        functions="polynomial", degree=2, sweep="symmetric", **k
    ),
    "vpff, triangular": lambda window, **k: VolumePreservingFeedForward(
        feed_forward="triangular", **k
    ),
}


def reflect(model, rho, X):
    return X.flip(-2) @ torch.tensor(rho).double().mT


@pytest.mark.parametrize("name", MODELS)
@given(
    st.integers(2, 6), st.integers(2, 8), st.integers(0, 10**6), st.sampled_from([None, 0.2, 0.5])
)
def test_volume_and_inverse(name, dim, window, seed, scale):
    torch.manual_seed(seed)
    model = MODELS[name](dim=dim, window=window)
    if scale is not None:  # ten shears of polynomials overflow with larger weights
        randomise(model, 0.05 if name == "vpff, to and fro" else scale, seed)
    model.set_normalisation(sample(dim, seed=seed), sample(dim, seed=seed).abs() + 0.5)
    X = sample(model.window, dim, seed=seed)
    assert model.structure.keeps_volume
    # with weights this large the Jacobian's own conditioning costs a digit
    assert determinant_error(model, X) <= (1e-9 if scale == 0.5 else 1e-10)
    Y = model(X)
    assert_close(model.inverse(Y), X, 1e-10 * max(1.0, float(Y.detach().abs().max())))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("system", ["flips", "one flip", "hamiltonian"])
@settings(max_examples=10)  # 24 kinds of models
@given(st.integers(0, 10**6))
def test_reversible_for_every_symmetry(name, system, seed):
    dim, rhos, split = {
        "flips": (3, SIGN_FLIPS, "coordinates"),
        "one flip": (3, SIGN_FLIPS[:1], "coordinates"),
        "hamiltonian": (4, [MOMENTA, POSITIONS], "halves"),
    }[system]
    model = MODELS[name](dim=dim, window=3, width=5, split=split, reversing_symmetries=rhos)
    randomise(model, 0.3, seed)
    model.set_normalisation(sample(dim, seed=seed), sample(dim, seed=seed).abs() + 0.5)
    X = sample(model.window, dim, seed=seed)
    phi = model(X)
    assert not torch.equal(phi, X)
    for rho in rhos:
        assert_close(reflect(model, rho, model(reflect(model, rho, phi))), X)
        for sigma in rhos:
            S = torch.tensor(rho).double() @ torch.tensor(sigma).double()
            assert_close(model(X @ S.mT), phi @ S.mT)
    assert determinant_error(model, X) <= 1e-10
    assert_close(model.inverse(phi), X)


def test_the_attention_that_survives():
    assert VolumePreservingTransformer(dim=3).weighting == "skew"
    one = VolumePreservingTransformer(dim=3, reversing_symmetries=SIGN_FLIPS[:1])
    assert one.weighting == "skew"
    assert (
        VolumePreservingTransformer(dim=3, reversing_symmetries=SIGN_FLIPS).weighting == "coupled"
    )


def test_a_skew_weighting_that_is_asked_for_is_not_replaced():
    with pytest.raises(InputError, match='use "coupled"'):
        VolumePreservingTransformer(dim=3, weighting="skew", reversing_symmetries=SIGN_FLIPS)
    VolumePreservingTransformer(dim=3, weighting="skew", reversing_symmetries=SIGN_FLIPS[:2])


@pytest.mark.parametrize("flips", [SIGN_FLIPS, SIGN_FLIPS[:2], SIGN_FLIPS[1:], SIGN_FLIPS[:1]])
def test_components_that_triangular_layers_cannot_move(flips):
    """The warning names those that never move, whatever the weights, and no others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = VolumePreservingFeedForward(
            dim=3, feed_forward="triangular", reversing_symmetries=flips
        )
    randomise(model, 0.5, 1)
    X = sample(20, 1, 3)
    rest = [i for i in range(3) if (model(X) - X)[..., i].abs().max() < 1e-12]
    assert rest == ([1] if len(flips) == 3 else [])
    assert [f"components {rest}" in str(w.message) for w in caught] == [True] * (3 * bool(rest))


PUBLISHED = {
    VolumePreservingFeedForward: (135, 0),
    VolumePreservingTransformer: (162, 2),
    StandardTransformer: (189, 2),
}


@pytest.mark.parametrize("architecture", PUBLISHED)
def test_published_networks(architecture):
    """Sizes and precision are those of arXiv 2312.11166."""
    torch.manual_seed(0)
    model = architecture.published(3)
    count, more = PUBLISHED[architecture]
    assert sum(p.numel() for p in model.parameters()) == count
    assert model.prediction_window == model.window == 1 + more
    weights = dict(model.core.named_parameters())
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    torch.manual_seed(0)
    double = architecture.published(3, dtype="float64")
    for name, weight in double.core.named_parameters():
        assert torch.equal(weight.float(), weights[name])


def test_the_published_transformer_with_an_arbitrary_weighting():
    """180 parameters in 33 layers."""
    model = VolumePreservingTransformer.published(3, weighting="arbitrary")
    assert sum(p.numel() for p in model.parameters()) == 180
    assert not model.structure.keeps_volume
    with pytest.raises(InputError, match="no explicit inverse"):
        model.inverse(sample(3, 3))


def small(name, **wanted):
    """A model with those of the arguments that its class has, reversible if it can be."""
    wanted |= {"reversing_symmetries": [MOMENTA, POSITIONS]}
    declared = arguments_of(ARCHITECTURES[name])
    known = {key: value for key, value in wanted.items() if key in declared}
    return ARCHITECTURES[name](dim=4, **needed(name), **known)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_any_device(name):
    """Nothing is left behind when a model moves: the meta device stands for any other one."""
    model = small(name).to("meta")
    X = torch.zeros(2, model.window, 4, dtype=torch.float64, device="meta")
    assert model(X).device.type == "meta"
    if model.invertible:
        assert model.inverse(X).device.type == "meta"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_compiles_and_copies(name):
    model = small(name, depth=1)
    X = sample(2, model.window, 4)
    torch._dynamo.reset()  # it compiles one function for a few models at most
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert_close(compiled(X), model(X), 1e-13)
    assert_close(copy.deepcopy(model)(X), model(X), 0)


def test_normalisation_respects_symmetries():
    swap = [[0.0, 1, 0], [1, 0, 0], [0, 0, -1]]
    model = VolumePreservingFeedForward(
        dim=3,
        split=[[0, 1], [2]],
        reversing_symmetries=[swap],
    )
    model.set_normalisation([1.0, 3, 5], [1.0, 4, 3])
    assert_close(model.shift, torch.tensor([2.0, 2, 0], dtype=torch.float64))
    assert_close(model.scale, torch.tensor([2.0, 2, 3], dtype=torch.float64))
    with pytest.raises(InputError, match="positive"):
        model.set_normalisation([0, 0, 0], [1, 0, 1])
    with pytest.raises(InputError, match="shift must hold 3 finite numbers"):
        model.set_normalisation([0, 0], [1, 1, 1])


def test_prediction_window():
    model = VolumePreservingTransformer(dim=2, window=4, prediction_window=1)
    X = sample(5, 4, 2)
    assert_close(model.predict(X), model(X)[:, 3:])
    with pytest.raises(InputError, match="prediction_window = 5"):
        VolumePreservingTransformer(dim=2, window=4, prediction_window=5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture(name):
    torch.manual_seed(0)
    model = ARCHITECTURES[name](dim=4, **needed(name))
    assert (model.name, bool(model.description)) == (name, True)
    X = sample(6, model.window, 4)
    assert model(X).shape == X.shape
    assert model.predict(X).shape == (6, model.prediction_window, 4)
    states, _ = CompiledModel(model.eval(), 6).predict(X.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(X).detach(), 1e-11)
    with pytest.raises(InputError, match=r"dim 4|, 4\)"):
        model(X[..., :3])
    # Jacobians with respect to the weights, as Levenberg-Marquardt takes them
    parameters = {key: value.detach() for key, value in model.named_parameters()}
    if not parameters:
        assert name == "classical"
        return
    jacobian = torch.func.vmap(
        torch.func.jacrev(lambda p, x: torch.func.functional_call(model, p, (x,))), (None, 0)
    )(parameters, X)
    assert all(torch.isfinite(block).all() for block in jacobian.values())
    if model.structure.keeps_volume:
        assert determinant_error(model, X[0]) <= 1e-10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VolumePreservingTransformer(dim=3, window=1), "window"),
        (lambda: VolumePreservingTransformer(dim=1), "dim"),
        (lambda: VolumePreservingMultiheadTransformer(dim=3, heads=3), "dim = 4 .* heads = 3"),
        (lambda: VolumePreservingFeedForward(dim=3, split="halves"), "even number"),
        (lambda: VolumePreservingFeedForward(dim=3, split=["01", "2"]), "list of lists of indices"),
        (
            lambda: VolumePreservingTransformer(
                dim=3, weighting="arbitrary", reversing_symmetries=SIGN_FLIPS
            ),
            "cannot be made reversible",
        ),
        (
            lambda: VolumePreservingFeedForward(dim=2, reversing_symmetries=[[[0, 1], [1, 0]]] * 2),
            None,
        ),
        (
            lambda: VolumePreservingFeedForward(
                dim=2, reversing_symmetries=[[[0, 1], [1, 0]], [[1, 0], [0, -1]]]
            ),
            "choose a split",
        ),
    ],
)
def test_mistakes(make, message):
    if message is None:
        make()
        return
    with pytest.raises(InputError, match=message):
        make()


def test_the_standard_transformer_has_width_eight_at_least():
    model = StandardTransformer(dim=3, width=3, positions=False, prediction_window=None)
    assert model.prediction_window == 3
    assert any(part.shape == (8, 3) for part in StandardTransformer(dim=3).parameters())
