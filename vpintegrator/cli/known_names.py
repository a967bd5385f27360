"""Names that the commands offer for completion, without importing the objects they name.

Importing PyTorch, SciPy or Matplotlib takes longer than a shell can wait. Tests compare each of
these with what it names.
"""

from __future__ import annotations

CLASSICAL_METHODS = (
    "explicit-euler",
    "explicit-midpoint",
    "heun",
    "rk4",
    "dormand-prince-8",
    "implicit-midpoint",
    "gauss-legendre-2",
    "gauss-legendre-4",
    "gauss-legendre-6",
    "stoermer-verlet",
    "coordinate-splitting",
    "strang-splitting",
    "yoshida-4",
    "yoshida-6",
    "yoshida-8",
    "blanes-moan-4",
    "blanes-moan-6",
    "boris",
    "rk45",
    "dop853",
    "radau",
    "lsoda",
    "dormand-prince-853",
    "heyoka",
)
SOLVERS = ("DOP853", "RK45", "RK23", "Radau", "BDF", "LSODA")
LOSSES = ("mean-square", "relative")
ACTIVATIONS = ("tanh", "sigmoid", "sin", "relu", "gelu", "softplus", "identity")
STRUCTURES = ("symplectic", "volume-preserving", "none")
DEVICES = ("cpu", "cuda", "mps", "auto")
FUNCTIONS = ("auto", "neurons", "polynomial", "system", "hamiltonian")
# kinds of files of arrays that --from reads
ARRAY_FILES = (
    *(".csv", ".tsv", ".txt", ".dat", ".csv.gz", ".tsv.gz", ".txt.gz", ".dat.gz"),
    *(".npz", ".npy", ".h5", ".hdf5", ".he5", ".mat", ".nc", ".nc4", ".cdf"),
)

# --option NAME=VALUE of each model, and the words that a value may be
_TRUTH = ("true", "false")
_TRIANGULAR: dict[str, tuple[str, ...]] = {"blocks": (), "linear": (), "upper_first": _TRUTH}
_COUPLINGS: dict[str, tuple[str, ...]] = {
    "split": (),
    "bases": (),
    "sweep": ("forward", "symmetric"),
    "initial_scale": (),
    "taper": ("none",),
}
_SYMPLECTIC: dict[str, tuple[str, ...]] = {
    "layer": ("gradient", "linear-activation", "henon"),
    "linear": (),
    "initial_scale": (),
    "reach": (),
    "bounded": _TRUTH,
    "lengths": ("logarithms", "squares"),
}
MODEL_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "vpt": {
        "attention_scale": ("none",),
        "features": (),
        "time_mixing": _TRUTH,
        **_TRIANGULAR,
        **_COUPLINGS,
    },
    "vpff": {**_TRIANGULAR, **_COUPLINGS},
    "vpmt": {"attention_width": (), **_COUPLINGS, "stiefel": _TRUTH},
    "spff": _SYMPLECTIC,
    "sgf": {
        "repeats": (),
        "reach": (),
        "lengths": ("logarithms", "squares"),
        "hamiltonian": (),
        "order": (),
    },
    "vpgf": {"repeats": ()},
    "split": {"hamiltonian": (), "stages": (), "linear": _TRUTH, "commutators": _TRUTH},
    "spt": {**_SYMPLECTIC, "attention": ("rotations", "softmax", "linear")},
    "transformer": {
        "blocks": (),
        "residual": _TRUTH,
        "positions": _TRUTH,
        "norm": ("auto", "layer", "batch", "none"),
        "stiefel": _TRUTH,
        "attention_scale": ("none",),
        "block": ("residual", "encoder"),
        "attention": ("multihead", "general", "multiplicative", "additive"),
        "inner": ("none",),
    },
    "ict": {},
    "resnet": {},
}
