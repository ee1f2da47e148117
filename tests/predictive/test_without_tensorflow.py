# SPDX-License-Identifier: Apache-2.0
"""The room works where TensorFlow and Keras are not installed."""

import os
import pathlib
import subprocess
import sys

import keras_bayesdrop.errors

FILES = pathlib.Path(__file__).with_name("files")
# The package without its `__init__`, which imports everything.
ROOT = f"""
import sys, types
root = types.ModuleType('keras_bayesdrop')
root.__path__ = [{os.path.dirname(keras_bayesdrop.errors.__file__)!r}]
sys.modules['keras_bayesdrop'] = root
"""


def run(code):
    subprocess.run([sys.executable, "-c", ROOT + code], check=True)


def test_importing_needs_neither_tensorflow_nor_keras():
    run("""
import keras_bayesdrop.predictive
import keras_bayesdrop.prediction.sampling.sketch
import keras_bayesdrop.metrics
heavy = {'tensorflow', 'keras', 'scipy', 'tensorflow_probability'}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
""")


def test_everything_works_where_they_are_missing(tmp_path):
    run(f"""
for name in ('tensorflow', 'keras', 'scipy', 'tensorflow_probability'):
    sys.modules[name] = None  # an import raises ImportError
import numpy as np
from keras_bayesdrop import metrics
from keras_bayesdrop.predictive import Classification, Predictive, Regression
for task in ('regression', 'classification', 'binary'):
    p = Predictive.load({str(FILES)!r} + f'/{{task}}_format_1.npz')
    p.std, p.mc_error, p.aleatoric, p.total
    p.quantile(0.3), p.interval(0.9), p[1:3], repr(p)
    if task != 'regression':
        p.predictive_entropy, p.expected_entropy, p.mutual_information
        p.variation_ratio
    y = {{'classification': np.ones(5, int)}}.get(task, np.ones((5, 3)))
    assert p.log_likelihood(y).shape == (5,)
    if task == 'regression':
        assert metrics.sharpness(p) > 0
    again = Predictive.from_samples(p.samples, p.head, [0.5], p.stats)
    again.save({str(tmp_path / "p.npz")!r})
    assert Predictive.load({str(tmp_path / "p.npz")!r}).head == p.head
logits = np.random.default_rng(0).normal(size=(9, 4, 3))
Predictive.from_samples(logits, Classification(from_logits=True))
Predictive.from_samples(logits, Regression(noise_precision=4.0))
""")
