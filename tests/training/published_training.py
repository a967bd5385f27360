"""The networks and the training of arXiv 2312.11166, from their formulas, in plain PyTorch.

Networks take windows z (batch, window, dim) and an iterator over their weights.
"""

import torch


def lower(entries):
    """A strictly lower triangular matrix in three dimensions."""
    return entries.new_zeros(3, 3).index_put(tuple(torch.tril_indices(3, 3, -1)), entries)


def feed_forward(z, weights, blocks=6):
    """z + sigma(L z + b) with L lower and upper by turns; tanh and the identity by pairs."""
    for number in range(2 * blocks + 1):
        nonlinear = number % 2 == 1
        for is_upper in (False, True):
            L = lower(next(weights))
            shift = z @ (L if is_upper else L.T)  # (batch, window, dim)
            if nonlinear or is_upper:
                shift = shift + next(weights)
            z = z + (torch.tanh(shift) if nonlinear else shift)
    return z


def volume_preserving_transformer(z, weights):
    """Z -> Z (I - C)(I + C)^-1 with C = Z^T A Z, Z = z^T, A = -A^T; then a feed-forward network."""
    for _ in range(3):
        L = lower(next(weights))
        C = z @ (L - L.T) @ z.mT  # (batch, window, window)
        identity = torch.eye(C.shape[-1], dtype=C.dtype)
        z = torch.linalg.solve(identity + C, identity - C).mT @ z
        z = feed_forward(z, weights, blocks=2)
    return z


def standard_transformer(z, weights):
    """V softmax(K^T Q / sqrt(dim)), two residual layers with tanh, and a linear one."""
    for _ in range(3):
        query, key, value = (z @ next(weights)[0].T for _ in range(3))
        z = torch.softmax(query @ key.mT / 3**0.5, dim=-1) @ value
        for activation in (torch.tanh, torch.tanh, torch.clone):
            z = z + activation(z @ next(weights).T + next(weights))
    return z


def train(network, weights, states, window, *, epochs, batch, seed=0):
    """Yield the root mean square distance of the predictions, relative to the states' spread."""
    windows = states.unfold(1, 2 * window, 1).flatten(0, 1).mT  # (pair, 2 window, dim)
    inputs, targets = windows[:, :window], windows[:, window:]
    spread = states.double().flatten(0, 1).var(0, correction=0).sum().sqrt().item()
    weights = [weight.detach().clone().requires_grad_() for weight in weights]
    optimizer = torch.optim.Adam(weights, betas=(0.9, 0.99), eps=1e-8)
    generator = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1e-6 / 1e-2) ** (epoch / epochs)
        squares = 0.0
        for chosen in torch.randperm(len(inputs), generator=generator).split(batch):
            error = network(inputs[chosen], iter(weights)) - targets[chosen]
            optimizer.zero_grad()
            (error.norm() / targets[chosen].norm()).backward()
            optimizer.step()
            squares += error.square().sum().item()
        yield (squares / targets[..., 0].numel()) ** 0.5 / spread
