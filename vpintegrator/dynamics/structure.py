"""Structure: said of a system, built into a model, measured on a map; sizes of states."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np

from vpintegrator.arguments import one_of, real_array
from vpintegrator.errors import InputError
from vpintegrator.names import FORMS, SPACES

Matrix = tuple[tuple[float, ...], ...]
Image = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Structure:
    r"""Properties that a flow or a map keeps: one type for systems, models and maps.

    It is hashable, becomes JSON and back, and prints as a sentence.

    Attributes
    ----------
    form
        ``"symplectic"``: the form :math:`dq \wedge dp` of ``pairs``; ``"volume"``: the volume of
        phase space; ``"lagrangian"``: the form :math:`-D_1 D_2 L\, dq \wedge dr` of windows of two
        positions that a discrete Lagrangian L defines; ``"none"``.
    space
        Space in which the map that is iterated keeps it: ``"states"``, or ``"windows"`` with the
        form summed over the states of a window, and the volume of the space of windows.
    reversing_symmetries
        Matrices :math:`\rho` with :math:`\rho \Phi \rho \Phi = \mathrm{id}`; for a window, with the
        order of its states reversed.
    symmetries
        Matrices S with :math:`\Phi S = S \Phi`.
    periods
        Component and period of each angle.
    pairs
        Components of positions and of their momenta. Empty: the first half are positions.

    Examples
    --------
    >>> structure = vp.load_system("pendulum").structure
    >>> print(structure)
    symplectic, 2 reversing symmetries, 1 angle
    >>> vp.dynamics.Structure.from_text(structure.text) == structure
    True
    """

    form: Literal["symplectic", "volume", "lagrangian", "none"] = "none"
    space: Literal["states", "windows"] = "states"
    reversing_symmetries: tuple[Matrix, ...] = ()
    symmetries: tuple[Matrix, ...] = ()
    periods: tuple[tuple[int, float], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        one_of("form", self.form, (*FORMS, "lagrangian"))
        one_of("space", self.space, SPACES)

    @classmethod
    def of(
        cls,
        form: Any = "none",
        reversing_symmetries: Iterable[Any] = (),
        symmetries: Iterable[Any] = (),
        periods: Mapping[int, float] | None = None,
        pairs: Iterable[tuple[int, int]] = (),
        space: Any = "states",
    ) -> Self:
        """Return the structure of arrays of matrices, and periods by component."""
        return cls(
            form,
            space,
            tuple(map(_matrix, reversing_symmetries)),
            tuple(map(_matrix, symmetries)),
            tuple((int(k), float(period)) for k, period in (periods or {}).items()),
            tuple((int(q), int(p)) for q, p in pairs),
        )

    @property
    def is_symplectic(self) -> bool:
        """Whether the canonical form is kept."""
        return self.form == "symplectic"

    @property
    def keeps_volume(self) -> bool:
        """Whether volume is kept, which the canonical form implies."""
        return self.form in ("symplectic", "volume")

    @property
    def words(self) -> tuple[str, ...]:
        """The properties of a map, each in words: ``("symplectic", "reversible")``."""
        words = {
            self._form_words: self.form != "none",
            "reversible": self.reversing_symmetries,
            "equivariant": self.symmetries,
        }
        return tuple(word for word, holds in words.items() if holds)

    @property
    def _form_words(self) -> str:
        if not self.keeps_volume:
            return "variational" if self.form == "lagrangian" else ""
        word = "symplectic" if self.is_symplectic else "volume-preserving"
        return f"{word} on windows" if self.space == "windows" else word

    def __str__(self) -> str:
        lists = {
            ("reversing symmetry", "reversing symmetries"): self.reversing_symmetries,
            ("symmetry", "symmetries"): self.symmetries,
            ("angle", "angles"): self.periods,
        }
        counts = [f"{len(x)} {words[len(x) > 1]}" for words, x in lists.items() if x]
        return ", ".join(filter(None, [self._form_words, *counts])) or "no structure"

    @property
    def text(self) -> str:
        """JSON text, without the properties that it has not."""
        default = asdict(Structure())
        return json.dumps({k: value for k, value in asdict(self).items() if value != default[k]})

    @classmethod
    def from_text(cls, text: str, where: str = "structure") -> Self:
        """Return the structure of a ``text``.

        Raises
        ------
        InputError
            If it is none; says ``where`` it stands.
        """
        try:
            entries = dict(json.loads(text))
            entries["periods"] = dict(entries.get("periods", ()))
            return cls.of(**entries)
        except (ValueError, TypeError, RecursionError):
            raise InputError(f"{where} is no structure of a map") from None


def reversibility_defect(
    map: Any, windows: np.ndarray, symmetries: Sequence[Any], scales: np.ndarray | None = None
) -> float | None:
    r"""Return the reversibility defect of a map, 0 for a reversible map.

    .. math:: \max_Z \| S^{-1} (R \Phi R \Phi(Z) - Z) \|_\infty

    The maximum is over windows Z (n, window, dim). R applies :math:`\rho`, with
    :math:`f(\rho z) = -\rho f(z)`, to every state of a window and reverses their order in time
    (Hairer, Lubich, Wanner, Geometric Numerical Integration, section V.1; for windows see
    ``vpintegrator.nn.Reversible``). :math:`\Phi` is the map that is iterated: if
    ``prediction_window`` < ``window``, it shifts the window. S are the scales of the components.

    Parameters
    ----------
    map
        The map, any.
    windows
        Windows at which the defect is measured.
    symmetries
        Matrices :math:`\rho` (dim, dim).
    scales
        Scale of each component, (dim,); by default that of the windows.

    Returns
    -------
    float or None
        The largest defect over all symmetries; None if there is no symmetry, or no finite window.

    Examples
    --------
    >>> map, rho = vp.classical("stoermer-verlet", "pendulum", 0.1), np.diag([1.0, -1.0])
    >>> vp.rollout.diagnostics.reversibility_defect(map, np.ones((3, 1, 2)), [rho]) < 1e-14
    True
    """
    windows = finite_windows(map, windows)
    if not len(windows):
        return None
    scales = component_scales(windows, map.structure) if scales is None else scales
    forward = iterated_images(map, windows)
    defects = []
    for rho in symmetries:
        back = iterated_images(map, _reversed(forward, rho))
        with np.errstate(all="ignore"):
            defects.append(largest((_reversed(back, rho) - windows) / scales))
    return max((defect for defect in defects if defect is not None), default=None)


def form_defect(
    image: Image,
    windows: np.ndarray,
    pairs: Sequence[tuple[int, int]],
    scales: np.ndarray,
    size: int,
    *,
    largest_size: int = 128,
    random_vectors: int = 8,
    entries: int = 1_000_000,
) -> float | None:
    r"""Return the largest entry of :math:`D^T J D - J` at windows (n, window, dim).

    Each pair of a position and its momentum is measured in units that keep the form and give both
    the same scale: q in :math:`\sqrt{s_q/s_p}`, p in its inverse. Beyond ``largest_size``
    components the root mean square over pairs of random tangent vectors estimates the norm.

    Parameters
    ----------
    image
        Images (n, m, k) under D of tangent vectors (m, k) at windows.
    pairs
        Components of positions and momenta.
    scales
        Scale of each component, (dim,).
    size
        Components m of a tangent vector: dim, or window * dim.
    largest_size, random_vectors
        Size up to which D is complete, and tangent vectors beyond it.
    entries
        Entries of images at a time.
    """
    dim = len(scales)
    whole = size <= largest_size
    q, p = (list(half) for half in zip(*pairs, strict=True))
    units = np.zeros(dim)  # none of the time
    units[q] = np.sqrt(scales[q] / scales[p])
    units[p] = np.sqrt(scales[p] / scales[q])
    units = np.tile(units, size // dim)
    if whole:
        vectors = np.diag(units)[:, units > 0]
    else:
        vectors = np.random.default_rng(0).standard_normal((size, random_vectors))
        vectors *= units[:, None]
        windows = fewer(windows, max(4, affordable(len(windows), size)))
    start = _form(vectors, dim, q, p)
    part = max(1, entries // vectors.size)
    defects = []
    with np.errstate(all="ignore"):
        for first in range(0, len(windows), part):
            images = image(windows[first : first + part], vectors)
            for change in _form(images, dim, q, p) - start:
                products = change[np.triu_indices(len(change), 1)]
                defects.append(np.abs(products).max() if whole else np.sqrt((products**2).mean()))
    return largest(np.array(defects))


def own_form_defect(map: Any, windows: np.ndarray) -> float | None:
    r"""Return the largest change of the form of a map of two positions, 0 for a variational map.

    .. math:: \max \frac{\| D^T \Omega(\Phi(Z)) D - \Omega(Z) \|_\infty}{\| \Omega(Z) \|_\infty}

    with the derivative D of the map at windows Z (n, 2, dim), and the form :math:`\Omega` that the
    discrete Lagrangian of the map defines. Components are in units of their scales.

    Parameters
    ----------
    map
        Map with a method ``own_form``, such as the model ``lagrangian``.
    windows
        Windows at which the form is measured.

    Returns
    -------
    float or None
        None if there is no finite window.

    Examples
    --------
    >>> from vpintegrator.dynamics.structure import own_form_defect
    >>> free = vp.models.DiscreteLagrangianMap(dim=2, degree=2)
    >>> own_form_defect(free, np.random.default_rng(0).normal(size=(3, 2, 2))) < 1e-14
    True
    """
    windows = finite_windows(map, windows)
    units = np.tile(component_scales(windows, map.structure), 2)
    forms = [map.own_form(each) * units[:, None] * units for each in (windows, map.map(windows))]
    D = map.derivative(windows) * units / units[:, None]  # (n, 2 dim, 2 dim)
    change = D.swapaxes(-1, -2) @ forms[1] @ D - forms[0]
    return largest(change / np.abs(forms[0]).max((1, 2), keepdims=True))


def log_determinant(
    map: Any, windows: Any, scales: np.ndarray | None = None, *, entries: int = 1_000_000
) -> np.ndarray:
    r"""Return the logarithm of the volume factor of a map of windows, at windows.

    .. math:: \log |\det D\Phi(Z)|

    for windows Z (..., window, dim), in the shape (...). A one-step method changes the volume of
    phase space by this factor. A model of windows changes that of the product space
    :math:`\mathbb{R}^{\text{window} \cdot \text{dim}}`. :math:`\Phi` is the map that is
    iterated: if ``prediction_window`` < ``window``, it shifts the window. NaN where the window is
    not finite or the step cannot be made.

    Parameters
    ----------
    map
        The map, which must have a derivative.
    windows
        Windows at which the determinant is computed, (..., window, dim).
    scales
        Scale of each component, (dim,), so that rounding does not depend on units; by default that
        of the windows.
    entries
        Entries of the Jacobian matrices computed at a time.

    Returns
    -------
    numpy.ndarray
        In the shape (...).

    Examples
    --------
    >>> euler = vp.classical("explicit-euler", "harmonic-oscillator", 0.1)
    >>> np.exp(vp.rollout.diagnostics.log_determinant(euler, np.zeros((1, 1, 2)))).round(6)
    array([1.01])
    """
    windows = real_array("windows", windows, None)
    rows = windows.reshape(-1, map.window, map.dim)
    result = np.full(len(rows), np.nan)
    usable = np.flatnonzero(np.isfinite(rows).all(axis=(-2, -1)))
    scales = component_scales(rows, map.structure) if scales is None else scales
    ratios = np.tile(scales, map.window) / np.tile(scales, map.window)[:, None]
    part = max(1, entries // (map.window * map.dim) ** 2)
    for start in range(0, len(usable), part):
        places = usable[start : start + part]
        result[places] = log_volume(ratios * iterated_derivative(map, rows[places]))
    return result.reshape(windows.shape[:-2])


def iterated_images(map: Any, windows: np.ndarray) -> np.ndarray:
    """Return images of windows (n, window, dim) under the map that ``advance`` iterates.

    If ``prediction_window`` < ``window``, the image is the window without its oldest rows, and the
    new rows after the others. Old rows in what ``map`` of a user returns do not count.
    """
    images = map.map(windows)
    new = map.prediction_window
    if new == map.window:
        return images
    return np.concatenate([windows[:, new:], images[:, map.window - new :]], axis=1)


def iterated_tangent(map: Any, windows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return images (n, window * dim, k) of tangent vectors under the map that is iterated.

    ``vectors`` are (n, window * dim, k), or (window * dim, k) for all windows.
    """
    images = map.tangent(windows, vectors)
    new = map.prediction_window * map.dim
    if map.prediction_window == map.window:
        return images
    kept = np.broadcast_to(vectors[..., new:, :], (len(images), *vectors[..., new:, :].shape[-2:]))
    return np.concatenate([kept, images[:, kept.shape[1] :]], axis=1)


def iterated_derivative(map: Any, windows: np.ndarray) -> np.ndarray:
    """Return the derivative (n, window * dim, window * dim) of the map that is iterated."""
    derivative = map.derivative(windows)
    new = map.prediction_window * map.dim
    if map.prediction_window == map.window:
        return derivative
    size = map.window * map.dim
    derivative = derivative.copy()
    derivative[:, : size - new] = np.eye(size)[new:]
    return derivative


def log_volume(matrices: np.ndarray) -> np.ndarray:
    """Return log|det| of matrices (..., m, m); NaN where one is not finite."""
    finite = np.isfinite(matrices).all(axis=(-2, -1))
    with np.errstate(all="ignore"):
        return np.where(finite, np.linalg.slogdet(matrices)[1], np.nan)


def finite_windows(map: Any, windows: Any) -> np.ndarray:
    """Return the finite windows of a map as an array (n, window, dim)."""
    windows = real_array("windows", windows, None).reshape(-1, map.window, map.dim)
    return windows[np.isfinite(windows).all(axis=(1, 2))]


def largest(values: np.ndarray) -> float | None:
    """Return the largest absolute value of the finite entries, None if there are none."""
    sizes = np.abs(values[np.isfinite(values)])
    return float(sizes.max()) if sizes.size else None


def component_scales(
    states: np.ndarray, structure: Structure | None = None, at_rest: float = 1e-6
) -> np.ndarray:
    """Return the scale of each component of states, (dim,), in which nothing depends on units.

    The scale is the standard deviation, for an angle at most that of a uniform one. A component
    that rests has the scale of its value. A component that rests at 0 has the mean scale of the
    others of its kind: of positions or momenta of a symplectic structure, else of all components.

    Parameters
    ----------
    states
        States (..., dim); states that are not finite do not count.
    structure
        Structure of their system, for its angles and its pairs.
    at_rest
        Relative deviation of a component up to which it rests.

    Examples
    --------
    >>> from vpintegrator.dynamics.structure import component_scales
    >>> component_scales(np.array([[1e-9, 2.0, 0.0], [3e-9, 2.0, 0.0]]))[:2]
    array([1.e-09, 2.e+00])
    """
    dim = states.shape[-1]
    rows = states.reshape(-1, dim)
    rows = rows[np.isfinite(rows).all(axis=1)]
    size = np.abs(rows).max(axis=0, initial=0.0)
    if not size.any():
        return np.ones(dim)
    deviation = np.std(rows / np.where(size > 0, size, 1.0), axis=0)
    scales = size * np.where(deviation > at_rest, deviation, 1.0)
    structure = structure or Structure()
    for i, period in structure.periods:
        scales[i] = min(scales[i], period / math.sqrt(12))
    kind = np.zeros(dim, dtype=int)
    kind[[momentum for _, momentum in structure.pairs]] = 1
    for each in (0, 1):
        of_kind = scales[kind == each]
        mean = math.exp(np.mean(np.log(of_kind[of_kind > 0]))) if of_kind.any() else 1.0
        scales[(kind == each) & (scales == 0)] = mean
    return scales


def affordable(wanted: int, size: int, free: int = 64) -> int:
    """Return the number of derivatives (``size``, ``size``) to compute out of ``wanted``, not 0.

    Matrices of up to ``free`` rows are all computed. For larger matrices the number falls with the
    cube of the rows, as the cost of a determinant grows.

    Examples
    --------
    >>> affordable(2400, 32), affordable(2400, 256)
    (2400, 37)
    """
    return max(1, int(wanted * min(1.0, (free / size) ** 3)))


def fewer(values: np.ndarray, count: int) -> np.ndarray:
    """Return a limited number of rows of an array, evenly chosen."""
    return values[np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)]


def _form(vectors: np.ndarray, dim: int, q: list[int], p: list[int]) -> np.ndarray:
    """Return w(u, v) (..., k, k) of all pairs of vectors (..., window * dim, k)."""
    *several, size, k = vectors.shape
    states = vectors.reshape(*several, size // dim, dim, k)
    u, v = (states[..., half, :].reshape(*several, size // dim * len(half), k) for half in (q, p))
    products = u.swapaxes(-1, -2) @ v
    return products - products.swapaxes(-1, -2)


def _reversed(windows: np.ndarray, rho: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return windows[:, ::-1] @ np.asarray(rho).T


def _matrix(values: Any) -> Matrix:
    return tuple(tuple(float(x) for x in row) for row in values)


ROUNDING = 1e-12  # error of a state, relative to its size, that no solution is without


class Moving(Protocol):
    """Components of a state that move, and the periods of angles."""

    @property
    def moving(self) -> Sequence[int]: ...

    @property
    def periods(self) -> Mapping[int, float]: ...


def spread_of(system: Moving, deviation: np.ndarray, moving: Sequence[int] | None = None) -> float:
    r"""Return the root of the sum of variances; that of an angle is at most a uniform one's.

    .. math:: \sqrt{\sum_i \min(\sigma_i^2, T_i^2 / 12)}

    Parameters
    ----------
    system
        System of the states.
    deviation
        Standard deviation of each component that moves, (moving,).
    moving
        Numbers of these components; by default those that move by the equations.
    """
    moving = system.moving if moving is None else moving
    period = np.array([system.periods.get(i, np.inf) for i in moving])
    return float(np.sqrt(np.sum(np.minimum(deviation**2, period**2 / 12))))


VANISHING = 1e-10  # an invariant this much smaller than elsewhere, or than its terms, is zero
_SAMPLED = 100  # orbits from which the size of an invariant's terms is taken
_ENTRIES = 1_000_000  # components of all their states with one left out


def terms_of(
    invariant: Callable[..., Any], initial: np.ndarray, parameters: np.ndarray | None = None
) -> float:
    """Return the largest size of the terms of an invariant at some of the states (trajectory, dim).

    They are seen by leaving out one component at a time: a sum that cancels does not any more. Of
    an invariant that also takes ``parameters`` these are (trajectory, name).
    """
    dim = initial.shape[-1]
    sample = np.flatnonzero(np.isfinite(initial).all(axis=-1))
    sample = sample[: min(_SAMPLED, max(1, _ENTRIES // dim**2))]
    arguments = () if parameters is None else (parameters[sample, None],)
    with np.errstate(all="ignore"):
        return largest_of(invariant(initial[sample, None] * (1 - np.eye(dim)), *arguments))


def size_of(
    invariant: Callable[..., Any], initial: np.ndarray, parameters: np.ndarray | None = None
) -> float:
    """Largest value of an invariant at states (trajectory, dim), or of its terms where it cancels.

    A momentum that is zero in all orbits has the size of its terms: those of the rounding would
    make any change enormous.
    """
    arguments = () if parameters is None else (parameters,)
    with np.errstate(all="ignore"):
        value = largest_of(invariant(initial, *arguments))
        terms = terms_of(invariant, initial, parameters)
    return ensemble_size(np.array([value]), terms) or terms


def ensemble_size(first: np.ndarray, terms: float = 0.0) -> float:
    """Largest size of an invariant's first values (trajectory,), 0 where it vanishes in all orbits.

    Changes are divided by it: the value of a single orbit may be zero by chance. Values that are
    tiny beside the terms of the invariant are zero but for rounding.

    Parameters
    ----------
    first
        The first values of an invariant, (trajectory,).
    terms
        The largest size of the terms that it is a sum of, where known.

    Examples
    --------
    >>> ensemble_size(np.array([-2.0, 1e-9]))
    2.0
    >>> ensemble_size(np.array([1e-17, 3e-17]), terms=1.0)
    0.0
    """
    size = largest_of(first)
    return size if size > VANISHING * terms else 0.0


def largest_of(values: Any) -> float:
    """Return the largest finite size, 0 where there is none."""
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))
