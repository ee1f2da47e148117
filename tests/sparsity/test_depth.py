# SPDX-License-Identifier: Apache-2.0
"""Effective depth of models with set and with trained scales."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import UnbuiltModelError
from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.regularizers import ADD
from keras_bayesdrop.regularizers import ARD
from keras_bayesdrop.regularizers import ARDADD
from keras_bayesdrop.sparsity import effective_depth
from keras_bayesdrop.sparsity import prune_depth

layers = keras.layers


def _block(units, scale, name, **settings):
    """A block whose weights are all `scale`."""
    dense = layers.Dense(
        units, kernel_initializer=keras.initializers.Constant(scale)
    )
    return ADDResidual(dense, "log_uniform", 10, name=name, **settings)


def _model():
    inner = keras.Sequential(
        [keras.Input((3,)), _block(3, 0.5, "a"), _block(3, 0.04, "b")],
        name="inner",
    )
    return keras.Sequential(
        [
            keras.Input((3,)),
            inner,
            _block(4, 0.06, "c", projection="auto"),
            layers.Dense(1, name="out"),
        ],
        name="net",
    )


def test_blocks():
    report = effective_depth(_model())
    assert report.model == "net"
    assert report.threshold == 0.1
    assert [each.path for each in report.blocks] == ["inner/a", "inner/b", "c"]
    assert {each.layer for each in report.blocks} == {"ADDResidual"}
    assert [each.parameters for each in report.blocks] == [12, 12, 16]
    # tau^2 = M / (n + 2), for n weights of the same size.
    scales = np.array([0.5, 0.04, 0.06])
    scales *= np.sqrt([9 / 11, 9 / 11, 12 / 14])
    learned = [each.scale for each in report.blocks]
    np.testing.assert_allclose(learned, scales, rtol=1e-5)
    relative = [each.relative for each in report.blocks]
    np.testing.assert_allclose(relative, scales / scales[0], rtol=1e-5)
    assert [each.used for each in report.blocks] == [True, False, True]
    assert report.depth == 2


@pytest.mark.parametrize(
    "threshold, depth", [(0, 3), (0.05, 3), (0.1, 2), (0.5, 1), (1, 1)]
)
def test_the_threshold_decides(threshold, depth):
    assert effective_depth(_model(), threshold).depth == depth


def test_table():
    report = effective_depth(_model())
    assert repr(report) == str(report)
    lines = str(report).splitlines()
    assert lines[0] == (
        "Model `net`, 2 of 3 block(s) in use, relative scale 0.1 or more"
    )
    rows = [line.split() for line in lines[2:]]
    assert rows[0] == [
        "block",
        "class",
        "parameters",
        "scale",
        "relative",
        "used",
    ]
    assert rows[2:] == [
        ["inner/a", "ADDResidual", "12", "0.452", "1", "yes"],
        ["inner/b", "ADDResidual", "12", "0.0362", "0.08", "no"],
        ["c", "ADDResidual", "16", "0.0555", "0.123", "yes"],
    ]


def test_none_in_use():
    # All scales are at the epsilon of the penalty: the largest is zero, too.
    model = keras.Sequential(
        [keras.Input((3,)), _block(3, 0.0, "a"), _block(3, 1e-4, "b")]
    )
    report = effective_depth(model)
    assert report.blocks[1].relative == 1.0
    assert report.depth == 0
    model.layers[1].block[0].kernel.assign(np.full((3, 3), 2e-3))
    assert [each.used for each in effective_depth(model).blocks] == [0, 1]


def test_scales_of_layers():
    x = keras.Input((3,), name="x")
    h = layers.Dense(
        3,
        kernel_initializer="ones",
        kernel_regularizer=ADD("log_uniform", 10),
        name="add",
    )(x)
    h = layers.Dense(3, kernel_regularizer=ARD("log_uniform", 10), name="r")(h)
    h = layers.Dense(
        3,
        kernel_regularizer=ARDADD("inverse_gamma", "inverse_gamma", 10),
        name="both",
    )(h)
    h = BayesianDense(3, 10, structure="add", name="bayes")(h)
    h = BayesianDense(3, 10, structure="ard", name="rows")(h)
    # In a block it is the scale of the block.
    inside = BayesianDense(3, 10, structure="add", name="inside")
    h = ADDResidual(inside, name="block")(h)
    drawn = ADDResidual(layers.Dense(3), mode="noise", rate=0.5, name="drawn")
    report = effective_depth(keras.Model(x, drawn(h)))
    assert [(each.path, each.layer) for each in report.blocks] == [
        ("add", "Dense"),
        ("both", "Dense"),
        ("bayes", "BayesianDense"),
        ("block", "ADDResidual"),
    ]
    scale = inside.learned_scales().matrix
    assert report.blocks[3].scale == pytest.approx(float(scale))
    assert report.blocks[0].scale == pytest.approx((9 / 11) ** 0.5)


def test_shared_blocks_count_once():
    block = _block(3, 0.5, "a")
    x = keras.Input((3,))
    report = effective_depth(keras.Model(x, block(block(x))))
    assert [each.path for each in report.blocks] == ["a"]


def test_models_of_any_kind():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = _block(3, 0.5, "a")

        def call(self, inputs):
            return self.first(inputs)

    model = Own()
    model(np.ones((1, 3)))
    assert effective_depth(model).depth == 1
    assert effective_depth(kbd.stochastic(_model())).depth == 2


@pytest.mark.parametrize("find", [effective_depth, prune_depth])
@pytest.mark.parametrize(
    "threshold", [-0.1, 1.5, float("nan"), float("inf"), None, "0.1", True]
)
def test_bad_thresholds(find, threshold):
    with pytest.raises(
        BayesdropError,
        match=r"`threshold`. Expected a float in \[0, 1\]. Received: thresh",
    ):
        find(_model(), threshold)


@pytest.mark.parametrize("find", [effective_depth, prune_depth])
def test_models_without_blocks(find):
    drawn = ADDResidual(layers.Dense(3), mode="noise", rate=0.5)
    model = keras.Sequential([keras.Input((3,)), drawn, layers.Dense(1)])
    with pytest.raises(
        BayesdropError,
        match=r"no block with a learned scale. Expected .* Received: .*Dense",
    ):
        find(model)
    with pytest.raises(UnbuiltModelError):
        find(keras.Sequential([layers.Dense(2)]))


def _trained(target):
    """Trains four blocks on 100 examples with noise of 0.1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2)).astype("float32")
    y = target(x[:, :1]) + 0.1 * rng.normal(size=(100, 1))
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(8, use_bias=False),
            *(
                ADDResidual(
                    layers.Dense(8, activation="relu", use_bias=False),
                    "half_cauchy",
                    num_train_examples=100,
                    likelihood=GaussianLikelihood(100.0),
                )
                for _ in range(4)
            ),
            layers.Dense(1),
        ]
    )
    steps = 1200
    rate = keras.optimizers.schedules.CosineDecay(0.05, steps)
    model.compile(keras.optimizers.Adam(rate), "mse", steps_per_execution=100)
    data = tf.data.Dataset.from_tensors((x, y.astype("float32"))).repeat()
    model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)
    return model, x, y


def test_finds_the_one_layer_that_data_need():
    # |x| is linear but for one kink: a layer of rectifiers makes it exactly,
    # and without one the error would be that of the best line, about 0.36.
    model, x, y = _trained(np.abs)
    report = effective_depth(model)
    assert report.depth == 1
    # A block of no use is at the epsilon of its penalty, 1e-4, and the other
    # is not near it: any threshold between would have done.
    relative = sorted(each.relative for each in report.blocks)
    assert relative[2] < 0.01
    unused = [each.scale for each in report.blocks if not each.used]
    np.testing.assert_allclose(unused, 1e-4, rtol=0.1)
    # The noise has variance 0.01; the mean of 100 squares errs by 0.0014.
    shallow = prune_depth(model)
    assert np.mean((shallow.predict(x, verbose=0) - y) ** 2) < 0.016
    assert sum(type(each) is layers.Dense for each in shallow.layers) == 3
    np.testing.assert_allclose(
        shallow.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-2
    )


def test_finds_that_data_need_no_layer():
    model, x, y = _trained(lambda x: x)
    assert effective_depth(model).depth == 0
    shallow = prune_depth(model)
    assert type(shallow) is keras.Sequential
    assert len(shallow.layers) == 2
    assert np.mean((shallow.predict(x, verbose=0) - y) ** 2) < 0.016
