"""The expression language of system files: reading, differentiation, evaluation, typesetting."""

from vpintegrator.dynamics.expressions.algebra import Algebra, TooLong
from vpintegrator.dynamics.expressions.evaluation import (
    LARGEST_HAMILTONIAN,
    Arithmetic,
    ComponentFunction,
    arithmetic,
    can_be_written,
    evaluator,
    vectorised,
    written,
)
from vpintegrator.dynamics.expressions.functions import FUNCTIONS
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Expression,
    Function,
    NotFinite,
    Number,
    Product,
    Sum,
    Symbol,
    Value,
    below,
    fold,
    size,
    tidy,
)
from vpintegrator.dynamics.expressions.parsing import Scope, check_name, parse, readable

__all__ = [
    "FUNCTIONS",
    "LARGEST_HAMILTONIAN",
    "Algebra",
    "Arithmetic",
    "Call",
    "ComponentFunction",
    "Expression",
    "Function",
    "NotFinite",
    "Number",
    "Product",
    "Scope",
    "Sum",
    "Symbol",
    "TooLong",
    "Value",
    "arithmetic",
    "below",
    "can_be_written",
    "check_name",
    "evaluator",
    "fold",
    "parse",
    "readable",
    "size",
    "tidy",
    "vectorised",
    "written",
]
