"""Layers are torch modules: dtype, device, meta, copies, and parts of one's own."""

import copy
import inspect
import pickle

import pytest
import torch

import vpintegrator as vp
from tests.devices.test_layers import LAYERS, dim_of, made
from tests.nn.laws import assert_close, determinant_error, randomise, sample
from vpintegrator import nn
from vpintegrator.errors import InputError

NAMES = [name for name in LAYERS if "Stiefel" not in name]  # torch copies these as weights alone


def window(name, layer):
    return sample(2, 3, dim_of(name, layer), seed=2, scale=0.5)


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_of_the_default_dtype(name):
    torch.set_default_dtype(torch.float32)
    layer = LAYERS[name]().eval()
    tensors = [*layer.parameters(), *layer.buffers()]
    assert {x.dtype for x in tensors if x.is_floating_point()} == {torch.float32}
    assert layer(window(name, layer).float()).dtype == torch.float32


WITHOUT_DATA = {
    **{name: LAYERS[name] for name in NAMES if "generating" not in name},
    "chain": lambda: nn.VolumePreservingGeneratingFunction(
        [nn.GeneratingFunction(4, 2) for _ in range(3)]
    ),
    "midpoint": lambda: nn.SymplecticGeneratingFunction(nn.GeneratingFunction(4, 2)),
}


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_a_layer_on_meta_takes_weights(name):
    layer = randomise(WITHOUT_DATA[name](), 0.02, 1).eval()
    with torch.device("meta"):
        empty = WITHOUT_DATA[name]().eval()
    assert all(parameter.is_meta for parameter in empty.parameters())
    empty.load_state_dict(layer.state_dict(), assign=True)
    x = window(name, layer)
    assert torch.equal(empty(x), layer(x))


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_the_same_map(name):
    layer = made(name)
    x = window(name, layer)
    for again in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert torch.equal(again(x), layer(x))


SMALL = {
    nn.AdditiveAttention: (3,),
    nn.AdditiveCoupling: (3,),
    nn.AffineMap: (3,),
    nn.AttentionCoupling: (4, 3),
    nn.BasisCoupling: (3,),
    nn.BasisPotential: (3,),
    nn.ComponentPotential: (3,),
    nn.CoupledAttention: (3, 3),
    nn.ElementaryHamiltonians: ("z[1]**2/2 - cos(z[0])", 2),
    nn.EncoderBlock: (4, 2),
    nn.GeneralMultiHeadAttention: (4, 2),
    nn.GeneratingFunction: (3,),
    nn.LearnedSplitting: (vp.nn.exact_flows.hamiltonian_parts("z[1]**2/2 - cos(z[0])", 2), 2),
    nn.MultiHeadAttention: (4, 2),
    nn.MultiplicativeAttention: (3,),
    nn.NeuronPotential: (3,),
    nn.PointwiseFeedForward: (3,),
    nn.PolynomialLayer: (3,),
    nn.QuadraticPotential: (3,),
    nn.Reflection: ([[1, 0], [0, -1]],),
    nn.ResidualLayer: (3,),
    nn.SymplecticAttention: (4,),
    nn.TimeMixing: (3,),
    nn.TriangularFeedForward: (3,),
    nn.TriangularLayer: (3,),
    nn.VolumePreservingAttention: (3,),
}


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.__name__)
def test_device_and_dtype_are_those_that_are_asked_for(kind):
    layer = kind(*SMALL[kind], device="meta", dtype=torch.float16)
    assert {x.dtype for x in layer.parameters()} <= {torch.float16}
    assert all(x.is_meta for x in layer.parameters())


def test_every_layer_takes_device_and_dtype_or_is_made_of_layers():
    def takes(kind):
        return {"device", "dtype"} <= inspect.signature(kind).parameters.keys()

    kinds = {kind for name in nn.__all__ if inspect.isclass(kind := getattr(nn, name))}
    modules = {kind for kind in kinds if issubclass(kind, torch.nn.Module)}
    of_layers = {
        nn.Attention,
        nn.Composition,
        nn.Coupling,
        nn.GradientCoupling,
        nn.HenonMap,
        nn.Reversible,
        nn.Rotated,
        nn.SymplecticGeneratingFunction,
        nn.VolumePreservingGeneratingFunction,
    }
    assert {kind for kind in modules if not takes(kind)} == of_layers
    assert modules - of_layers - SMALL.keys() == {nn.WindowAttention}


class Wave(torch.nn.Module):
    """An activation of one's own, with a parameter."""

    def __init__(self):
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(1.3))

    def forward(self, x):
        return torch.sin(self.rate * x)


@pytest.mark.parametrize(
    "kind", [k for k in SMALL if "activation" in inspect.signature(k).parameters]
)
def test_an_activation_is_a_name_or_a_function(kind):
    layers = []
    for activation in ("sin", torch.sin, lambda x: torch.sin(x)):
        torch.manual_seed(0)
        layers.append(kind(*SMALL[kind], activation=activation))
    own = kind(*SMALL[kind], activation=Wave())
    assert sum("rate" in name for name, _ in own.named_parameters()) == 1
    x = sample(5, SMALL[kind][0])
    maps = [getattr(layer, "gradient", layer) for layer in layers]
    assert torch.equal(maps[0](x), maps[1](x)) and torch.equal(maps[0](x), maps[2](x))
    for wrong in (torch.nn.Tanh, 3):
        with pytest.raises(InputError, match="activation must be a function, or one of tanh"):
            kind(*SMALL[kind], activation=wrong)


def test_a_layer_of_ones_own_stands_among_the_others():
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

    psi = nn.Composition(Twist(), randomise(nn.AdditiveCoupling(2), 1.0, 1))
    Phi = nn.Reversible(psi, [[1, 0], [0, -1]], time_reversal=False)
    z = sample(2)
    assert Phi.volume_preserving and determinant_error(Phi, z) < 1e-12
    assert_close(Phi.inverse(Phi(z)), z)
