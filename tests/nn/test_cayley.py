import shutil

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from tests.nn.laws import assert_close, sample
from vpintegrator.errors import InputError
from vpintegrator.nn import cayley, cayley_kernel, skew_correlations, skew_matrix
from vpintegrator.nn.cayley import cayley_increment

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler here")
BATCH = (3, 7)  # enough for the compiled code, and no multiple of the lanes of a vector


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
    batched = torch.func.vmap(torch.func.jacrev(f))(entries.detach())
    assert_close(batched[0], reverse, 1e-13)
    # the law d cayley = -1/2 (I + L) dC (I + L)
    direction = sample(*one.shape, seed=7)
    tangent = torch.func.jvp(f, (one,), (direction,))[1]
    shifted = torch.eye(size, dtype=one.dtype) + f(one)
    assert_close(tangent, -0.5 * shifted @ skew_matrix(direction, size) @ shifted, 1e-13)


class Calls(TorchDispatchMode):
    """Names of the operations that run inside the block."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("size", [3, 4])
def test_derivative_needs_no_second_solve(size):
    C = skew(size, 1).requires_grad_()
    with Calls() as calls:
        cayley(C).square().sum().backward()
    factorisations = [name for name in calls.names if "linalg" in name or "lu" in name]
    assert factorisations == ([] if size <= 3 else ["aten.linalg_inv_ex.default"])


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


def by_solving(C):
    one = torch.eye(C.shape[-1], dtype=C.dtype)
    return torch.linalg.solve(one + C, one - C)


def in_pytorch(monkeypatch):
    """From here on nothing is compiled."""
    monkeypatch.setattr(cayley_kernel, "usable", lambda *tensors: False)


def gradients(f, *inputs):
    """Of a sum of sines of f's elements, times unequal factors."""
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    output = f(*inputs)
    factors = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
    return torch.autograd.grad((factors * output.sin()).sum(), inputs)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", range(1, 34))
def test_compiled_against_torch_solve(size, dtype):
    entries = sample(*BATCH, size * (size - 1) // 2, seed=size).to(dtype)
    C = skew_matrix(entries, size)
    assert cayley_kernel.usable(C) == (size > 1)
    tolerance = 2e-13 if dtype == torch.float64 else 1e-4
    assert_close(cayley(C), by_solving(C), tolerance)
    # with respect to the entries: the closed form is another function of matrices that are not skew
    (found,) = gradients(lambda e: cayley(skew_matrix(e, size)), entries)
    (expected,) = gradients(lambda e: by_solving(skew_matrix(e, size)), entries)
    assert_close(found, expected, 10 * tolerance)
    X = sample(*BATCH, size, 3, seed=1).to(dtype)
    found = gradients(lambda e, x: cayley_increment(skew_matrix(e, size), x), entries, X)
    expected = gradients(lambda e, x: by_solving(skew_matrix(e, size)).mT @ x - x, entries, X)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 10 * tolerance)


@needs_compiler
@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize(("size", "rank"), [(2, None), (3, None), (4, None), (9, None), (6, 3)])
def test_compiled_equals_pytorch(monkeypatch, size, rank, columns):
    """Also for matrices that are not skew, and without what a skew matrix would hide."""
    C = skew(size, 1, batch=BATCH) + 0.1 * sample(*BATCH, size, size, seed=2)
    X = sample(*BATCH, size, columns, seed=3)

    def increment(C, X):
        return cayley_increment(C, X, rank)

    found = [cayley(C), increment(C, X), *gradients(cayley, C), *gradients(increment, C, X)]
    in_pytorch(monkeypatch)
    expected = [cayley(C), increment(C, X), *gradients(cayley, C), *gradients(increment, C, X)]
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 1e-13)


@needs_compiler
@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_compiled_derivatives(monkeypatch, size):
    monkeypatch.setattr(cayley_kernel, "_FEWEST", 1)
    C = skew(size, size, batch=(2,)).requires_grad_()
    X = sample(2, size, 2, seed=size).requires_grad_()
    rank = 2 if size == 6 else None
    if rank:  # C = a b^T - b a^T, for which the closed form holds
        C = (X[..., :1] @ X[..., 1:].mT - X[..., 1:] @ X[..., :1].mT).detach().requires_grad_()
    assert cayley_kernel.usable(C, X)
    for transposed in (False, True):  # what is saved for later must not be a copy

        def f(C, X, transposed=transposed):
            return cayley_increment(C.mT if transposed else C, X, rank)

        def g(C, transposed=transposed):
            return cayley(C.mT if transposed else C)

        for function, inputs in ((g, (C,)), (f, (C, X))):
            assert torch.autograd.gradcheck(
                function, inputs, check_forward_ad=True, check_batched_grad=True
            )
            assert torch.autograd.gradgradcheck(function, inputs)


@needs_compiler
@pytest.mark.parametrize("size", [3, 5])
def test_compiled_takes_any_layout(monkeypatch, size):
    C, X = skew(size, 1, batch=(4, 5)), sample(4, 5, size, 2, seed=2)
    flipped = C.movedim((0, 1), (3, 2)).contiguous().movedim((3, 2), (0, 1))
    assert not flipped.is_contiguous()
    assert_close(cayley(flipped), cayley(C), 0)
    assert_close(cayley_increment(flipped, X.mT.contiguous().mT), cayley_increment(C, X), 0)
    repeated = C[:1].expand(40, 5, size, size)
    assert_close(cayley(repeated)[17], cayley(C)[0], 1e-15)
    (found,) = gradients(lambda C: cayley(C[:1].expand(40, 5, size, size)), C)
    # batches of C and X that differ
    mixed = cayley_increment(C[:, :1], X)
    shared = cayley_increment(C[0, 0], X)
    sliced = cayley(torch.cat([C, C])[1::2])
    assert cayley(C[:0]).shape == (0, 5, size, size)
    assert gradients(cayley_increment, C, X[..., :0])[1].shape == (4, 5, size, 0)
    in_pytorch(monkeypatch)
    (expected,) = gradients(lambda C: cayley(C[:1].expand(40, 5, size, size)), C)
    assert_close(found, expected, 1e-12)
    assert_close(mixed, cayley_increment(C[:, :1], X), 1e-15)
    assert_close(shared, cayley_increment(C[0, 0], X), 1e-15)
    assert_close(sliced, cayley(torch.cat([C, C])[1::2]), 1e-15)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [2, 3, 4, 7])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nan_stays_where_it_is(size, dtype, bad):
    C = skew(size, 1, batch=(40,)).to(dtype)
    X = sample(40, size, 2, seed=1).to(dtype)
    spoilt = C.clone()
    spoilt[11, 1, 0], spoilt[11, 0, 1] = bad, -bad
    others = torch.arange(40) != 11
    for f in (cayley, lambda C: cayley_increment(C, X)):
        assert f(spoilt)[11].isnan().any()
        assert_close(f(spoilt)[others], f(C)[others], 0)
        (found,), (expected,) = gradients(f, spoilt), gradients(f, C)
        assert found[11].isnan().any()
        assert_close(found[others], expected[others], 0)


@needs_compiler
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_where_pytorch_looks_inside(size):
    """Transforms, modes and traces of PyTorch see its own operations, on large batches too."""
    C, X = skew(size, 5, batch=(20,)), sample(20, size, 2, seed=6)

    def f(C, X):
        return cayley_increment(C, X) + cayley(C) @ X

    value = f(C, X)
    assert_close(torch.func.vmap(f)(C, X), value, 1e-14)
    # a whole batch for each of several others
    shifts = sample(2, 1, size, 2, seed=7)
    assert_close(
        torch.func.vmap(lambda shift: f(C, X + shift))(shifts)[1], f(C, X + shifts[1]), 1e-14
    )
    reverse = torch.func.jacrev(f)(C, X).sum((0, 1, 2))
    assert_close(reverse, torch.func.jacfwd(f)(C, X).sum((0, 1, 2)), 1e-12)
    (expected,) = torch.autograd.grad(f(C.requires_grad_(), X).sum(), C)
    C = C.detach()
    assert_close(reverse, expected, 1e-12)
    followed = make_fx(f)(C, X)
    assert_close(followed(skew(size, 8, batch=(20,)), X), f(skew(size, 8, batch=(20,)), X), 1e-14)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(C.requires_grad_(), X).sum(), C)
    assert_close(found, expected, 1e-12)
    with torch.autocast("cpu", torch.bfloat16):
        single = cayley_increment(C.float(), X.float())
    assert_close(single.double(), cayley_increment(C, X), 0.2)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    cayley_kernel._library.cache_clear()
    try:
        for size in (3, 4):
            C = skew(size, 1, batch=(20,)).requires_grad_()
            with pytest.warns(UserWarning, match="run in PyTorch.*no-such-compiler"):
                L = cayley(C)
            assert_close(L, by_solving(C), 1e-13)
            L.sum().backward()
    finally:
        cayley_kernel._library.cache_clear()


def test_correlations():
    X, A = sample(4, 3, seed=1), sample(3, 3, seed=2)
    C = skew_correlations(X, A)
    assert_close(C, -C.mT, 0)
    assert_close(C[2, 1], X[2] @ A @ X[1], 1e-14)
    skew_A = A - A.mT
    assert_close(skew_correlations(X, skew_A), X @ skew_A @ X.mT, 1e-14)


def test_entries_row_by_row():
    C = skew_matrix(torch.tensor([1.0, 2.0, 3.0]), 3)
    assert C.tolist() == [[0, -1, -2], [1, 0, -3], [2, 3, 0]]


def test_errors():
    with pytest.raises(InputError, match="square"):
        cayley(torch.zeros(2, 3))
    with pytest.raises(RuntimeError):  # torch's own, also where code is compiled
        cayley_increment(torch.zeros(20, 3, 3), torch.zeros(20, 4, 1))
    with pytest.raises(InputError, match="entries"):
        skew_matrix(torch.zeros(4), 3)
