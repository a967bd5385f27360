"""Networks as others write them: gradients in the forward, memory, attention, sums in place."""

import torch
from torch import nn

G = 1.0  # of the pendulum of the catalogue
H = 0.1  # time step


def perceptron(inputs, outputs, width=6):
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, outputs)).double()


def rk4(field, z):
    a = field(z)
    b = field(z + H / 2 * a)
    c = field(z + H / 2 * b)
    return z + H / 6 * (a + 2 * b + 2 * c + field(z + H * c))


class Pendulum(nn.Module):
    """Energy of the pendulum, differentiated; a weight of 1 stands for those of a network."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def energy(self, z):
        return self.weight * (z[..., 1] ** 2 / 2 - G * torch.cos(z[..., 0]))

    def turned(self, slope):
        return torch.stack([slope[..., 1], -slope[..., 0]], -1)


class General(Pendulum):
    """Hamiltonian network, by Runge-Kutta, as Greydanus and others write it."""

    def field(self, z):
        (slope,) = torch.autograd.grad(self.energy(z).sum(), z, create_graph=True)
        return self.turned(slope)

    def forward(self, z):
        return rk4(self.field, z.requires_grad_())


class Switching(General):
    """One that turns gradients on by itself."""

    def forward(self, z):
        with torch.enable_grad():
            return rk4(self.field, z if z.requires_grad else z.clone().requires_grad_())


class Detached(General):
    """One whose graph is cut without an error."""

    def field(self, z):
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            return super().field(z).detach()

    def forward(self, z):
        return rk4(self.field, z)


class WithoutGraph(General):
    """One whose inner gradient has no graph."""

    def field(self, z):
        (slope,) = torch.autograd.grad(self.energy(z).sum(), z)
        return self.turned(slope)

    def forward(self, z):
        z = z.requires_grad_()
        return rk4(lambda x: self.field(x if x.requires_grad else x.requires_grad_()), z)


class Functional(Pendulum):
    """One by torch.func."""

    def forward(self, z):
        slope = torch.func.vmap(torch.func.grad(lambda x: self.energy(x).sum()))
        return rk4(lambda x: self.turned(slope(x)), z)


class Separable(nn.Module):
    """Potential and kinetic energy, by the leapfrog method."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def force(self, energy, x):
        x = x if x.requires_grad else x.requires_grad_()
        return torch.autograd.grad(energy(x).sum(), x, create_graph=True)[0]

    def forward(self, z):
        q, p = z[:, :1], z[:, 1:]

        def potential(x):
            return -self.weight[0] * G * torch.cos(x)

        p = p - H / 2 * self.force(potential, q)
        q = q + H * self.force(lambda x: self.weight[1] * x**2 / 2, p)
        return torch.cat([q, p - H / 2 * self.force(potential, q)], 1)


class Lagrangian(Pendulum):
    """Lagrangian network: accelerations from the Hessian of the Lagrangian."""

    def lagrangian(self, z):
        return (self.weight * (z[1] ** 2 / 2 + G * torch.cos(z[0]))).sum()

    def slope(self, z):
        hessian, slope = torch.func.hessian(self.lagrangian)(z), torch.func.grad(self.lagrangian)(z)
        return torch.stack([z[1], (slope[0] - hessian[1, 0] * z[1]) / hessian[1, 1]])

    def forward(self, z):
        return rk4(torch.func.vmap(self.slope), z)


class LagrangianOneByOne(Lagrangian):
    """One by torch.autograd.functional."""

    def slope(self, z):
        hessian = torch.autograd.functional.hessian(self.lagrangian, z, create_graph=True)
        slope = torch.autograd.functional.jacobian(self.lagrangian, z, create_graph=True)
        return torch.stack([z[1], (slope[0] - hessian[1, 0] * z[1]) / hessian[1, 1]])

    def forward(self, z):
        return torch.stack([rk4(self.slope, state) for state in z])


class Recurrent(nn.Module):
    """A recurrent layer on a window, with first hidden states or without."""

    def __init__(self, cell=nn.GRU, hidden=False, **options):
        super().__init__()
        self.cell = cell(2, 4, batch_first=True, **options).double()
        self.out = nn.Linear(4, 2).double()
        self.hidden = hidden

    def forward(self, windows):
        first = torch.zeros(1, len(windows), 4, dtype=windows.dtype)
        state = () if not self.hidden else (((first, first),) if self.hidden == 2 else (first,))
        return windows[:, -1] + H * self.out(self.cell(windows, *state)[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True).double()

    def forward(self, windows):
        return windows + H * self.attention(windows, windows, windows)[0]


class Encoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.inner, self.outer = nn.Linear(2, 8).double(), nn.Linear(8, 2).double()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **options).double()

    def forward(self, windows):
        return windows[:, -1] + H * self.outer(self.encoder(self.inner(windows)))[:, -1]


class Network(nn.Module):
    """A residual network, of which variants change one thing."""

    def __init__(self, *layers):
        super().__init__()
        self.net = nn.Sequential(*layers).double() if layers else perceptron(2, 2)

    def forward(self, z):
        return z + H * self.net(z)


class SumInPlace(Network):
    def forward(self, z):
        change = self.net(z)
        z *= 1.5
        z += H * change
        return z


class EntriesInPlace(Network):
    def forward(self, z):
        out = torch.zeros(z.shape, dtype=z.dtype)
        out += z
        out[:, 0] += H * self.net(z)[:, 1]
        out[:, 1] -= H * self.net(z)[:, 0]
        return out


class SinglePrecisionResult(Network):
    def forward(self, z):
        return super().forward(z).float()


class InNumPy(Network):
    def forward(self, z):
        return torch.from_numpy(super().forward(z).detach().numpy() * 1.0)


class Branching(Network):
    def forward(self, z):
        return super().forward(z) if z.abs().max() < 50 else z


class EachItem(Network):
    def forward(self, z):
        return torch.stack([x + H * self.net(x) * (2 if x[0].item() > 0 else 1) for x in z])


class Random(Network):
    def forward(self, z):
        return z + H * self.net(nn.functional.dropout(z, 0.5, training=True))


class Remembering(nn.Module):
    """A recurrent network that keeps its hidden state between calls."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 2).double()
        self.hidden = None

    def forward(self, z):
        self.hidden = self.cell(z, self.hidden)
        return self.hidden


class Failing(Network):
    """A network that ends after some calls, or beyond some states."""

    def __init__(self, calls=30, error=ValueError):
        super().__init__()
        self.calls = calls
        self.error = error

    def forward(self, z):
        self.calls -= 1
        if self.calls < 0:
            raise self.error("the lattice is full")
        return super().forward(z)


KNOWN = {  # the pendulum by a classical method
    "general": (General, "rk4"),
    "switching": (Switching, "rk4"),
    "detached": (Detached, "rk4"),
    "without-graph": (WithoutGraph, "rk4"),
    "functional": (Functional, "rk4"),
    "separable": (Separable, "stoermer-verlet"),
    "lagrangian": (Lagrangian, "rk4"),
    "lagrangian-one-by-one": (LagrangianOneByOne, "rk4"),
}
OTHERS = {  # with their windows
    "gru": (Recurrent, 3),
    "lstm": (lambda: Recurrent(nn.LSTM, 2), 3),
    "lstm-two-layers": (lambda: Recurrent(nn.LSTM, num_layers=2), 3),
    "rnn": (lambda: Recurrent(nn.RNN, 1, nonlinearity="tanh"), 2),
    "attention": (Attention, 3),
    "encoder": (Encoder, 3),
    "encoder-norm-first": (lambda: Encoder(norm_first=True, activation="gelu"), 3),
    "sum-in-place": (SumInPlace, 1),
    "entries-in-place": (EntriesInPlace, 1),
    "relu-in-place": (lambda: Network(nn.Linear(2, 5), nn.ELU(inplace=True), nn.Linear(5, 2)), 1),
    "batch-norm": (
        lambda: Network(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2)),
        1,
    ),
    "dropout": (
        lambda: Network(nn.Linear(2, 5), nn.Tanh(), nn.Dropout(0.4), nn.Linear(5, 2)),
        1,
    ),
    "in-numpy": (InNumPy, 1),
    "branching": (Branching, 1),
    "each-item": (EachItem, 1),
}
