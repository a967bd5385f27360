"""Classical one-step methods with a fixed step, for many trajectories at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical.base import OneStepMethod, iterate
from vpintegrator.rollout.classical.explicit import (
    EXPLICIT_EULER,
    EXPLICIT_MIDPOINT,
    HEUN,
    RK4,
    ExplicitRungeKutta,
)
from vpintegrator.rollout.classical.gauss_legendre import (
    GAUSS_LEGENDRE_2,
    GAUSS_LEGENDRE_4,
    GAUSS_LEGENDRE_6,
    IMPLICIT_MIDPOINT,
    GaussLegendre,
)
from vpintegrator.rollout.classical.registry import METHODS, find_method
from vpintegrator.rollout.classical.stoermer_verlet import STOERMER_VERLET, StoermerVerlet
