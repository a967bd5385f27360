"""Files in the layout of GeometricMachineLearning.jl, and its networks written out in NumPy.

The networks are evaluated here as the Julia package does: columns are time steps.
"""

import h5py
import numpy as np
import pytest
import torch

from tests.nn.laws import assert_close
from vpintegrator.errors import InputError
from vpintegrator.models import (
    ResidualNetwork,
    StandardTransformer,
    VolumePreservingFeedForward,
    VolumePreservingTransformer,
    load,
    load_gml,
    save,
)


class Writer:
    """Writes layers to a file as Julia does, and keeps the same layers as functions."""

    def __init__(self, path, dim, seed=0, dtype=np.float64):
        self.path, self.dim, self.dtype = path, dim, dtype
        self.random = np.random.default_rng(seed)
        self.layers = []
        self.file = h5py.File(path, "w")
        self.count = 0

    def array(self, *shape):
        return (0.3 * self.random.standard_normal(shape)).astype(self.dtype)

    def group(self):
        self.count += 1
        return self.file.create_group(f"L{self.count}")

    def put(self, group, name, array):
        group[name] = np.asarray(array).T  # column-major

    def triangular(self, kind, function, bias):
        layer, n = self.group(), self.dim
        weight = layer.create_group("weight")
        weight.attrs["gml_type"] = kind
        S = self.array(n * (n - 1) // 2)
        self.put(weight, "S", S)
        weight["n"] = n
        L = np.zeros((n, n))
        L[np.tril_indices(n, -1)] = S
        L = L if kind == "LowerTriangular" else L.T
        b = self.array(n) if bias else np.zeros(n)
        if bias:
            self.put(layer, "bias", b)
        self.layers.append(lambda Z: Z + function(L @ Z + b[:, None]))

    def feed_forward(self, blocks, linear, upper_first=False):
        kinds = ["LowerTriangular", "UpperTriangular"][:: -1 if upper_first else 1]

        def pair(function, first, second):
            self.triangular(kinds[0], function, first)
            self.triangular(kinds[1], function, second)

        for _ in range(blocks):
            for index in range(linear):
                pair(lambda x: x, False, index == linear - 1)
            pair(np.tanh, True, True)
        pair(lambda x: x, False, True)

    def volume_preserving_attention(self, skew):
        layer, n = self.group(), self.dim
        if skew:
            A = layer.create_group("A")
            A.attrs["gml_type"] = np.bytes_("SkewSymMatrix")
            S = self.array(n * (n - 1) // 2)
            self.put(A, "S", S)
            A["n"] = n
            matrix = np.zeros((n, n))
            matrix[np.tril_indices(n, -1)] = S
            matrix -= matrix.T
        else:
            matrix = self.array(n, n)
            self.put(layer, "A", matrix)

        def function(Z):
            C = Z.T @ matrix @ Z
            if not skew:
                C = np.tril(C, -1) / np.sqrt(n)
                C = C - C.T
            one = np.eye(len(C))
            return Z @ (one - C) @ np.linalg.inv(one + C)

        self.layers.append(function)

    def multihead(self, width, heads, stiefel):
        layer = self.group()
        P = {}
        for key in ("PQ", "PK", "PV"):
            group = layer.create_group(key)
            P[key] = []
            for index in reversed(range(heads)):  # h5py sorts names, Julia does not
                matrix = self.array(width, width // heads)
                if stiefel:
                    matrix = np.linalg.qr(matrix)[0]
                    entry = group.create_group(f"head_{index + 1}")
                    entry.attrs["gml_type"] = "StiefelManifold"
                    self.put(entry, "A", matrix)
                else:
                    self.put(group, f"head_{index + 1}", matrix)
                P[key].insert(0, matrix)

        def function(Z):
            output = []
            for q, k, v in zip(P["PQ"], P["PK"], P["PV"], strict=True):
                scores = (q.T @ Z).T @ (k.T @ Z) / np.sqrt(width)
                weights = np.exp(scores) / np.exp(scores).sum(0)
                output.append(v.T @ Z @ weights)
            return Z + np.concatenate(output)

        self.layers.append(function)

    def dense(self, outputs, inputs, function, residual):
        layer = self.group()
        W, b = self.array(outputs, inputs), self.array(outputs)
        self.put(layer, "weight" if residual else "W", W)
        self.put(layer, "bias" if residual else "b", b)
        self.layers.append(lambda Z: (Z if residual else 0) + function(W @ Z + b[:, None]))

    def residual(self, width, count):
        for index in range(count):
            self.dense(width, width, np.tanh if index < count - 1 else lambda x: x, True)

    def close(self):
        self.file.close()
        return self.path

    def __call__(self, X):
        outputs = []
        for window in X:
            Z = window.T
            for layer in self.layers:
                Z = layer(Z)
            outputs.append(Z.T)
        return torch.as_tensor(np.stack(outputs))


def windows(length, dim, seed=5):
    return np.random.default_rng(seed).standard_normal((4, length, dim))


def check(writer, model, length):
    X = windows(length, writer.dim)
    tolerance = 1e-12 if writer.dtype == np.float64 else 1e-4
    actual = model(torch.as_tensor(X, dtype=model.shift.dtype)).detach()
    assert_close(actual.double(), writer(X), tolerance)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "network.h5"


@pytest.mark.parametrize("skew", [False, True])
@pytest.mark.parametrize(("blocks", "linear"), [(2, 1), (1, 1), (1, 3)])
def test_volume_preserving_transformer(path, skew, blocks, linear):
    writer = Writer(path, 3)
    for _ in range(3):  # 33 layers for (2, 1): numeric order matters
        writer.volume_preserving_attention(skew)
        writer.feed_forward(blocks, linear)
    model = load_gml(writer.close())
    assert isinstance(model, VolumePreservingTransformer)
    assert model.structure.keeps_volume == skew
    assert model.window == 3
    check(writer, model, 3)
    check(writer, load_gml(path, window=5, prediction_window=1), 5)


@pytest.mark.parametrize("upper_first", [False, True])
def test_volume_preserving_feed_forward(path, upper_first):
    writer = Writer(path, 4)
    writer.feed_forward(6, 1, upper_first=upper_first)
    model = load_gml(writer.close())
    assert isinstance(model, VolumePreservingFeedForward)
    check(writer, model, 1)


@pytest.mark.parametrize("stiefel", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("width", [4, 8])
def test_standard_transformer(path, stiefel, heads, width):
    writer = Writer(path, 4)
    if width != 4:
        writer.dense(width, 4, lambda x: x, False)
    for _ in range(2):
        writer.multihead(width, heads, stiefel)
        writer.residual(width, 3)
    if width != 4:
        writer.dense(4, width, lambda x: x, False)
    model = load_gml(writer.close())
    assert isinstance(model, StandardTransformer)
    check(writer, model, 3)
    # and it can be kept in this package's own format
    save(model, path.with_suffix(".safetensors"))
    check(writer, load(path.with_suffix(".safetensors")), 3)


def test_dense_layers_without_bias(path):
    writer = Writer(path, 4)
    writer.dense(8, 4, lambda x: x, False)
    writer.multihead(8, 2, False)
    writer.residual(8, 3)
    writer.dense(4, 8, lambda x: x, False)
    writer.close()
    with h5py.File(path, "a") as file:
        del file["L1/b"]
    assert torch.count_nonzero(load_gml(path).core[0].bias) == 0


def test_residual_network(path):
    writer = Writer(path, 3)
    writer.residual(3, 5)
    model = load_gml(writer.close())
    assert isinstance(model, ResidualNetwork)
    check(writer, model, 1)


def test_single_precision(path):
    writer = Writer(path, 3, dtype=np.float32)
    writer.volume_preserving_attention(False)
    writer.feed_forward(2, 1)
    model = load_gml(writer.close())
    assert model.shift.dtype == torch.float32
    check(writer, model, 3)


def spoil_type(file):
    file["L2/weight"].attrs["gml_type"] = "SymmetricMatrix"


def spoil_size(file):
    del file["L3/weight/S"]
    file["L3/weight/S"] = np.zeros(4)


def spoil_key(file):
    file.create_group("L2000")["gamma"] = 1.0


def spoil_value(file):
    file["L1/A"][0, 0] = np.nan


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_value, "not finite"),
        (spoil_type, "SymmetricMatrix"),
        (spoil_size, "shape"),
        (spoil_key, "L2000 holds gamma"),
    ],
)
def test_spoiled_files(path, spoil, message):
    writer = Writer(path, 3)
    writer.volume_preserving_attention(False)
    writer.feed_forward(1, 1)
    writer.close()
    with h5py.File(path, "a") as file:
        spoil(file)
    with pytest.raises(InputError, match=message) as caught:
        load_gml(path)
    assert str(path) in str(caught.value)
