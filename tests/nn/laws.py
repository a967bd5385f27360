"""The laws that maps of windows are measured against, and the layers that they are applied to."""

import functools
import importlib
from pathlib import Path

import torch

from vpintegrator.nn import canonical_form
from vpintegrator.nn.basis import Terms
from vpintegrator.nn.formulas import FormulaVariables


@functools.cache
def examples():
    """Small layers by name: functions of (dim, window), ``EXAMPLES`` of the modules of tests here.

    A layer may have another number of components than dim: it says so by its ``dim``.
    """
    result = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        own = getattr(importlib.import_module(f"tests.nn.{path.stem}"), "EXAMPLES", {})
        assert not (double := own.keys() & result.keys()), f"names of two examples: {double}"
        result |= own
    return result


def made(name, dim=4, window=3, *, seed=0, scale=0.2):
    """An example with random weights; terms of polynomials are together of that size."""
    torch.manual_seed(seed)
    layer = examples()[name](dim, window)
    for part in layer.modules():
        if isinstance(part, FormulaVariables):
            n = torch.arange(part.formulas.dim)
            part.set_units(0.1 * n, 1 + 0.1 * n)
    if scale is not None:
        counts = [part.count for part in layer.modules() if isinstance(part, Terms)]
        randomise(layer, scale / max([1, *counts]) ** 0.5, seed)
    return layer.eval()


def jacobian(f, x):
    """d f / d x as one (n, n) matrix, for x of any shape."""
    return torch.func.jacrev(f)(x).detach().reshape(x.numel(), x.numel())


def determinant_error(f, x):
    """| |det Df(x)| - 1 |, by the logarithm of the determinant."""
    _, logarithm = torch.linalg.slogdet(jacobian(f, x))
    return float((logarithm.exp() - 1).abs())


def symplecticity_defect(f, X):
    """Largest entry of |D^T J D - J| at states (dim,) or windows (window, dim), J on every state.

    In units of rounding: a derivative that is large has products as much larger.
    """
    J = torch.block_diag(*[canonical_form(X.shape[-1])] * (X.numel() // X.shape[-1]))
    D = jacobian(f, X)
    return float((D.mT @ J @ D - J).abs().max() / max(1.0, float(D.abs().max()) ** 2))


def randomise(module, scale, seed):
    """Weights far from the start near the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(scale * noise)
    return module


def sample(*shape, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def assert_close(actual, expected, tolerance=1e-10):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def assert_near(actual, expected, tolerance=1e-12):
    """Equal to rounding of the largest entry, or of one."""
    assert_close(actual, expected, tolerance * (1 + float(expected.detach().abs().max())))


SIGN_FLIPS = [
    torch.diag(torch.tensor(s)).tolist() for s in ([-1.0, 1, 1], [1, -1.0, 1], [1, 1, -1.0])
]


def dim_of(layer, dim=4):
    """Components of the states of a layer, as it or one of its parts says."""
    return next((part.dim for part in layer.modules() if hasattr(part, "dim")), dim)


class OnVariables(torch.nn.Module):
    """A layer as a map of variables (..., dim + m), its parameters beside states, which stay."""

    def __init__(self, layer, dim=4):
        super().__init__()
        self.layer, self.states = layer, dim_of(layer, dim)
        self.dim = self.states + layer.parameter_count

    def forward(self, x):
        return self.on_variables(self.layer, x)

    def inverse(self, x):
        return self.on_variables(self.layer.inverse, x)

    def on_variables(self, function, x):
        n = self.states
        if n == self.dim:
            return function(x)
        return torch.cat([function(x[..., None, :n], x[..., n:]).squeeze(-2), x[..., n:]], -1)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "layer" not in self.__dict__.get("_modules", ()):
                raise
            return getattr(self._modules["layer"], name)
