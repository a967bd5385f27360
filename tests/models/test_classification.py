import pytest
import torch

from tests.nn.laws import assert_close, sample
from vpintegrator.models import ClassificationTransformer, Model, image_patches


def test_patches():
    image = torch.arange(4 * 6).view(4, 6)
    patches = image_patches(image.expand(2, 4, 6), 2)
    assert patches.shape == (2, 6, 4)
    assert patches[0, [0, 1, 3]].tolist() == [[0, 1, 6, 7], [2, 3, 8, 9], [12, 13, 18, 19]]


@pytest.mark.parametrize("stiefel", [False, True])
@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize("readout", ["mean", "first"])
@pytest.mark.parametrize("inside", [None, 12])
def test_probabilities(stiefel, norm, readout, inside):
    sizes = {"height": 8, "width": 8, "patch": 4, "classes": 10, "heads": 4, "inside": inside}
    model = ClassificationTransformer(**sizes, stiefel=stiefel, norm=norm, readout=readout)
    images = sample(5, 8, 8)
    probabilities = model(images)
    assert probabilities.shape == (5, 10)
    assert_close(probabilities.sum(-1), torch.ones(5, dtype=torch.float64))
    assert_close(probabilities, model.logits(images).softmax(-1))
    assert not isinstance(model, Model)


def test_learns():
    model = ClassificationTransformer(height=4, width=4, patch=2, classes=2)
    images = sample(40, 4, 4)
    labels = (images[:, :2].sum((1, 2)) > images[:, 2:].sum((1, 2))).long()
    training = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        training.zero_grad()
        torch.nn.functional.cross_entropy(model.logits(images), labels).backward()
        training.step()
    assert (model(images).argmax(-1) == labels).double().mean() > 0.95
