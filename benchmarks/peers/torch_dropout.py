# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the large network: a loop, and a tiled batch. Prints JSON.

python benchmarks/peers/torch_dropout.py ROWS SAMPLES ROUNDS
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness
import torch


def main() -> None:
    """Times both."""
    rows, samples, rounds = (int(argument) for argument in sys.argv[1:4])
    torch.set_num_threads(2)
    widths = (784, 1200, 1200, 1200, 1200, 10)
    layers: list[torch.nn.Module] = []
    for number in range(5):
        layers.append(torch.nn.Dropout(0.5 if number else 0.2))
        layers.append(torch.nn.Linear(widths[number], widths[number + 1]))
        layers.append(torch.nn.ReLU() if number < 4 else torch.nn.Softmax(1))
    model = torch.nn.Sequential(*layers).train()
    x = torch.rand(rows, 784)
    with torch.inference_mode():
        seconds = harness.time_in_turn(
            {
                "PyTorch, loop": lambda: [model(x) for _ in range(samples)],
                "PyTorch, tiled batch": lambda: model(
                    x.repeat_interleave(samples, dim=0)
                ),
            },
            rounds,
        )
    print(json.dumps({"version": torch.__version__, "seconds": seconds}))


if __name__ == "__main__":
    main()
