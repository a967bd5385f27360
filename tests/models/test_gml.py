"""Files in the layout of GeometricMachineLearning.jl, and its networks written out in NumPy.

The networks are evaluated here as the Julia package does: columns are time steps.
"""

from functools import reduce

import h5py
import numpy as np
import pytest
import torch

from tests.nn.laws import assert_close
from vpintegrator.errors import InputError
from vpintegrator.models import load, load_gml, save


def identity(Z):
    return Z


class Writer:
    """Writes layers to a file as Julia does, and keeps the same layers as functions."""

    def __init__(self, path, dim, dtype=np.float64):
        self.path, self.dim, self.dtype, self.layers = path, dim, dtype, []
        self.random = np.random.default_rng(0)
        self.file = h5py.File(path, "w")

    def array(self, *shape):
        return (0.3 * self.random.standard_normal(shape)).astype(self.dtype)

    def put(self, name, array, kind=None):
        """Write a column-major array of the next layer, or the entries of a matrix of a kind."""
        name = f"L{len(self.layers) + 1}/{name}"
        if kind is not None:
            self.file.create_group(name).attrs["gml_type"] = kind
            name += {"StiefelManifold": "/A"}.get(kind, "/S")
        self.file[name] = np.asarray(array).T

    def lower(self, name, kind):
        """Write the entries of a triangular or skew-symmetric matrix; return the lower half."""
        entries, L = self.array(self.dim * (self.dim - 1) // 2), np.zeros((self.dim, self.dim))
        self.put(name, entries, kind)
        L[np.tril_indices(self.dim, -1)] = entries
        return L

    def triangular(self, upper, function, bias):
        L = self.lower("weight", "UpperTriangular" if upper else "LowerTriangular")
        L, b = L.T if upper else L, self.array(self.dim) if bias else np.zeros(self.dim)
        if bias:
            self.put("bias", b)
        self.layers.append(lambda Z: Z + function(L @ Z + b[:, None]))

    def feed_forward(self, blocks, linear, upper_first=False):
        def pair(function, first, second):
            self.triangular(upper_first, function, first)
            self.triangular(not upper_first, function, second)

        for _ in range(blocks):
            for index in range(linear):
                pair(identity, False, index == linear - 1)
            pair(np.tanh, True, True)
        pair(identity, False, True)

    def volume_preserving_attention(self, skew):
        if skew:
            A = self.lower("A", np.bytes_("SkewSymMatrix"))
            A = A - A.T
        else:
            A = self.array(self.dim, self.dim)
            self.put("A", A)

        def function(Z):
            C, one = Z.T @ A @ Z, np.eye(Z.shape[1])
            if not skew:
                C = np.tril(C, -1) / np.sqrt(self.dim)
                C = C - C.T
            return Z @ (one - C) @ np.linalg.inv(one + C)

        self.layers.append(function)

    def multihead(self, width, heads, stiefel):
        kind, P = "StiefelManifold" if stiefel else None, {}
        for key in ("PQ", "PK", "PV"):
            P[key] = [self.array(width, width // heads) for _ in range(heads)]
            if stiefel:
                P[key] = [np.linalg.qr(matrix)[0] for matrix in P[key]]
            for index in reversed(range(heads)):  # h5py sorts names, Julia does not
                self.put(f"{key}/head_{index + 1}", P[key][index], kind)

        def function(Z):
            output = []
            for q, k, v in zip(P["PQ"], P["PK"], P["PV"], strict=True):
                weights = np.exp((q.T @ Z).T @ (k.T @ Z) / np.sqrt(width))
                output.append(v.T @ Z @ (weights / weights.sum(0)))
            return Z + np.concatenate(output)

        self.layers.append(function)

    def dense(self, outputs, inputs, function=identity, names=("W", "b")):
        arrays = self.array(outputs, inputs), self.array(outputs)
        for name, array in zip(names, arrays, strict=True):
            self.put(name, array)
        W, b = arrays
        residual = "weight" in names
        self.layers.append(lambda Z: (Z if residual else 0) + function(W @ Z + b[:, None]))

    def residual(self, width, count):
        for index in range(count):
            function = np.tanh if index < count - 1 else identity
            self.dense(width, width, function, ("weight", "bias"))

    def transformer(self, width, heads, stiefel, embedding=False):
        embedding = embedding or width != self.dim
        if embedding:
            self.dense(width, self.dim)
        for _ in range(2):
            self.multihead(width, heads, stiefel)
            self.residual(width, 3)
        if embedding:
            self.dense(self.dim, width)

    def volume_preserving_transformer(self, skew, blocks, linear):
        for _ in range(3):  # 33 layers for (2, 1): numeric order matters
            self.volume_preserving_attention(skew)
            self.feed_forward(blocks, linear)

    def check(self, name, window, /, **options):
        """Load the file, and compare the new states of the model with those of the layers."""
        self.file.close()
        model = load_gml(self.path, **options)
        assert (model.name, model.window) == (name, window)
        X = np.random.default_rng(5).standard_normal((4, window, self.dim))
        Y = [reduce(lambda Z, layer: layer(Z), self.layers, Z.T).T for Z in X]
        actual = model(torch.as_tensor(X, dtype=model.shift.dtype)).detach().double()
        tolerance = 1e-12 if self.dtype == np.float64 else 1e-4
        new = slice(window - model.prediction_window, None)
        assert_close(actual[:, new], torch.as_tensor(np.stack(Y))[:, new], tolerance)
        return model


@pytest.fixture
def path(tmp_path):
    return tmp_path / "network.h5"


@pytest.mark.parametrize("skew", [False, True])
@pytest.mark.parametrize(("blocks", "linear"), [(2, 1), (1, 1), (1, 3)])
def test_volume_preserving_transformer(path, skew, blocks, linear):
    writer = Writer(path, 3)
    writer.volume_preserving_transformer(skew, blocks, linear)
    model = writer.check("vpt", 3)
    assert model.structure.keeps_volume == skew
    writer.check("vpt", 5, window=5, prediction_window=1)


@pytest.mark.parametrize(
    ("name", "layers", "sizes"),
    [
        ("vpff", "feed_forward", (6, 1, False)),
        ("vpff", "feed_forward", (6, 1, True)),
        ("resnet", "residual", (4, 5)),
    ],
)
def test_networks_of_one_step(path, name, layers, sizes):
    writer = Writer(path, 4)
    getattr(writer, layers)(*sizes)
    writer.check(name, 1)


@pytest.mark.parametrize("stiefel", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("width", [4, 8])
def test_standard_transformer(path, stiefel, heads, width):
    writer = Writer(path, 4)
    writer.transformer(width, heads, stiefel)
    model = writer.check("transformer", 3)
    # and it can be kept in this package's own format
    save(model, path.with_suffix(".safetensors"))
    X = torch.ones(2, 3, 4, dtype=torch.float64)
    assert_close(load(path.with_suffix(".safetensors"))(X), model(X), 0)


def test_affine_layers_of_as_many_components(path):
    """As earlier versions of the package had them: 24 parameters more in three dimensions."""
    writer = Writer(path, 3)
    writer.transformer(3, 1, False, embedding=True)
    model = writer.check("transformer", 3)
    assert model.arguments["embedding"] and sum(p.numel() for p in model.parameters()) == 150


def test_dense_layers_without_bias(path):
    writer = Writer(path, 4)
    writer.transformer(8, 2, False)
    del writer.file["L1/b"]
    writer.file.close()
    assert torch.count_nonzero(load_gml(path).core[0].bias) == 0


def test_single_precision(path):
    writer = Writer(path, 3, dtype=np.float32)
    writer.volume_preserving_transformer(False, 2, 1)
    assert writer.check("vpt", 3).shift.dtype == torch.float32


@pytest.mark.parametrize(
    ("removed", "name", "value", "message"),
    [
        ("L1/A", "L1/A", np.full((3, 3), np.nan), "not finite"),
        ("L2/weight", "L2/weight/S", np.zeros(3), "of type ''"),
        ("L3/weight/S", "L3/weight/S", np.zeros(4), "shape"),
        ("L4", "L2000/gamma", 1.0, "L2000 holds gamma"),
        ("L4", "L4/A", np.zeros((3, 3)), "not all alike"),
        ("L3", "L3000/A", np.zeros((3, 3)), "not all alike|not in the order"),
    ],
)
def test_spoiled_files(path, removed, name, value, message):
    writer = Writer(path, 3)
    writer.volume_preserving_attention(False)
    writer.feed_forward(1, 1)
    del writer.file[removed]
    writer.file[name] = value
    writer.file.close()
    with pytest.raises(InputError, match=message) as caught:
        load_gml(path)
    assert str(path) in str(caught.value)
