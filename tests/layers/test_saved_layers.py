# SPDX-License-Identifier: Apache-2.0
"""Models that were saved once load, and compute the same numbers as then."""

import io
import json
import pathlib
import zipfile

import keras
import numpy as np
import pytest

import keras_bayesdrop
from tests.layers.saved_layers import ARCHIVE
from tests.layers.saved_layers import LAYERS
from tests.layers.saved_layers import machine
from tests.layers.saved_layers import make_model
from tests.layers.saved_layers import numbers_of
from tests.layers.saved_layers import variable_paths

pytestmark = pytest.mark.filterwarnings("ignore:The log-uniform prior is")

# Of gradients in float16, of which the largest is about 1.
TOLERANCE = {"float16": 2e-3, "float32": 2e-5}


# The models were saved before these names changed.
NEW_NAMES = {
    "Gaussian": "GaussianPrior",
    "HalfCauchy": "HalfCauchyScale",
    "Horseshoe": "HorseshoePrior",
    "InverseGamma": "InverseGammaScale",
    "LogUniform": "LogUniformPrior",
    "StudentT": "StudentTPrior",
}


def with_new_names(config):
    """Returns a config with the names that classes and arguments have now."""
    if isinstance(config, list):
        return [with_new_names(each) for each in config]
    if not isinstance(config, dict):
        return config
    config = {key: with_new_names(value) for key, value in config.items()}
    if config.get("class_name") in NEW_NAMES:
        config |= described(NEW_NAMES[config["class_name"]], config["config"])
    if "num_train_examples" in config and "noise_precision" in config:
        loss = config.pop("loss")
        outputs = {"num_outputs": config.pop("num_outputs")}
        precision = config.pop("noise_precision")
        squares = {"noise_precision": precision, **outputs, "loss": loss}
        config["likelihood"] = (
            described("LikelihoodInNats", outputs)
            if loss == "nll"
            else described("GaussianLikelihood", squares)
        )
    return config


def described(name, config):
    """Returns what Keras writes for an object of this package."""
    cls = keras.saving.get_registered_object(f"keras_bayesdrop>{name}")
    return {
        "module": cls.__module__,
        "class_name": name,
        "config": config,
        "registered_name": f"keras_bayesdrop>{name}",
    }


@pytest.fixture(scope="module")
def archive():
    with zipfile.ZipFile(ARCHIVE) as opened:
        yield opened


@pytest.fixture
def model_file(archive, tmp_path, request):
    """Returns the path of a saved model, with today's names in its config."""
    name = request.param
    path = pathlib.Path(tmp_path, f"{name}.keras")
    saved = zipfile.ZipFile(io.BytesIO(archive.read(f"{name}.keras")))
    with saved, zipfile.ZipFile(path, "w") as renamed:
        for member in saved.namelist():
            content = saved.read(member)
            if member == "config.json":
                content = json.dumps(with_new_names(json.loads(content)))
            renamed.writestr(member, content)
    return path


every_model = pytest.mark.parametrize("model_file", LAYERS, indirect=True)


def load(archive, path):
    with np.load(io.BytesIO(archive.read(f"{path.stem}.npz"))) as arrays:
        return keras.models.load_model(path), dict(arrays)


def without_ids(config):
    """Returns a config without the numbers that Keras gives its objects."""
    if isinstance(config, list):
        return [without_ids(each) for each in config]
    if not isinstance(config, dict):
        return config
    return {
        key: without_ids(value)
        for key, value in config.items()
        if key != "shared_object_id"
    }


@every_model
def test_numbers_are_the_same(archive, model_file):
    model, expected = load(archive, model_file)
    del expected["new_paths"], expected["loaded_paths"]
    same_machine = archive.read("machine.txt").decode() == machine()
    numbers = numbers_of(model)
    assert numbers.keys() == expected.keys()
    for name, array in numbers.items():
        assert array.dtype == expected[name].dtype, name
        if same_machine:
            np.testing.assert_array_equal(array, expected[name], name)
        tolerance = TOLERANCE[array.dtype.name]
        np.testing.assert_allclose(
            array, expected[name], tolerance, tolerance, err_msg=name
        )


@every_model
def test_variables_have_the_same_names_and_order(archive, model_file):
    model, expected = load(archive, model_file)
    assert variable_paths(model) == list(expected["loaded_paths"])
    new = variable_paths(make_model(model_file.stem))
    assert new == list(expected["new_paths"])


@every_model
def test_config_is_the_same(archive, model_file):
    model, _ = load(archive, model_file)
    with zipfile.ZipFile(model_file) as content:
        saved = json.loads(content.read("config.json"))
    again = json.loads(model.to_json())
    assert without_ids(again["config"]) == without_ids(saved["config"])


def test_every_public_layer_is_there():
    saved = {type(make()) for _, make in LAYERS.values()}
    rooms = (keras_bayesdrop.layers, keras_bayesdrop.experimental)
    public = {
        each
        for room in rooms
        for each in vars(room).values()
        if isinstance(each, type) and issubclass(each, keras.layers.Layer)
    }
    assert saved == public
