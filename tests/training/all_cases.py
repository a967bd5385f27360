"""Trainings by every optimizer: ``python all_cases.py DATASET FOLDER [cuda]``, also by torchrun."""

import sys
from pathlib import Path

import torch

from vpintegrator import models
from vpintegrator.cli.train import main as vp_train
from vpintegrator.data import open_dataset
from vpintegrator.training import processes, train

# L-BFGS is compiled as Adam is
CASES = {
    (optimizer, compiled)
    for optimizer in ("levenberg-marquardt", "adam", "l-bfgs")
    for compiled in (False, True)
} - {("l-bfgs", True)}


def path(folder, optimizer, compiled):
    return Path(folder) / f"{optimizer}-{compiled}.pt"


def train_all(dataset, folder, device="cpu"):
    """Leave the weights in a folder, one vector for each case."""
    data = open_dataset(dataset)
    for optimizer, compiled in sorted(CASES):
        torch.manual_seed(0)
        model = models.VolumePreservingFeedForward(
            dim=3, width=4, depth=1, reversing_symmetries=data.system.reversing_symmetries
        )
        options = {"optimizer": optimizer, "compiled": compiled, "device": device}
        train(model, data, epochs=3, batch=101, **options)
        if processes.rank() == 0:
            weights = torch.cat([p.detach().cpu().flatten() for p in model.parameters()])
            torch.save(weights, path(folder, optimizer, compiled))


if __name__ == "__main__":
    dataset, folder, *named = sys.argv[1:]
    device = named[0] if named else "cpu"
    train_all(dataset, folder, processes.start(device))
    # the command is to speak once, however many processes there are
    small = ["--model", "vpff", "--width", "4", "--depth", "1", "--epochs", "2", "--device", device]
    vp_train([dataset, *small, "-o", f"{folder}/model.safetensors"], standalone_mode=False)
