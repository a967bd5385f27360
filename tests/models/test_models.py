"""Every model: its structure whatever its weights, files, copies, machine code, its arguments."""

import contextlib
import copy
import warnings

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.models import cases
from tests.models.cases import choices, diagonal, made, solvable
from tests.nn.laws import (
    SIGN_FLIPS,
    assert_close,
    determinant_error,
    randomise,
    sample,
    symplecticity_defect,
)
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.growth import layers
from vpintegrator.models.stored import arguments_of
from vpintegrator.nn import TimeMixing
from vpintegrator.training import History

TRANSFORMER, SPFF, VPFF, VPMT, VPT = (
    ARCHITECTURES[name] for name in ("transformer", "spff", "vpff", "vpmt", "vpt")
)


def windows(model, seed=0, scale=0.5, count=()):
    """Windows about the centre of the normalisation, and the parameters of a family."""
    X = model.shift + model.scale * sample(*count, model.window, model.dim, seed=seed, scale=scale)
    k = [0.5 * sample(2, seed=seed + 1)] if model.parameter_count else []
    return X.detach(), k


@pytest.mark.parametrize(
    "case",
    cases.VOLUME | cases.SIZED | cases.REVERSIBLE | cases.SYMPLECTIC | cases.FAMILIES,
)
@settings(max_examples=10)
@given(
    st.integers(0, 10**6),
    st.integers(2, 6),
    st.integers(2, 8),
    st.sampled_from([None, 0.2, 0.5]),
)
def test_what_models_keep_at_any_weights(case, seed, dim, window, scale):
    """Volume, form, inverse, reversibility, and the symmetries that are products of two."""
    if scale is not None and ("to and fro" in case or case in cases.FAMILIES):
        scale = 0.05  # ten shears of polynomials overflow with larger weights
    model = made(
        case, seed, scale, **({"dim": dim, "window": window} if case in cases.VOLUME else {})
    )
    X, k = windows(model, seed)
    symplectic = model.name in {name for name, _ in cases.SYMPLECTIC.values()}
    assert model.structure.keeps_volume and model.structure.is_symplectic == symplectic
    y = model(X, *k)
    size = max(1.0, float(y.detach().abs().max()))
    assume(size < 1e6)  # polynomials of polynomials may overflow
    # with weights this large the Jacobian's own conditioning costs a digit
    assert determinant_error(lambda z: model(z, *k), X) <= (1e-9 if scale == 0.5 else 1e-10)
    if symplectic:
        assert symplecticity_defect(lambda z: model(z, *k), X) <= 1e-12
    assert_close(model.inverse(y, *k), X, 1e-10 * size)
    if model.arguments.get("vanishing"):
        assert_close(model(X, k[0] * torch.tensor([0.0, 1.0])), X, 1e-15)
    n, rhos = model.dim, model.reversing_symmetries
    for rho in rhos:
        turned = [each @ rho[n:, n:].mT for each in k]
        back = model(y.flip(-2) @ rho[:n, :n].mT, *turned).flip(-2) @ rho[:n, :n].mT
        assert_close(back, X, 1e-10 * size)
        for S in rhos @ rho if not k else ():
            assert_close(model(X @ S.mT), y @ S.mT, 1e-10 * size)


def test_every_model_that_says_symplectic_is():
    """Each choice of each option of every architecture; the cases are examples of more."""
    claiming = set()
    small = {"depth": 1, "degree": 3}  # polynomials of polynomials of high degree overflow
    for name, architecture in ARCHITECTURES.items():
        size = {key: small[key] for key in small if key in arguments_of(architecture)}
        for arguments in choices(architecture):
            with contextlib.suppress(InputError):  # a choice that needs another
                torch.manual_seed(0)
                model = solvable(architecture(dim=4, **{**size, **arguments}))
                if model.structure.is_symplectic:
                    claiming.add(name)
                    randomise(model, 0.5, 1)
                    X = sample(model.window, 4, scale=0.5)
                    assert symplecticity_defect(model, X) <= 1e-12, (name, arguments)
    assert claiming == {name for name, _ in cases.SYMPLECTIC.values()}, "add examples to SYMPLECTIC"


@pytest.mark.parametrize("case", cases.CASES | cases.REVERSIBLE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_files_and_copies(case, dtype, tmp_path):
    model = made(case, dtype=dtype).eval()
    model.origin = vp.models.Origin(step=0.1, dataset="ä.h5")
    history = History("adam", 0, 3, test_error=0.1, test_deviation=0.01)
    model.record = vp.models.Record(history, search=("ä",))
    model.prediction_window = 1
    state = torch.get_rng_state()
    vp.save(model, tmp_path / "model.safetensors")
    again = vp.load(tmp_path / "model.safetensors")
    assert torch.equal(torch.get_rng_state(), state)
    assert type(again) is type(model) and not again.training
    for attribute in ("origin", "record", "arguments", "prediction_window"):
        assert getattr(again, attribute) == getattr(model, attribute)
    X, k = ([each.to(dtype) for each in part] for part in windows(model, count=(2,)))
    X = torch.stack(X)
    for other in (again, copy.deepcopy(model)):
        assert_close(other(X, *k), model(X, *k), 0)
    assert {p.dtype for p in again.parameters()} <= {dtype}
    # nothing is left behind when a model moves: the meta device stands for any other one
    X, k = X.to("meta"), [each.to("meta") for each in k]
    for use in (again.forward, *([again.inverse] if again.invertible else [])):
        assert again.to("meta") and use(X, *k).device.type == "meta"


@pytest.mark.parametrize(
    "case",
    [
        *(cases.DEFAULTS | cases.SIZED | cases.TRANSFORMERS),
        *("LA-SympNet", "HenonNet", "functions of the state", "polynomials of angles"),
        *("exact terms", "explicit time", "vpmt, both kinds of attention"),
        *("shears by softmax", "shears by softmax of columns", "shears by constants"),
        *("separable energies", "separable energies, fourth order"),
    ],
)
def test_machine_code_gives_the_same_map(case):
    model = made(case, 4, 0.2).eval()
    X, _ = windows(model, scale=0.3, count=(6,))
    states, _ = CompiledModel(model, 6).predict(X.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(X).detach(), 1e-11)
    assert any(isinstance(part, torch.nn.LayerNorm) for part in model.modules()) == (
        "encoder" in case
    )


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture(name):
    model = made(name, scale=None)
    assert (model.name, bool(model.description)) == (name, True)
    X, _ = windows(model, count=(6,))
    assert model(X).shape == X.shape
    assert_close(model.predict(X), model(X)[:, model.window - model.prediction_window :], 0)
    torch._dynamo.reset()  # it compiles one function for a few models at most
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert_close(compiled(X), model(X), 1e-13)
    with pytest.raises(InputError, match=r"dim 4|, 4\)"):
        model(X[..., :3])
    # Jacobians with respect to the weights, as Levenberg-Marquardt takes them
    parameters = {key: value.detach() for key, value in model.named_parameters()}
    jacobian = torch.func.vmap(
        torch.func.jacrev(lambda p, x: torch.func.functional_call(model, p, (x,))), (None, 0)
    )(parameters, X)
    assert all(torch.isfinite(block).all() for block in jacobian.values())
    if model.structure.keeps_volume:
        assert determinant_error(model, X[0]) <= 1e-10


def test_the_attention_that_survives():
    """Not a skew one of three sign flips: "auto" takes another, and nothing else is replaced."""
    for flips, weighting in ((), "skew"), (SIGN_FLIPS[:1], "skew"), (SIGN_FLIPS, "coupled"):
        model = VPT(dim=3, reversing_symmetries=flips)
        assert model.weighting == weighting
    with pytest.raises(InputError, match='use "coupled"'):
        VPT(dim=3, weighting="skew", reversing_symmetries=SIGN_FLIPS)
    VPT(dim=3, weighting="skew", reversing_symmetries=SIGN_FLIPS[:2])


def test_one_head_is_the_attention_of_all_components():
    torch.manual_seed(3)
    plain = VPT(dim=4)
    torch.manual_seed(3)
    X = sample(5, 3, 4)
    assert torch.equal(VPT(dim=4, heads=1)(X), plain(X))
    several = VPT(dim=4, heads=2)
    assert any(name.endswith("frame.entries") for name, _ in several.named_parameters())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": 2},
        {"weighting": "arbitrary"},
        {"reversing_symmetries": [diagonal(1, 1, -1, 1)]},
    ],
)
def test_attention_may_begin_as_the_identity(options):
    """Then states are mapped one by one, until attention is trained."""
    model = VPT(dim=4, initial_attention=0.0, **options)
    X = sample(5, 3, 4)
    moved = torch.cat([X[:, :1] + 1, X[:, 1:]], 1)  # another first state
    assert torch.equal(model(moved)[:, 1:], model(X)[:, 1:])
    assert (model(X) - X).abs().max() > 1e-3  # by couplings
    other = VPT(dim=4, initial_scale=0.0, initial_attention=0.5, **options)
    assert (other(moved) - other(X))[:, 1:].abs().max() > 1e-3
    model(X).square().sum().backward()
    assert all(weight.grad.abs().max() > 0 for weight in attention_of(model))


@pytest.mark.parametrize("options", [{}, {"reversing_symmetries": [diagonal(1, 1, -1, 1)]}])
def test_without_attention_states_are_mapped_one_by_one(options):
    """As by the couplings of vpff, whatever their weights."""
    model = VPT(dim=4, weighting="none", **options)
    for weight in model.parameters():
        weight.data.add_(0.3 * torch.randn_like(weight))
    X = sample(5, 3, 4)
    moved = torch.cat([X[:, :1] + 1, X[:, 1:]], 1)  # another first state
    assert torch.equal(model(moved)[:, 1:], model(X)[:, 1:])
    alone = VPFF(dim=4, depth=2, **options)
    alone.load_state_dict(dict(zip(alone.state_dict(), model.state_dict().values(), strict=True)))
    assert_close(model(X), torch.stack([alone(x[:, None])[:, 0] for x in X.unbind(1)], 1), 1e-13)
    assert model.weighting == "none" and model.structure.keeps_volume
    assert not attention_of(model) and not model.attention_summary


def attention_of(model):
    """Weights of the correlations."""
    return [weight for name, weight in model.named_parameters() if "scores" in name]


def test_time_steps_are_mixed_where_the_window_shifts():
    """By default; and the constants are there or not if somebody says so."""
    for sizes, mixed in (
        ({"prediction_window": 3}, False),
        ({"prediction_window": None}, False),
        ({"prediction_window": 2}, True),
        ({"prediction_window": 2, "time_mixing": False}, False),
        ({"prediction_window": 3, "time_mixing": True}, True),
    ):
        parts = [part for part in VPT(dim=3, **sizes).modules() if isinstance(part, TimeMixing)]
        assert len(parts) == (2 if mixed else 0) and all(part.shears for part in parts)


def test_both_kinds_of_attention_are_stacked():
    """Rotations, then softmax inside couplings, then pointwise couplings, in each unit."""
    for weighting, first in (
        ("skew", ["VolumePreservingAttention"]),
        ("auto", ["VolumePreservingAttention"]),
        ("coupled", ["CoupledAttention"]),
        ("none", []),
    ):
        model = VPMT(dim=4, weighting=weighting)
        unit = [*first, "AttentionCoupling", "AdditiveCoupling"]
        assert [type(layer).__name__ for layer in model.core] == 2 * unit
        assert model.structure.keeps_volume
    model = VPMT(dim=3, weighting="auto", reversing_symmetries=SIGN_FLIPS)
    assert type(next(iter(model.core.psi))).__name__ == "CoupledAttention"
    with pytest.raises(InputError, match='use "coupled"'):
        VPMT(dim=3, weighting="skew", reversing_symmetries=SIGN_FLIPS)


def test_a_lift_lets_a_component_turn_with_itself_at_other_times():
    """Where reversing symmetries leave no skew weighting of single states."""
    model = VPT(dim=3, window=4, lift=2, depth=1, reversing_symmetries=SIGN_FLIPS)
    assert model.weighting == "skew" and model.structure.keeps_volume
    entries = layers(model)[0].layer.scores.entries
    assert entries.numel() == 3  # of each component with itself one step later


@pytest.mark.parametrize("flips", [SIGN_FLIPS, SIGN_FLIPS[:2], SIGN_FLIPS[1:], SIGN_FLIPS[:1]])
def test_components_that_triangular_layers_cannot_move(flips):
    """The warning names those that never move, whatever the weights, and no others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = VPFF(dim=3, feed_forward="triangular", reversing_symmetries=flips)
    randomise(model, 0.5, 1)
    X = sample(20, 1, 3)
    rest = [i for i in range(3) if (model(X) - X)[..., i].abs().max() < 1e-12]
    assert rest == ([1] if len(flips) == 3 else [])
    assert [f"components {rest}" in str(w.message) for w in caught] == [True] * (3 * bool(rest))


@pytest.mark.parametrize(
    ("architecture", "arguments", "count", "window"),
    [
        (VPFF, {}, 135, 1),
        (VPT, {}, 162, 3),
        (VPT, {"weighting": "arbitrary"}, 180, 3),
        (TRANSFORMER, {}, 213, 3),
        (TRANSFORMER, {"embedding": False}, 189, 3),
    ],
)
def test_published_networks(architecture, arguments, count, window):
    """Sizes and precision are those of arXiv 2312.11166."""
    models = []
    for dtype in ("float32", "float64"):
        torch.manual_seed(0)
        models.append(architecture.published(3, dtype=dtype, **arguments))
    assert sum(p.numel() for p in models[0].parameters()) == count
    assert models[0].prediction_window == models[0].window == window
    for single, double in zip(*(model.core.parameters() for model in models), strict=True):
        assert single.dtype == torch.float32 and torch.equal(double.float(), single)
    structured = architecture is not TRANSFORMER and not arguments
    assert models[0].structure.keeps_volume == models[0].invertible == structured
    if not structured:
        with pytest.raises(InputError, match="no explicit inverse"):
            models[0].inverse(sample(3, 3))


def test_normalisation_respects_symmetries_and_the_form():
    swap = [[0.0, 1, 0], [1, 0, 0], [0, 0, -1]]
    model = VPFF(dim=3, split=[[0, 1], [2]], reversing_symmetries=[swap])
    model.set_normalisation([1.0, 3, 5], [1.0, 4, 3])
    assert_close(model.shift, torch.tensor([2.0, 2, 0], dtype=torch.float64))
    assert_close(model.scale, torch.tensor([2.0, 2, 3], dtype=torch.float64))
    with pytest.raises(InputError, match="positive"):
        model.set_normalisation([0, 0, 0], [1, 0, 1])
    with pytest.raises(InputError, match="shift must hold 3 finite numbers"):
        model.set_normalisation([0, 0], [1, 1, 1])
    model = SPFF(dim=4, periodic=[(1, 2 * torch.pi)], **cases.POLYNOMIAL)
    model.set_normalisation([0, 0, 0, 0], [2.0, 9.0, 4.0, 0.5])
    assert_close(model.scale, torch.tensor([2.0, 1.0, 0.25, 0.5], dtype=torch.float64), 0)


@pytest.mark.parametrize(
    ("architecture", "arguments", "message"),
    [
        (VPT, {"window": 1}, "window"),
        (VPT, {"dim": 1}, "dim"),
        (VPT, {"prediction_window": 5}, "prediction_window = 5"),
        (TRANSFORMER, {"embedding": False}, "embedding = false needs .* width = 3, not 8"),
        (VPMT, {"heads": 3}, "dim = 4 .* heads = 3"),
        (VPT, {"heads": 2}, "heads = 2: a head .* at least 2 components"),
        (VPT, {"dim": 4, "heads": 2, "weighting": "coupled"}, "heads = 2 are for weighting = skew"),
        (VPT, {"dim": 4, "heads": 2, "weighting": "none"}, "weighting = skew, not none"),
        (VPT, {"window": 4, "lift": 3}, "window = 4 must be divisible by lift = 3"),
        (
            VPT,
            {"window": 3, "lift": 3},
            "lift = 3 leaves one row of window = 3, .* take window = 6",
        ),
        (VPT, {"window": 4, "lift": 2, "expressions": ["z[0]**3"], **cases.POLYNOMIAL}, "lift"),
        (VPT, {"heads": [3], "reversing_symmetries": SIGN_FLIPS}, "are for weighting = skew"),
        (VPFF, {"split": "halves"}, "even number"),
        (VPFF, {"split": ["01", "2"]}, "list of lists of indices"),
        (VPFF, {"conserved": [0]}, r"last of 3 components, .*, not \[0\]"),
        (VPFF, {"parameters": 1, "conserved": [2]}, "a family move all"),
        (
            VPT,
            {"weighting": "arbitrary", "reversing_symmetries": SIGN_FLIPS},
            "cannot be made reversible",
        ),
        (
            VPFF,
            {"dim": 2, "reversing_symmetries": [[[0, 1], [1, 0]], [[1, 0], [0, -1]]]},
            "choose a split",
        ),
        (
            ARCHITECTURES["spt"],
            {"dim": 4, "attention": "linear", "normaliser": "vector"},
            "are for attention = softmax",
        ),
        (SPFF, {}, "an even number of components, not 3; take a volume"),
        (SPFF, {**cases.ALL, "dim": 4, "layer": "henon"}, "respects no symmetries"),
    ],
)
def test_mistakes(architecture, arguments, message):
    with pytest.raises(InputError, match=message):
        architecture(**{"dim": 3} | arguments)


def test_a_symmetry_may_be_given_twice():
    VPFF(dim=2, reversing_symmetries=[[[0, 1], [1, 0]]] * 2)


def test_sizes_of_the_standard_transformer():
    model = TRANSFORMER(dim=3, width=3, positions=False, prediction_window=None)
    assert model.prediction_window == 3
    assert any(part.shape == (8, 3) for part in TRANSFORMER(dim=3).parameters())
    block = {"block": "encoder", "attention": "general", "activation": "relu"}
    sizes = {"width": 6, "heads": 2, "depth": 1, "inner": 9, "positions": False}
    theirs = torch.nn.TransformerEncoderLayer(6, 2, 9, 0.0)
    both = (TRANSFORMER(dim=6, **block, **sizes), theirs)
    assert len({sum(p.numel() for p in module.parameters()) for module in both}) == 1


def test_the_functions_of_a_system_that_are_of_one_half_enter_its_potential():
    oscillators = vp.load_system("coupled-oscillators")
    model = vp.models.build(oscillators, "spff", {"functions": "system", "degree": 2, "depth": 1})
    layer = layers(model)[0]
    assert layer.kinetic.formulas is None
    assert layer.potential.formulas.formulas.texts == ["sigmoid(z[0])"]
    # linear and quadratic terms in q0, q1 and the sigmoid
    assert layer.potential.coefficients.numel() == 9


@pytest.mark.parametrize("name", ["vpff", "spff", "sgf", "vpgf", "resnet"])
def test_every_architecture_leaves_constants_as_they_are(name):
    """And those without structure read them all the same, as they read parameters."""
    torch.manual_seed(0)
    declared = arguments_of(ARCHITECTURES[name])
    size = {"depth": 1} if "depth" in declared else {"degree": 3}
    model = ARCHITECTURES[name](dim=6, conserved=[4, 5], **size).eval()
    family = ARCHITECTURES[name](dim=4, parameters=2, **size).eval()
    assert model.arguments["conserved"] == [4, 5]
    assert "conserved" not in family.arguments and family.arguments["parameters"] == 2
    randomise(model.core, 0.3, 1)
    family.core.load_state_dict(model.core.state_dict())
    model.set_normalisation(0.1, [1, 1.1, 0.9, 0.7, 0.6, 1.3])
    family.set_normalisation(0.1, [1, 1.1, 0.9, 0.7])
    k = torch.tensor([0.3, -0.7], dtype=torch.float64)
    z = sample(5, model.window, 4)
    x = torch.cat([z, k.expand(5, model.window, 2)], -1)
    y = model(x)
    assert torch.equal(y[..., 4:], x[..., 4:])
    assert (model(torch.cat([z, -x[..., 4:]], -1)) - y)[..., :4].abs().max() > 1e-6
    normalised = (k - model.shift[4:]) / model.scale[4:]
    assert_close(family(z, normalised), y[..., :4], 1e-12)
    states, _ = CompiledModel(model, 5).predict(x.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(x).detach(), 1e-11)


@pytest.mark.parametrize("arguments", [{}, {"window": 3, "width": None}])
def test_a_residual_network_at_parameters_is_a_residual_network(arguments):
    whole = vp.models.ResidualNetwork(dim=4, parameters=2, **arguments)
    plain = vp.models.ResidualNetwork(dim=4, **arguments)
    k = torch.tensor([0.3, -0.7], dtype=torch.float64)
    plain.core.load_state_dict(whole.core.at(k).state_dict())
    z = sample(5, plain.window, 4)
    assert_close(plain(z), whole(z, k), 1e-13)


@pytest.mark.parametrize(
    ("arguments", "parameters", "message"),
    [
        ({}, torch.zeros(2), "takes no parameters"),
        ({"parameters": 2}, None, "is a family: give 2 coefficients"),
        ({"parameters": 2}, torch.zeros(3), "axes"),
    ],
)
def test_parameters_that_do_not_fit(arguments, parameters, message):
    model = vp.models.VolumePreservingFeedForward(dim=3, **arguments)
    with pytest.raises((InputError, RuntimeError), match=message):
        model(torch.zeros(4, 1, 3, dtype=torch.float64), parameters)
