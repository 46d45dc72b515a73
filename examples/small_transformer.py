"""A small transformer that learns to reverse a sequence, without a learning rate, evaluated at its average.

    python examples/small_transformer.py

AutoGradaGrad needs no learning rate, and `averaged()` gives the average of its iterates.
Inside `with optimizer.averaged()` the model holds the average; afterwards it holds its weights again.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradagrad import AutoGradaGrad, learning_rates

DIGITS, LENGTH = 8, 6


class Reverser(nn.Module):
    """Two layers of attention over the digits and their places."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, DIGITS)

    def forward(self, sequence: Tensor) -> Tensor:
        """Scores of every digit at every place."""
        return self.out(self.layers(self.digits(sequence) + self.places))


def main(steps: int = 500) -> tuple[float, float]:
    """Trains; returns the accuracy at the last weights and at their average."""
    torch.manual_seed(0)
    model = Reverser()
    optimizer = AutoGradaGrad(model.parameters())
    for step in range(1, steps + 1):
        sequence = torch.randint(DIGITS, (64, LENGTH))
        loss = nn.functional.cross_entropy(model(sequence).flatten(0, 1), sequence.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            gamma = learning_rates(optimizer)["gradagrad/group0/gamma_median"]
            print(f"step {step}: loss {float(loss.detach()):.4f}, γ {gamma:.3g}")
    test = torch.randint(DIGITS, (1000, LENGTH))

    def accuracy() -> float:
        with torch.no_grad():
            return float((model(test).argmax(-1) == test.flip(1)).float().mean())

    last = accuracy()
    with optimizer.averaged():
        average = accuracy()
    print(f"digits right: {last:.1%} at the last weights, {average:.1%} at their average")
    return last, average


if __name__ == "__main__":
    main()
