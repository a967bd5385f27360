"""Names that options and arguments take, known without importing the objects they name.

Importing PyTorch, SciPy or Matplotlib takes longer than a user waits for ``--help``. Modules that
check one of these names take them from here.
"""

from __future__ import annotations

SPLITTINGS = (
    "coordinate-splitting",
    "strang-splitting",
    "yoshida-4",
    "yoshida-6",
    "yoshida-8",
    "blanes-moan-4",
    "blanes-moan-6",
)
RUNGE_KUTTA = ("explicit-euler", "explicit-midpoint", "heun", "rk4", "dormand-prince-8")
CLASSICAL_METHODS = (
    *RUNGE_KUTTA,
    "implicit-midpoint",
    "gauss-legendre-2",
    "gauss-legendre-4",
    "gauss-legendre-6",
    "stoermer-verlet",
    *SPLITTINGS,
    "boris",
    "rk45",
    "dop853",
    "radau",
    "lsoda",
)
# names of the literature for the same methods
OTHER_NAMES = {
    "leapfrog": "stoermer-verlet",
    "verlet": "stoermer-verlet",
    "velocity-verlet": "stoermer-verlet",
    "position-verlet": "strang-splitting",
    "symplectic-euler": "coordinate-splitting",
    "semi-implicit-euler": "coordinate-splitting",
    "euler": "explicit-euler",
    "forward-euler": "explicit-euler",
}
OPTIMIZERS = ("auto", "levenberg-marquardt", "adam", "momentum", "stiefel-adam", "linear", "l-bfgs")
DEFAULT_SECONDS = 150.0  # of a training whose budget nobody gives
LOSSES = ("mean-square", "relative")
ACTIVATIONS = ("tanh", "sigmoid", "sin", "relu", "gelu", "softplus", "identity")
SOLVERS = ("DOP853", "RK45", "RK23", "Radau", "BDF", "LSODA")  # of SciPy
FORMS = ("symplectic", "volume", "none")  # what a map keeps
SPACES = ("states", "windows")  # in which it keeps it


def method_name(name: str) -> str:
    """Return this package's name of a classical method, for one of the literature.

    What follows an ``@``, the number of steps in a period, stays.

    Examples
    --------
    >>> from vpintegrator.names import method_name
    >>> method_name("velocity-verlet"), method_name("Leapfrog@64"), method_name("rk4")
    ('stoermer-verlet', 'stoermer-verlet@64', 'rk4')
    """
    plain, at, steps = name.partition("@")
    known = OTHER_NAMES.get(plain.lower().replace("_", "-").replace(" ", "-"), plain)
    return f"{known}{at}{steps}"
