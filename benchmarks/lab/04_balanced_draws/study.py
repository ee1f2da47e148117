# SPDX-License-Identifier: Apache-2.0
"""Ways to draw the masks of T = 64 samples, so that their mean errs less.

    python benchmarks/lab/04_balanced_draws/study.py            # minutes
    python benchmarks/lab/04_balanced_draws/study.py --quick    # no file

Checks ways, then measures the squared error of the mean on nine trained
networks, against independent draws, and writes
`benchmarks/results/lab_balanced_draws.json`. Standard errors are 1 to 4 % of a
ratio. T = 64; the first column has rate 0.05, the second 0.1, then two layers
at 0.5, then five layers at 0.5:

    a s xor b, blocks of 16, as shipped     0.23  0.24  0.41  0.48
    permutations, blocks of 16              0.24  0.24  0.39  0.49
    blocks of 8                             0.64  0.28  0.42  0.50
    blocks of 32                            0.18  0.13  0.39  0.48
    blocks of 64                            0.08  0.11  0.38  0.46
    nested in 64                            0.08  0.11  0.40  0.48
    distinct factors of large weights       0.22  0.23  0.38  0.47
    counts and units                        0.24  0.23  0.40  0.47
    counts of a layer                       0.85  0.96  0.95  0.99
    antithetic pairs                        0.97  0.91  0.58  0.63
    8 strata, then mirrored                 0.62  0.29  0.63  0.68
    Sobol', scrambled                       0.08  0.12  0.52  0.57
    van der Corput, scrambled               0.22  0.27  4.57  5.02

- The order `a s xor b` is as good as a random permutation: the variance of a
  mean depends on pairs of samples only, and those are uniform in both.
- Antithetic pairs remove odd orders and double even ones. They help at rate
  0.5 alone, and less than strata.
- How many units a layer drops is one direction among many. Balanced alone it
  gains 0 to 15 %, beside balanced units nothing. Latin squares, which fix the
  number, make samples that are no draws of dropout: their variance is up to
  11 % too small (`spread`).
- Different factors for the 15 units with the largest weights balance pairs of
  them, which gains 6 % at rate 0.5 with two layers. A layer has too many
  pairs: 16 samples can balance those of 15 units.
- Sobol' points are worse than strata with an order for each unit at rate 0.5;
  in hundreds of dimensions, pairs of them are far from balanced.
- Larger blocks gain at low rates, by less rounding to whole samples: at rate
  0.05 a unit is dropped in 0 or 1 of 16 samples, which leaves a fifth of the
  first order. But masks would depend on T, or a prediction with T = 50 would
  end within a block (0.29 at rate 0.05).
- **Nested in 64 is the winner**: blocks of 16 as shipped, and the words of a
  stratum fall one into each of its quarters in four blocks. Masks do not
  depend on T. It has the error of blocks of 64 at T = 64 and less than blocks
  of 16 at T = 50 (0.14 and 0.17 at rates 0.05 and 0.1, against 0.25 and 0.26),
  and is never worse. It takes one more word for 64 samples of a unit. Blocks
  are then no longer independent, so that the means of blocks overestimate the
  squared error (`block_means`: 3.6 and 2.3 times at these rates, at most 1.3
  from rate 0.2 on).
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import harness
import sums
import words
from trained_networks import NETWORKS
from words import SAMPLES
from words import Layer
from words import Way
from words import layer_by_layer

from keras_bayesdrop.random.balanced import field_product

STUDIED = (
    "diabetes_0.05",
    "diabetes_0.1",
    "diabetes_0.5",
    "diabetes_tanh",
    "digits_0.2",
    "digits_0.5",
    "digits_0.9",
    "digits_four_0.2",
    "digits_five_0.5",
)
ROWS = 16
# Two blocks, three and two samples, four.
COUNTS = (32, 50, 64)
RUNS, QUICK_RUNS = 512, 16
# Runs at a time, which bounds the memory.
CHUNK = 32
REFERENCE_RUNS = 2048

WAYS: dict[str, Way] = {
    "independent": layer_by_layer(words.independent, 1),
    "antithetic pairs": layer_by_layer(words.antithetic, 2),
    **{
        f"permutations, blocks of {size}": layer_by_layer(
            words.permuted(size), size
        )
        for size in (8, 16, 32, 64)
    },
    **{
        f"a s xor b, blocks of {2**bits}": layer_by_layer(
            words.field(bits), 2**bits
        )
        for bits in (3, 4, 5, 6)
    },
    "nested in 64, xor": layer_by_layer(words.nested(False), 64),
    "nested in 64, Owen": layer_by_layer(words.nested(True), 64),
    "ranks and bits of the same 16 words": layer_by_layer(words.ranked, 16),
    "8 strata, then mirrored": layer_by_layer(words.mirrored, 16),
    "distinct factors": layer_by_layer(words.distinct_factors(False), 16),
    "distinct factors of large weights": layer_by_layer(
        words.distinct_factors(True), 16
    ),
    "counts of a layer": layer_by_layer(sums.counts_alone, 16),
    "counts and units": layer_by_layer(sums.counts_and_units, 16),
    "Latin squares": layer_by_layer(sums.latin_squares, 16),
    "van der Corput, scrambled": layer_by_layer(words.van_der_corput, 16),
    "Sobol', scrambled": words.sobol,
}


class Chain:
    """The dense layers of a trained network, in NumPy."""

    def __init__(self, name: str, quick: bool) -> None:
        """Trains the network and takes its weights."""
        model, x = NETWORKS[name].trained(ROWS, quick)
        dense = [each for each in model.layers if each.name[:5] == "dense"]
        self.weights = [each.get_weights() for each in dense]
        self.activation = dense[0].activation.__name__
        self.softmax = len(self.weights[-1][1]) > 1
        self.first = x
        if "dropout" not in model.layers[1].name:
            # Certain up to the first noise.
            kernel, bias = self.weights.pop(0)
            self.first = self._activate(x @ kernel + bias)
        rate = NETWORKS[name].rate
        self.layers = [
            Layer(len(kernel), rate, np.linalg.norm(kernel, axis=1))
            for kernel, _ in self.weights
        ]

    def _activate(self, x: Any) -> Any:
        return np.tanh(x) if self.activation == "tanh" else np.maximum(x, 0)

    def outputs(self, drawn: Sequence[Any]) -> Any:
        """Returns [runs, 64, rows, outputs] for words of each layer."""
        h = self.first
        for layer, uniform, (kernel, bias) in zip(
            self.layers, drawn, self.weights, strict=True
        ):
            scale = np.float32(1 / (1 - layer.rate))
            keep = (uniform >= layer.rate).astype(np.float32) * scale
            h = (h * keep[:, :, np.newaxis]) @ kernel + bias
            if kernel is not self.weights[-1][0]:
                h = self._activate(h)
        if self.softmax:
            h = np.exp(h - h.max(axis=-1, keepdims=True))
            h /= h.sum(axis=-1, keepdims=True)
        return h.astype(np.float64)

    def runs(self, way: Way, rng: np.random.Generator, count: int) -> Any:
        """Yields outputs of `count` runs, some at a time."""
        for _ in range(0, count, CHUNK):
            yield self.outputs(way(rng, min(CHUNK, count), self.layers))


def check(way: Way, quick: bool) -> dict[str, float]:
    """Checks a single sample of each run, whose words are to be independent.

    Returns:
        `pairs`: p-value of chi-square for two units, dropped or kept at rate
        0.5. `uniform`: p-value of Kolmogorov and Smirnov for the words; ways
        that return masks only do not have it.
    """
    rng = np.random.default_rng(1)
    layer = Layer(32, 0.5, np.arange(32.0))
    (drawn,) = way(rng, 2000 if quick else 8000, [layer])
    sample = rng.integers(SAMPLES, size=len(drawn))
    units = drawn[np.arange(len(drawn)), sample]
    dropped = (units < layer.rate).astype(int)
    pairs = np.bincount((2 * dropped[:, ::2] + dropped[:, 1::2]).ravel())
    p_values = {"pairs": float(scipy.stats.chisquare(pairs).pvalue)}
    if len(np.unique(units)) > 2:
        uniform = scipy.stats.kstest(units.ravel(), "uniform")
        p_values["uniform"] = float(uniform.pvalue)
    return p_values


def of_runs(off: Any) -> dict[str, Any]:
    """Returns arrays [runs] of means over rows and outputs.

    Args:
        off: Array [runs, 64, rows, outputs], samples minus the true mean.
    """
    blocks = off.reshape(len(off), -1, 16, *off.shape[2:]).mean(axis=2)
    squares = {
        f"{count}": count * np.square(off[:, :count].mean(axis=1))
        for count in COUNTS
    }
    squares["spread"] = np.square(off).mean(axis=1)
    squares["block_means"] = 16 * blocks.var(axis=1, ddof=1)
    return {key: each.mean(axis=(1, 2)) for key, each in squares.items()}


def measure(chain: Chain, quick: bool) -> dict[str, Any]:
    """Returns the squared error of the mean by way, against independent.

    Returns:
        By way: `ratio`, squared error of the mean of 64 samples over the
        variance / 64, and its standard `error`; `ratio_32` and `ratio_50`,
        those of the first samples. `spread`, the mean squared distance of
        single samples to the true mean over the variance, and its
        `spread_error`: 1 if a sample by itself is a draw of dropout.
        `block_means`, the estimate of the squared error from the means of
        blocks of 16, over the squared error.
    """
    rng = np.random.default_rng(0)
    count = QUICK_RUNS if quick else RUNS
    reference = QUICK_RUNS if quick else REFERENCE_RUNS
    sums_of_powers = [
        [y.sum(axis=(0, 1)), np.square(y).sum(axis=(0, 1))]
        for y in chain.runs(WAYS["independent"], rng, reference)
    ]
    mean, square = np.sum(sums_of_powers, axis=0) / (reference * SAMPLES)
    variance = np.mean(square - mean**2)
    measured: dict[str, Any] = {}
    for name, way in WAYS.items():
        parts = [of_runs(y - mean) for y in chain.runs(way, rng, count)]
        numbers = {
            key: np.concatenate([part[key] for part in parts]) / variance
            for key in parts[0]
        }
        means = {key: float(each.mean()) for key, each in numbers.items()}
        errors = {
            key: float(each.std(ddof=1) / len(each) ** 0.5)
            for key, each in numbers.items()
        }
        measured[name] = {
            "ratio": means["64"],
            "error": errors["64"],
            "ratio_32": means["32"],
            "ratio_50": means["50"],
            "spread": means["spread"],
            "spread_error": errors["spread"],
            "block_means": means["block_means"] / means["64"],
        }
    return measured


def main() -> int:
    """Checks, measures, prints and writes."""
    asked = harness.parser(__doc__ or "").parse_args()
    table = words.product_table(4)
    assert all(
        table[a, b] == field_product(a, b) for a in range(16) for b in range(16)
    )
    checks = {name: check(way, asked.quick) for name, way in WAYS.items()}
    for name, p_values in checks.items():
        print(f"{name:36} {p_values}", flush=True)
    results: dict[str, Any] = {"checks": checks, "networks": {}}
    for network in STUDIED[:1] if asked.quick else STUDIED:
        measured = measure(Chain(network, asked.quick), asked.quick)
        results["networks"][network] = measured
        for name, values in measured.items():
            print(
                f"{network:16} {name:36} {values['ratio']:.3f} "
                f"+- {values['error']:.3f} (T = 32 {values['ratio_32']:.3f}, "
                f"50 {values['ratio_50']:.3f}), spread {values['spread']:.3f} "
                f"+- {values['spread_error']:.3f}, "
                f"block means {values['block_means']:.2f}",
                flush=True,
            )
    if not asked.quick:
        print(harness.write("lab_balanced_draws", results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
