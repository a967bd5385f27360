"""Models that the tests of laws, files and machine code are applied to: one table for all."""

from typing import Any

import torch

from tests.nn.laws import SIGN_FLIPS, randomise, sample
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.stored import arguments_of


def diagonal(*signs):
    return torch.diag(torch.tensor(signs, dtype=torch.float64)).tolist()


MOMENTA, POSITIONS = diagonal(1, 1, -1, -1), diagonal(-1, -1, 1, 1)
EXCHANGE = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, -1, 0]]
ALL = {"reversing_symmetries": [MOMENTA, POSITIONS, EXCHANGE]}
POLYNOMIAL = {"functions": "polynomial", "degree": 3}
# two parameters, the first of which is a rate, and a symmetry that acts on it
FAMILY = {
    "parameters": 2,
    "reversing_symmetries": [diagonal(1, 1, -1, -1, 1, 1), diagonal(1, 1, 1, 1, -1, 1)],
}
RATE = FAMILY | {"vanishing": [0]}


def needed(name: str, dim: int = 4) -> dict[str, Any]:
    """Equations for architectures that step known ones."""
    if name != "split":
        return {}
    n = dim // 2
    if dim % 2:
        return {"field": [f"sin(z[{(i + 1) % dim}])/10" for i in range(dim)]}
    terms = [f"z[{n + i}]**2/2 - cos(z[{i}])" for i in range(n)]
    return {"hamiltonian": " + ".join([*terms, f"z[0]*z[{n - 1}]/5"])}


VOLUME = {  # of any number of components
    "vpt": ("vpt", {}),
    "vpt, time mixing": ("vpt", {"time_mixing": True}),
    "vpt, triangular": ("vpt", {"feed_forward": "triangular"}),
    "vpt, coupled": ("vpt", {"weighting": "coupled"}),
    "vpmt": ("vpmt", {"depth": 1, "attention_width": 4}),
    "vpmt, both kinds of attention": (
        "vpmt",
        {"depth": 1, "weighting": "auto", "time_mixing": True},
    ),
    "vpff": ("vpff", {}),
    "vpff, to and fro": ("vpff", {"functions": "polynomial", "degree": 2, "sweep": "symmetric"}),
    "vpff, triangular": ("vpff", {"feed_forward": "triangular"}),
}
# of sizes that heads or a lift divide
SIZED = {
    "vpt, heads": ("vpt", {"heads": 2}),
    "vpt, unequal heads": ("vpt", {"dim": 5, "heads": [3, 2], "attention_scale": 0.7}),
    "vpt, heads and a symmetry": (
        "vpt",
        {"heads": 2, "reversing_symmetries": [MOMENTA, diagonal(1, -1, -1, 1)]},
    ),
    "vpt, a lifted component": ("vpt", {"dim": 1, "window": 4, "lift": 2}),
    "vpt, lift and flips": (
        "vpt",
        {"dim": 3, "window": 6, "lift": 2, "weighting": "skew", "reversing_symmetries": SIGN_FLIPS},
    ),
    "vpt, lift and heads": (
        "vpt",
        {"window": 4, "lift": 2, "heads": 3, "split": "halves", "depth": 1, **POLYNOMIAL},
    ),
    "vpt, lift of the coupled attention": (
        "vpt",
        {"dim": 2, "window": 6, "lift": 3, "weighting": "coupled"},
    ),
}
SYMPLECTIC = {
    "G-SympNet": ("spff", {}),
    "LA-SympNet": ("spff", {"layer": "linear-activation"}),
    "HenonNet": ("spff", {"layer": "henon", "width": 4}),
    "Henon maps of polynomials": ("spff", {"layer": "henon", **POLYNOMIAL}),
    "polynomials": ("spff", POLYNOMIAL),
    "functions of the state": (
        "spff",
        {**POLYNOMIAL, "expressions": ["sigmoid(z[0])", "exp(z[0]*z[1])", "cos(z[3])"]},
    ),
    "polynomials of angles": ("spff", {"periodic": [(0, 6.0)], **POLYNOMIAL}),
    "reversible": ("spff", {**ALL, "width": 4}),
    "reversible polynomials": ("spff", {**ALL, **POLYNOMIAL}),
    "reversible functions": (
        "spff",
        {**ALL, **POLYNOMIAL, "expressions": ["tanh(z[0] + z[1])", "exp(-z[2]**2 - z[3]**2)"]},
    ),
    "generating function": ("sgf", {**ALL, "degree": 4}),
    "weights in the degree": (
        "sgf",
        {"degree": 4, "weights": [0.5, 1.3, 2.0, 1.0], "periodic": [(1, 6.0)]},
    ),
    "exact terms": ("sgf", {**ALL, **needed("split"), "degree": 2, "repeats": 2}),
    "rotations": ("spt", {**ALL, **POLYNOMIAL}),
    "shears by softmax": ("spt", {**ALL, "attention": "softmax", "width": 4}),
    "shears by softmax of columns": (
        "spt",
        {"attention": "softmax", "normaliser": "vector", "weighting": "arbitrary", "width": 4},
    ),
    "shears by constants": ("spt", {**ALL, "attention": "linear", **POLYNOMIAL}),
    "sympnet-g": ("sympnet-g", {"width": 5}),
    "sympnet-la": ("sympnet-la", {"linear": 1}),
    "henonnet": ("henonnet", {"width": 5}),
    "ghnn": ("ghnn", {"width": 4}),
    "additive": ("additive", {"degree": 3}),
    "separable energies": ("hnn", {"separable": True, "width": 4}),
    "separable energies, fourth order": (
        "hnn",
        {"separable": True, "width": 4, "method": "yoshida-4", "substeps": 2},
    ),
}
FAMILIES = {
    "family of polynomials": ("vpff", POLYNOMIAL | RATE),
    "family to and fro": ("vpff", POLYNOMIAL | FAMILY | {"sweep": "symmetric", "split": "halves"}),
    "family of neurons": ("vpff", RATE | {"width": 5}),
    "symplectic family": ("spff", POLYNOMIAL | RATE),
    "family of formulas": ("spff", POLYNOMIAL | FAMILY | {"expressions": ["sin(z[0]*z[5])"]}),
    "symplectic family of neurons": ("spff", RATE | {"width": 5}),
}
TRANSFORMERS = {
    f"{block} {attention}": ("transformer", {"block": block, "attention": attention, "inner": 3})
    for block in ("residual", "encoder")
    for attention in ("multihead", "general", "multiplicative", "additive")
}
SYMMETRIES = {
    "flips": {"dim": 3, "reversing_symmetries": SIGN_FLIPS},
    "one flip": {"dim": 3, "reversing_symmetries": SIGN_FLIPS[:1]},
    "hamiltonian": {"reversing_symmetries": [MOMENTA, POSITIONS], "split": "halves"},
}
REVERSIBLE = {
    f"{name}, {which}": (architecture, {"width": 5} | arguments | symmetries)
    for name, (architecture, arguments) in VOLUME.items()
    for which, symmetries in SYMMETRIES.items()
}
DEFAULTS = {name: (name, {}) for name in ARCHITECTURES}
# hidden layers in several stages or steps in a row
DEFAULTS |= {
    name: (name, {"width": 5}) for name in ("hnn", "ghnn", "lnn", "neural-ode", "lstm", "gru")
}
DEFAULTS["symmetric planes"] = ("locsympnet", {"width": 4, "symmetric": True})
DEFAULTS["lagrangian"] = ("lagrangian", {"degree": 2})  # a function of twice the components
CASES = DEFAULTS | VOLUME | SIZED | SYMPLECTIC | FAMILIES | TRANSFORMERS
CASES["discrete Lagrangian"] = ("lagrangian", {"dim": 2, "periodic": [(1, 6.0)]})
CASES["polynomials of windows"] = ("polynomial", {"dim": 3, "window": 3, "degree": 2})
CASES["polynomials of windows of angles"] = (
    "polynomial",
    {"dim": 2, "window": 2, "periodic": [(1, 6.0)]},
)
CASES["leapfrog of angles"] = ("window-leapfrog", {"dim": 2, "window": 4, "periodic": [(1, 6.0)]})
CASES["explicit time"] = ("spff", POLYNOMIAL | {"dim": 5, "explicit_time": True})


def choices(architecture):
    """Each choice of each option alone, the others as they are by default."""
    yield {}
    for name, field in arguments_of(architecture).items():
        flags = [True] if bool in field.kinds else []
        for value in (*field.choices, *flags):
            yield {name: value}


def made(case, seed=0, scale=0.3, **others):
    """A model of CASES or REVERSIBLE with random weights, if there is a scale, and normalised."""
    name, arguments = (CASES | REVERSIBLE)[case]
    sizes = {} if case in VOLUME | REVERSIBLE else {"degree": 3, "depth": 1}
    given = {"dim": 4} | needed(name) | sizes | arguments | others
    declared = arguments_of(ARCHITECTURES[name])
    torch.manual_seed(seed)
    model = ARCHITECTURES[name](**{key: given[key] for key in given if key in declared})
    if scale is not None:
        randomise(model, scale, seed)
    if model.parameter_count:
        model.set_parameter_normalisation(torch.tensor([[0.4, 0.3], [0.6, 0.9]]).double())
    model.set_advance(0.1)
    model.set_normalisation(sample(model.dim, seed=seed), sample(model.dim, seed=seed).abs() + 0.5)
    return solvable(model)


def solvable(model):
    """With small weights, so that generating functions give maps."""
    if model.linear_in_parameters:
        model.adapt(3 * sample(50, model.dim))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.02)
    return model
