import shutil

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import assert_close, sample
from vpintegrator.nn import cayley, skew_matrix
from vpintegrator.nn.cayley import cayley_increment


def skew(size, seed, scale=1.0, batch=()):
    return skew_matrix(sample(*batch, size * (size - 1) // 2, seed=seed, scale=scale), size)


@given(st.integers(1, 8), st.integers(0, 10**6), st.sampled_from([1e-6, 1.0, 30.0]))
def test_against_fifty_digits(size, seed, scale):
    C = skew(size, seed, scale)
    with mpmath.workdps(50):
        exact = mpmath.matrix(C.tolist())
        one = mpmath.eye(size)
        L = (one - exact) * mpmath.inverse(one + exact)
        expected = torch.tensor(
            [[float(L[i, j]) for j in range(size)] for i in range(size)], dtype=torch.float64
        )
    assert_close(cayley(C), expected, 1e-13)


@pytest.mark.thorough
@given(
    st.integers(1, 33),
    st.integers(0, 10**6),
    st.sampled_from([1e-3, 1.0, 30.0]),
    st.sampled_from([(), (2, 3), (16,), (3, 7), (64, 1)]),
)
def test_rotations(size, seed, scale, batch):
    C = skew(size, seed, scale, batch)
    L = cayley(C)
    assert L.shape == C.shape
    assert_close(L.mT @ L, torch.eye(size, dtype=L.dtype).expand_as(L), 1e-12)
    assert_close(torch.linalg.det(L), torch.ones(batch, dtype=L.dtype), 1e-12)
    X = sample(*batch, size, 2, seed=seed)
    assert_close(cayley_increment(C, X), L.mT @ X - X, 1e-12)
    assert_close(cayley_increment(-C, X), L @ X - X, 1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_every_mode_of_differentiation(size):
    def f(entries):
        return cayley(skew_matrix(entries, size))

    entries = sample(2, size * (size - 1) // 2, seed=size).requires_grad_()
    assert torch.autograd.gradcheck(f, (entries,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (entries,))
    one = entries.detach()[0]
    reverse, forward = torch.func.jacrev(f)(one), torch.func.jacfwd(f)(one)
    assert_close(reverse, forward, 1e-13)
    # the law d cayley = -1/2 (I + L) dC (I + L)
    direction = sample(*one.shape, seed=7)
    tangent = torch.func.jvp(f, (one,), (direction,))[1]
    shifted = torch.eye(size, dtype=one.dtype) + f(one)
    assert_close(tangent, -0.5 * shifted @ skew_matrix(direction, size) @ shifted, 1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "backend"), [(3, "inductor"), (5, "aot_eager")])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiles(size, backend):
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler here")
    C = skew(size, 3, batch=(4,)).requires_grad_()
    compiled = torch.compile(cayley, fullgraph=True, backend=backend)(C)
    assert_close(compiled, cayley(C), 1e-13)
    gradient = torch.autograd.grad(compiled.sin().sum(), C)[0]
    assert_close(gradient, torch.autograd.grad(cayley(C).sin().sum(), C)[0], 1e-13)


@pytest.mark.parametrize("size", [3, 5])
def test_single_precision_and_nan(size):
    C = skew(size, 4)
    single = cayley(C.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), cayley(C), rtol=0, atol=1e-6)
    assert cayley(C * torch.nan).isnan().any()
