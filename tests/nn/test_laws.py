"""What layers claim, at random weights; and what all of them are as modules of torch."""

import copy
import inspect
import itertools
import pickle
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nn.laws import (
    assert_close,
    determinant_error,
    dim_of,
    examples,
    made,
    randomise,
    sample,
    symplecticity_defect,
)
from vpintegrator import nn
from vpintegrator.errors import InputError

LAYERS = examples()
MODULES = {
    kind
    for name in nn.__all__
    if inspect.isclass(kind := getattr(nn, name)) and issubclass(kind, torch.nn.Module)
}
CLAIMING = [name for name in LAYERS if (own := made(name)).volume_preserving or own.parameter_count]
READING = [name for name in CLAIMING if made(name).parameter_count]
# torch copies Stiefel weights alone
COPIED = [name for name in LAYERS if "Stiefel" not in name]


def parameters_of(layer, values=(0.3, -0.7)):
    """The arguments of a layer after states."""
    count = layer.parameter_count
    return (torch.tensor(values[:count]),) if count else ()


def test_every_layer_has_an_example():
    """Also in the list of what tells which laws hold: a claim is tested on the layer itself."""
    layers = [made(name) for name in LAYERS]
    met = {kind for layer in layers for part in layer.modules() for kind in type(part).__mro__}
    kinds = {type(layer) for layer in layers}
    for kind in MODULES:
        claims = [law for law in ("volume_preserving", "symplectic") if getattr(kind, law) is True]
        assert kind in (kinds if claims else met), (
            f"add {kind.__name__} to EXAMPLES of its module of tests in tests/nn: a name, and a "
            "function of (dim, window) that makes a small one"
        )


@pytest.mark.parametrize("name", CLAIMING)
@settings(max_examples=15)
@given(
    st.tuples(st.integers(2, 6), st.integers(2, 8)),
    st.integers(0, 10**6),
    st.sampled_from([None, 0.3, 1.0]),
    st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)),
)
def test_claims(name, sizes, seed, scale, values):
    """Volume, form and inverse of states or windows; each of these may have parameters k."""
    dim, window = sizes
    layer = made(name, dim, window, seed=seed, scale=scale)
    k = parameters_of(layer, values)
    X = sample(3, window, dim_of(layer, dim), seed=seed)
    Y = layer(X, *k)
    # rounding is judged against the size that intermediate states reach
    size = max(1.0, float(Y.detach().abs().max()))
    assert layer.volume_preserving
    assert determinant_error(lambda x: layer(x, *k), X[0]) <= 1e-9 * size
    if layer.symplectic:
        assert symplecticity_defect(lambda x: layer(x, *k), X[0]) <= 1e-12
    assert_close(layer.inverse(Y, *k), X, 1e-10 * size)
    assert_close(layer(layer.inverse(X, *k), *k), X, 1e-9)
    if k:
        several = torch.stack([k[0], 0.5 * k[0], -k[0]])
        apart = [layer(state, own) for state, own in zip(X, several, strict=True)]
        assert_close(layer(X, several), torch.stack(apart), 1e-12 * size)


@pytest.mark.parametrize("name", CLAIMING)
def test_weights_move_states(name):
    layer = made(name)
    X = sample(3, dim_of(layer), scale=0.7)
    assert (layer(X, *parameters_of(layer)) - X).abs().max() > 1e-6


@pytest.mark.parametrize("name", LAYERS)
def test_functional_jacobians(name):
    """What Levenberg-Marquardt does: residual Jacobians of a batch with respect to weights."""
    layer = made(name, window=4, scale=None)
    parameters = {key: value.detach() for key, value in layer.named_parameters()}
    X, k = sample(5, 4, dim_of(layer)), parameters_of(layer)

    def output(parameters, x):
        return torch.func.functional_call(layer, parameters, (x, *k))

    reverse = torch.func.vmap(torch.func.jacrev(output), (None, 0))(parameters, X)
    forward = torch.func.vmap(torch.func.jacfwd(output), (None, 0))(parameters, X)
    for key, value in parameters.items():
        assert reverse[key].shape[: -value.ndim or None] == layer(X, *k).shape
        assert_close(reverse[key], forward[key], 1e-12)
    # and the map is the same one window at a time
    assert_close(torch.func.vmap(output, (None, 0))(parameters, X), layer(X, *k), 1e-13)


@pytest.mark.parametrize("name", LAYERS)
def test_starts_near_the_identity_in_any_dtype(name):
    layer = made(name, scale=None)
    X, k = sample(2, 3, dim_of(layer), scale=0.5), parameters_of(layer)
    if name in CLAIMING and "initial_scale" in inspect.signature(type(layer)).parameters:
        assert (layer(X, *k) - X).abs().max() < 0.2
    layer = layer.float()
    assert layer(X.float(), *(part.float() for part in k)).dtype == torch.float32


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_of_the_default_dtype(name):
    torch.set_default_dtype(torch.float32)
    layer = LAYERS[name](4, 3).eval()
    tensors = [*layer.parameters(), *layer.buffers()]
    assert {x.dtype for x in tensors if x.is_floating_point()} <= {torch.float32}
    x = sample(2, 3, dim_of(layer), scale=0.5).float()
    assert layer(x, *parameters_of(layer)).dtype == torch.float32


@pytest.mark.parametrize("name", COPIED)
def test_a_layer_on_meta_takes_weights(name):
    layer = randomise(LAYERS[name](4, 3), 0.02, 1).eval()
    with torch.device("meta"):
        empty = LAYERS[name](4, 3).eval()
    assert all(parameter.is_meta for parameter in empty.parameters())
    empty.load_state_dict(layer.state_dict(), assign=True)
    x, k = sample(2, 3, dim_of(layer), scale=0.5), parameters_of(layer)
    assert torch.equal(empty(x, *k), layer(x, *k))


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_is_the_same_map(name):
    layer = made(name)
    x, k = sample(2, 3, dim_of(layer), scale=0.5), parameters_of(layer)
    for again in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert torch.equal(again(x, *k), layer(x, *k))


@pytest.mark.parametrize("name", [name for name in READING if hasattr(made(name), "at")])
@settings(max_examples=5)
@given(st.integers(0, 10**6), st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)))
def test_parameters_can_be_multiplied_out(name, seed, values):
    layer = made(name, seed=seed, scale=0.3)
    z, (k,) = sample(3, 1, dim_of(layer), seed=seed), parameters_of(layer, values)
    if getattr(layer, "turn", None) is not None:
        with pytest.raises(InputError, match="takes parameters to others"):
            layer.at(k)
        return
    y, plain = layer(z, k), layer.at(k)
    size = max(1.0, float(y.detach().abs().max()))
    assert_close(plain(z), y, 1e-12 * size)
    assert_close(plain.inverse(plain(z)), z, 1e-10 * size)
    assert plain.volume_preserving and plain.parameter_count == 0
    assert plain.symplectic == layer.symplectic
    layer, z, k = layer.float(), z.float(), k.float()
    assert layer.at(k)(z).dtype == torch.float32
    assert_close(layer.at(k)(z), layer(z, k), 1e-4 * size)


@pytest.mark.parametrize("name", [name for name in LAYERS if "vanishing" in name])
def test_nothing_moves_where_parameters_vanish(name):
    layer, z, none = made(name), sample(3, 1, 4), torch.zeros(2)
    assert torch.equal(layer(z, none), z) and torch.equal(layer.inverse(z, none), z)
    assert_close(layer.at(none)(z), z, 1e-14)


def construction(kind):
    """The arguments of the first layer of a class, not of classes derived of it, in an example."""
    for make in LAYERS.values():
        with mock.patch.object(kind, "__init__", autospec=True, side_effect=kind.__init__) as own:
            make(4, 3)
        for call in own.call_args_list:
            if type(call.args[0]) is kind:
                return call.args[1:], call.kwargs
    raise AssertionError(f"no example has a {kind.__name__}")


def is_of_layers(arguments):
    parts = [value if isinstance(value, list | tuple) else [value] for value in arguments]
    return any(isinstance(part, torch.nn.Module) for part in itertools.chain(*parts))


@pytest.mark.parametrize("kind", sorted(MODULES, key=str), ids=lambda kind: kind.__name__)
def test_device_dtype_and_activation_are_those_that_are_asked_for(kind):
    """Of layers that are not made of layers."""
    arguments, options = construction(kind)
    named = inspect.signature(kind).parameters
    if is_of_layers([*arguments, *options.values()]):
        assert "device" not in named
        return
    layer = kind(*arguments, **options | {"device": "meta", "dtype": torch.float16})
    assert {x.dtype for x in layer.parameters()} <= {torch.float16}
    assert all(x.is_meta for x in layer.parameters())
    if "activation" not in named:
        return
    layers = []
    for activation in ("sin", torch.sin, lambda x: torch.sin(x)):
        torch.manual_seed(0)
        layers.append(kind(*arguments, **options | {"activation": activation}))
    own = kind(*arguments, **options | {"activation": Wave()})
    assert sum("rate" in name for name, _ in own.named_parameters()) == 1
    x = sample(5, next(size for size in (*arguments, options.get("dim")) if isinstance(size, int)))
    maps = [getattr(layer, "gradient", layer) for layer in layers]
    assert torch.equal(maps[0](x), maps[1](x)) and torch.equal(maps[0](x), maps[2](x))
    for wrong in (torch.nn.Tanh, 3):
        with pytest.raises(InputError, match="activation must be a function, or one of tanh"):
            kind(*arguments, **options | {"activation": wrong})


class Wave(torch.nn.Module):
    """An activation of one's own, with a parameter."""

    def __init__(self):
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(1.3))

    def forward(self, x):
        return torch.sin(self.rate * x)


class Twist(torch.nn.Module):
    """Turns (x, y) by an angle of their distance from the origin."""

    volume_preserving = True

    def turned(self, z, sign):
        angle = sign * z.square().sum(-1, keepdim=True)
        x, y = z.chunk(2, -1)
        c, s = torch.cos(angle), torch.sin(angle)
        return torch.cat([x * c - y * s, x * s + y * c], -1)

    def forward(self, z):
        return self.turned(z, 1.0)

    def inverse(self, z):
        return self.turned(z, -1.0)


def test_a_layer_of_ones_own_stands_among_the_others():
    psi = nn.Composition(Twist(), randomise(nn.AdditiveCoupling(2), 1.0, 1))
    Phi = nn.Reversible(psi, [[1, 0], [0, -1]], time_reversal=False)
    z = sample(2)
    assert Phi.volume_preserving and determinant_error(Phi, z) < 1e-12
    assert_close(Phi.inverse(Phi(z)), z)
