"""Every operation that is compiled, and ways of writing one, against PyTorch: values, derivatives.

One model has them all, a component of its state each, so that the compiler is started few times.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vpintegrator import models
from vpintegrator.compiled import CompiledModel, CompiledResidual
from vpintegrator.training.residuals import ParameterVector

from .conftest import eager, windows

WIDTH = 4  # of the vectors (..., WIDTH) that the operations are given


def positive(x):
    return x * x + 0.3


def in_place(x):
    y = torch.zeros_like(x)
    y[..., 1] += 2 * x[..., 0]
    y[..., 0] = x[..., 3]
    y[..., 2:] = x[..., :2] * torch.ones_like(x[..., :2])
    y.select(-1, 3).mul_(x[..., 1])
    return y


def filled(x):
    y = torch.empty_like(x)
    y.fill_(0.5)
    y[..., 0] = x[..., 1]
    return y + x.new_full((WIDTH,), 2.0) * x + torch.full_like(x, 3.0)


def masked_attention(x):
    scores = x[..., :, None] * x[..., None, :]
    mask = torch.triu(torch.ones(WIDTH, WIDTH, dtype=torch.bool), 1)
    return torch.softmax(scores.masked_fill(mask, -math.inf), -1)


OPERATIONS = {
    "one element": lambda x, c: x * c[2],
    "one element, negative": lambda x, c: x[..., -1] * c[-1] + c[0] * 3,
    "elements of a weight": lambda x, c: x * c.unbind()[1] + c[torch.tensor(0)],
    "an element of a matrix": lambda x, c: x * torch.outer(c, c)[1, 2],
    "inner product of weights": lambda x, c: x * c.dot(c) + (c @ c),
    "diagonal": lambda x, c: x * torch.outer(c, c).diagonal()[1],
    "a changed weight": lambda x, c: x * torch.cat([c[:3] * 2, c[3:]])[2] + element(c),
    "in place": lambda x, c: in_place(x),
    "filled": lambda x, c: filled(x),
    "pow 2": lambda x, c: x**2,
    "pow 3": lambda x, c: x**3,
    "pow 7": lambda x, c: x**7,
    "pow -2": lambda x, c: positive(x) ** -2,
    "pow 0, 1": lambda x, c: x**0 + x**1,
    "pow 40": lambda x, c: (0.3 * x) ** 40,
    "pow, roots": lambda x, c: positive(x) ** 0.5 + positive(x) ** -0.5,
    "pow, half-integer": lambda x, c: positive(x) ** 1.5 + positive(x) ** -2.5,
    "pow, any": lambda x, c: positive(x) ** 1.7,
    "pow of tensors": lambda x, c: positive(x) ** c,
    "pow of a number": lambda x, c: 2**x + 0.5**c,
    "sqrt, rsqrt": lambda x, c: torch.sqrt(positive(x)) + torch.rsqrt(positive(x)),
    "square, reciprocal": lambda x, c: torch.square(x) + torch.reciprocal(positive(x)),
    "where": lambda x, c: torch.where(x > 0.2, x, c * x * x),
    "where, a number": lambda x, c: torch.where((x < c) & ~(x <= -1) | (x >= 2), x, 0.5),
    "equal": lambda x, c: torch.where((x == x) & (x != c), x, c),
    "true as a number": lambda x, c: (x > 0).to(x.dtype) * x * (x.isfinite() * x),
    "masked_fill": lambda x, c: x.masked_fill(x > 0, 0.25),
    "clamp": lambda x, c: x.clamp(-0.5, 0.5),
    "clamp, tensors": lambda x, c: x.clamp(min=-c.abs(), max=c.abs()),
    "clamp_min, clamp_max": lambda x, c: x.clamp_min(0.1) - x.clamp_max(0.2),
    "minimum, maximum": lambda x, c: torch.minimum(x, c) * torch.maximum(x, c),
    "amax, amin": lambda x, c: x.amax(-1) - x.amin(-1),
    "abs, sign": lambda x, c: x.abs() + x * torch.sign(x * c),
    "roll": lambda x, c: x.roll(1, -1) * x + x.roll((1, 2), (-1, -1)) ** 2,
    "norm": lambda x, c: x / x.norm(dim=-1, keepdim=True) + c.norm(),
    "other norms": lambda x, c: sum(x.norm(p=p, dim=-1) for p in (1, 3, math.inf)),
    "norm of nothing": lambda x, c: x + (x * 0).norm(dim=-1, keepdim=True),
    "cumsum": lambda x, c: x.cumsum(-1) ** 2,
    "index_add": lambda x, c: x.index_add(-1, torch.arange(WIDTH) // 2, c * x, alpha=2.0),
    "cumprod": lambda x, c: x.cumprod(-1),
    "prod": lambda x, c: x.prod(-1) + c.prod(),
    "sum": lambda x, c: x.sum(-1, dtype=x.dtype) * x.sum((-1,), keepdim=True)[..., 0],
    "mean, var, std": lambda x, c: x.mean(-1) + x.var(-1) + x.std(-1, unbiased=False),
    "layer_norm": lambda x, c: F.layer_norm(x, (WIDTH,), c, c * c),
    "layer_norm, plain": lambda x, c: F.layer_norm(x, (WIDTH,)),
    "rms_norm": lambda x, c: F.rms_norm(x, (WIDTH,), c),
    "softmax": lambda x, c: torch.softmax(x, -1) + F.log_softmax(x, -1),
    "masked attention": lambda x, c: masked_attention(x),
    "logsumexp": lambda x, c: x.logsumexp(-1) + x.logsumexp(-1, keepdim=True)[..., 0],
    "silu": lambda x, c: F.silu(x),
    "mish, logsigmoid": lambda x, c: F.mish(x) + F.logsigmoid(x),
    "leaky_relu": lambda x, c: F.leaky_relu(x, 0.2) + F.prelu(x, c[:1]),
    "elu": lambda x, c: F.elu(x, 1.3) + F.selu(x) + F.celu(x, 0.5) + F.elu(1000 + x) - 1000,
    "hardtanh": lambda x, c: F.hardtanh(x, -0.4, 0.6) + F.relu6(x),
    "gelu": lambda x, c: F.gelu(x) + F.gelu(x, approximate="tanh"),
    "softsign": lambda x, c: F.softsign(x) + F.tanhshrink(x),
    "atan2": lambda x, c: torch.atan2(x, c) + torch.atan2(x, x.roll(1, -1)),
    "hypot": lambda x, c: torch.hypot(x, c),
    "log": lambda x, c: torch.log(positive(x)) + torch.log1p(positive(x)),
    "tan": lambda x, c: torch.tan(0.3 * torch.tanh(x)),
    "sinh, cosh": lambda x, c: torch.sinh(x) + torch.cosh(x) + torch.expm1(x),
    "inverse functions": lambda x, c: (x.tanh() / 2).asin() + (x.tanh() / 2).acos() + x.atan(),
    "cross": lambda x, c: torch.linalg.cross(x[..., :3], (x * c)[..., 1:]),
    "pad": lambda x, c: F.pad(x, (1, 2), value=0.3) ** 2,
    "lerp, addcmul, addcdiv": lambda x, c: (
        torch.lerp(x, c, 0.3) + torch.addcmul(x, c, x, value=2) + torch.addcdiv(x, c, positive(x))
    ),
    "gather": lambda x, c: x * c.gather(0, torch.tensor([3, 1, 1, 0])),
    "detach": lambda x, c: x.detach() * x * c.detach(),
    "baddbmm": lambda x, c: (
        x * torch.baddbmm(c.outer(c)[None], c[None, :, None], c[None, None], beta=0.5)[0, 0]
    ),
    "norm of a difference": lambda x, c: torch.linalg.vector_norm(x - c, dim=-1),
}


def element(c):
    c = c.clone()
    c[3] *= 2
    return c[3]


class Everything(models.Model):
    def __init__(self, dtype=torch.float64):
        dim = len(OPERATIONS)
        super().__init__(torch.nn.Identity(), dim, dtype=dtype)
        generator = torch.Generator().manual_seed(5)
        self.c = torch.nn.Parameter(torch.randn(WIDTH, generator=generator, dtype=dtype))
        self.factors = torch.cos(torch.arange(64.0, dtype=dtype))

    def forward(self, window):
        components = []
        for k, operation in enumerate(OPERATIONS.values()):
            x = torch.cat([window, window], -1)[..., k : k + WIDTH]
            x = 1.5 * torch.sin(x) + 0.1 * self.c  # of moderate size in the second call too
            y = operation(x, self.c)
            extra = y.ndim - window.ndim + 1
            y = y.reshape(*window.shape[:-1], -1) if extra else y[..., None]
            components.append((y * self.factors[: y.shape[-1]]).sum(-1))
        return torch.stack(components, -1)


def differences(found, expected):
    """Largest relative to the size of the expected, an operation each (the last axis)."""
    axes = tuple(range(expected.ndim - 1))
    error, size = np.abs(found - expected).max(axes), np.abs(expected).max(axes)
    assert np.isfinite(expected).all()
    return dict(zip(OPERATIONS, error / np.maximum(size, 1e-3), strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("count", "dtype", "digits"), [(1, torch.float64, 1e-13), (5, torch.float32, 1e-4)]
)
def test_values(count, dtype, digits):
    model = Everything(dtype).eval()
    first = windows(model, count)
    states, _ = CompiledModel(model, count).predict(first.numpy(), 1)
    found = differences(states, eager(model, first, 1)[0])
    assert {name: error for name, error in found.items() if not error < digits} == {}


@pytest.mark.thorough
def test_derivatives():
    model, count = Everything().eval(), 5
    machine = CompiledResidual(model, np.ones(model.dim), chained=True)
    x, vector = windows(model, count), ParameterVector(model).read()
    for calls in (1, 2):  # by weights, and by windows on the way to these

        def predicted(c, calls=calls):
            window = x
            for _ in range(calls):
                window = torch.func.functional_call(model, {"c": c}, (window,))
            return window[:, 0], window[:, 0]

        slopes, states = torch.func.jacrev(predicted, has_aux=True)(vector)
        targets = np.zeros((count, calls, model.dim))
        found, values = machine.jacobian(vector.numpy(), x.numpy(), targets)
        last = slice(-model.dim, None)
        wrong = differences(values[last].T, states.detach().numpy())
        assert {name: error for name, error in wrong.items() if not error < 1e-12} == {}
        expected = slopes.numpy().transpose(0, 2, 1)  # (pair, weight, component)
        wrong = differences(found[:, last].transpose(2, 0, 1), expected)
        assert {name: error for name, error in wrong.items() if not error < 1e-12} == {}


KINKS = {
    "abs": lambda x: x.abs(),
    "clamp": lambda x: x.clamp(0, 0.5) + x.clamp_min(0) + x.clamp(-1, 0),
    "hardtanh": lambda x: F.hardtanh(x, 0, 0.5) + F.leaky_relu(x) + F.elu(x) + F.relu(x),
    "maximum": lambda x: torch.maximum(x, -x) + 3 * torch.minimum(x, 2 * x),
    "norms": lambda x: x.norm(dim=-1, keepdim=True) + 2 * x.norm(p=1, dim=-1, keepdim=True),
    "std": lambda x: x.std(-1, keepdim=True) + x.prod(-1, keepdim=True) + x.cumprod(-1),
    "pow": lambda x: x**2 + (x * x) ** 1.25 + (x * x) ** (2 + x),
    "where": lambda x: torch.where(x > 0, x * x, 2 * x) + torch.where(x >= 0, 3 * x, x),
}


class AtZero(models.Model):
    """Every argument that is none of the weight's is zero."""

    def __init__(self):
        dim = 2 * len(KINKS)
        super().__init__(torch.nn.Identity(), dim)
        self.c = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, window):
        parts = [kink(self.c).expand(2) for kink in KINKS.values()]
        return window + torch.cat(parts)


def test_derivatives_at_kinks_are_those_of_pytorch():
    model = AtZero()
    machine = CompiledResidual(model, np.ones(model.dim))
    x, zero = windows(model, 1), torch.zeros(2, dtype=torch.float64)
    found, _ = machine.jacobian(zero.numpy(), x.numpy(), np.zeros((1, 1, model.dim)))
    expected = torch.func.jacrev(lambda c: torch.func.functional_call(model, {"c": c}, (x[0],))[0])(
        zero
    )
    for k, name in enumerate(KINKS):
        part = slice(2 * k, 2 * k + 2)
        np.testing.assert_allclose(found[:, part, 0].T, expected[part], err_msg=name)
