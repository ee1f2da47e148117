# SPDX-License-Identifier: Apache-2.0
"""Exports of models that predict the noise of an observation too."""

import json

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests.helpers import TestCase
from tests.serving.exports import assert_refused
from tests.serving.exports import export
from tests.serving.exports import predict

layers = keras.layers

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
NAMES = (
    "mean",
    "variance",
    "std",
    "mc_error",
    "aleatoric",
    "epistemic",
    "total",
)


def network():
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((4,), name="features"),
            layers.Dense(8, activation="tanh"),
            layers.Dropout(0.5),
            layers.Dense(
                4, kernel_initializer=keras.initializers.RandomNormal()
            ),
        ]
    )


def two_outputs():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4,), name="features")
    hidden = layers.Dropout(0.5)(layers.Dense(8, activation="tanh")(inputs))
    return keras.Model(
        inputs,
        {
            "price": layers.Dense(2)(hidden),
            "noise": layers.Dense(2)(hidden),
            "kind": layers.Dense(3, activation="softmax")(hidden),
        },
    )


def assert_served(answers, p, prefix=""):
    for name in NAMES:
        # As in `test_export`: the order of sums, and one more rounding.
        np.testing.assert_allclose(
            answers[prefix + name],
            getattr(p, name),
            rtol=2e-5,
            atol=1e-6,
            err_msg=name,
        )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_one_output(masks, tmp_path):
    head = kbd.Heteroscedastic(log_variance_limit=0.5)
    signatures = export(
        network(),
        tmp_path / "m",
        outputs=NAMES,
        head=head,
        masks=masks,
        quantiles=[0.1, 0.9],
    )
    answers = signatures["serving_default"](features=X)
    p = predict(network(), X, head=head, masks=masks, quantiles=[0.1, 0.9])
    assert_served(answers, p)
    quantiles = np.moveaxis(p.quantile_values, 0, 1)
    np.testing.assert_allclose(answers["quantiles"], quantiles, rtol=1e-4)
    text = (tmp_path / "m/assets.extra/keras_bayesdrop.json").read_text()
    assert json.loads(text)["tasks"] == ["heteroscedastic"]


def test_two_outputs(tmp_path):
    head = kbd.Heteroscedastic(mean="price", log_variance="noise")
    signatures = export(two_outputs(), tmp_path / "m", outputs=NAMES, head=head)
    answers = signatures["serving_default"](features=X)
    assert {name.partition("_")[0] for name in answers} == {"price", "kind"}
    p = predict(two_outputs(), X, head=head)
    assert sorted(p) == ["kind", "price"]
    assert_served(answers, p["price"], "price_")
    assert_served(answers, p["kind"], "kind_")


def test_only_two_outputs_have_no_prefix(tmp_path):
    whole = two_outputs()
    model = keras.Model(
        whole.inputs, [whole.output["noise"], whole.output["price"]]
    )
    head = kbd.Heteroscedastic(mean=1, log_variance=0)
    signatures = export(model, tmp_path / "m", outputs=NAMES, head=head)
    assert_served(
        signatures["serving_default"](features=X), predict(model, X, head=head)
    )


def test_precisions_of_each_output(tmp_path):
    head = kbd.Regression(noise_precision=[1.0, 2.0, 4.0, 8.0])
    signatures = export(network(), tmp_path / "m", outputs=NAMES, head=head)
    answers = signatures["serving_default"](features=X)
    assert_served(answers, predict(network(), X, head=head))
    np.testing.assert_array_equal(
        answers["aleatoric"][0], [1.0, 0.5, 0.25, 0.125]
    )


def test_quantities_of_classes_are_refused(tmp_path):
    assert_refused(
        network(),
        tmp_path / "m",
        "`predictive_entropy` is not defined",
        "heteroscedastic",
        head="heteroscedastic",
        outputs=("mean", "predictive_entropy"),
    )


class WithoutThePackageTest(TestCase):
    def test_process_that_has_never_seen_the_package(self):
        folder = self.get_temp_dir()
        head = kbd.Heteroscedastic()
        export(network(), f"{folder}/m", outputs=NAMES, head=head)
        np.save(f"{folder}/x.npy", X)
        program = (
            "import sys, json, numpy as np, tensorflow as tf\n"
            "folder = sys.argv[1]\n"
            "served = tf.saved_model.load(folder + '/m')\n"
            "served = served.signatures['serving_default']\n"
            "answers = served(features=tf.constant(np.load(folder+'/x.npy')))\n"
            "assert 'keras_bayesdrop' not in sys.modules\n"
            "print(json.dumps({k: v.numpy().tolist() for k, v in "
            "answers.items()}))\n"
        )
        printed = self.run_in_new_process(program, folder)
        answers = json.loads(printed.splitlines()[-1])
        assert_served(answers, predict(network(), X, head=head))
