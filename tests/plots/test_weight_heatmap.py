# SPDX-License-Identifier: Apache-2.0
import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest

from keras_bayesdrop import plots
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.errors import SelectionError
from keras_bayesdrop.errors import UnbuiltModelError
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.layers import VariationalDense
from tests.plots import pixels
from tests.sparsity.fakes import NoisyDense

layers = keras.layers


def network(scale, inputs=7, name="hidden"):
    """A model of kernels [inputs, 5] and [5, 2], of these sizes."""
    model = keras.Sequential(
        [
            keras.Input((inputs,)),
            layers.Dense(5, name=name),
            layers.Dropout(0.5),
            layers.Dense(2, name="last"),
        ]
    )
    rng = np.random.default_rng(int(1000 * scale))
    for layer in (model.get_layer(name), model.get_layer("last")):
        values = rng.uniform(-scale, scale, layer.kernel.shape)
        layer.kernel.assign(values)
    return model


def maps_of(figure):
    """Returns the axes with an image; the colour bar has none."""
    return [ax for ax in figure.axes if ax.images]


def bars_of(figure):
    return [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]


def test_models_side_by_side():
    models = {"dropout": network(2.0), "ARD": network(0.5)}
    models["ADD"] = network(0.01)
    figure = plots.weight_heatmap(models)
    maps = maps_of(figure)
    assert len(maps) == 6 and len(bars_of(figure)) == 1
    assert len(figure.axes) == 7
    largest = max(
        np.abs(kernel).max()
        for model in models.values()
        for kernel in model.get_weights()[::2]
    )
    norms = {id(ax.images[0].norm) for ax in maps}
    assert len(norms) == 1
    norm = maps[0].images[0].norm
    assert norm.vmin == 0.0
    np.testing.assert_allclose(norm.vmax, largest, rtol=1e-6)
    np.testing.assert_allclose(bars_of(figure)[0].get_ylim(), (0.0, largest))
    # A row of maps for each layer, a column for each model.
    for row, layer in enumerate(("hidden", "last")):
        for column, model in enumerate(models.values()):
            kernel = np.asarray(model.get_layer(layer).kernel)
            (image,) = maps[3 * row + column].images
            np.testing.assert_allclose(
                image.get_array(), np.abs(kernel), rtol=1e-7
            )
            assert image.origin == "upper"
    titles = [ax.get_title() for ax in maps]
    assert titles == [*models, "", "", ""]
    sides = [ax.get_ylabel() for ax in maps]
    assert sides == ["hidden\ninput unit", "", "", "last\ninput unit", "", ""]
    bottom = [ax.get_xlabel() for ax in maps]
    assert bottom == [""] * 3 + ["output unit"] * 3
    assert "size of a weight" in bars_of(figure)[0].get_ylabel()
    assert pixels.overlapping_texts(figure) == []


def test_colours_are_those_of_the_sizes():
    model = network(1.0)
    kernel = np.zeros((7, 5))
    kernel[2] = -1.0
    kernel[4, 3] = 0.5
    model.get_layer("hidden").kernel.assign(kernel)
    figure = plots.weight_heatmap(model, "hidden")
    (ax,) = maps_of(figure)
    colours = plt.get_cmap("Blues")
    for column, row, value in ((0, 0, 0.0), (4, 2, 1.0), (3, 4, 0.5)):
        # A dot has one of 256 values a channel.
        np.testing.assert_allclose(
            pixels.colour_at(ax, column, row), colours(value), atol=1 / 255
        )
    # The darker, the larger, in grey print too.
    grey = colours(np.linspace(0, 1, 50))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert np.all(np.diff(grey) < 0)


def test_end_of_the_colour_scale():
    model = network(1.0)
    for largest, end in ((0.25, "max"), (4.0, "neither"), (None, "neither")):
        figure = plots.weight_heatmap(model, largest=largest)
        bar = maps_of(figure)[0].images[0].colorbar
        assert bar is None  # it belongs to all maps, by the last
        bar = maps_of(figure)[-1].images[0].colorbar
        assert bar.extend == end
        if largest is not None:
            assert bar.norm.vmax == largest


def test_one_model_in_lines():
    stack = [layers.Dense(3, name=f"dense{n}") for n in range(6)]
    model = keras.Sequential([keras.Input((3,)), *stack])
    figure = plots.weight_heatmap(model)
    maps = maps_of(figure)
    assert [ax.get_title() for ax in maps] == [layer.name for layer in stack]
    places = [
        (spec.rowspan.start, spec.colspan.start)
        for spec in (ax.get_subplotspec() for ax in maps)
    ]
    assert places == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    assert len(figure.axes) == 7  # and none that is empty
    assert pixels.overlapping_texts(figure) == []
    bottom = [ax.get_xlabel() for ax in maps]
    assert bottom == ["", "", *["output unit"] * 4]
    # Units are counted in whole numbers.
    for ax in maps:
        assert all(
            place % 1 == 0 for place in (*ax.get_xticks(), *ax.get_yticks())
        )


@pytest.mark.parametrize(
    ("chosen", "paths"),
    [
        ("last", ["last"]),
        (0, ["hidden"]),
        (-1, ["last"]),
        (["last", "hidden"], ["last", "hidden"]),
        ([np.int64(1), "last"], ["last", "last"]),
    ],
)
def test_layers_by_name_and_position(chosen, paths):
    figure = plots.weight_heatmap(network(1.0), chosen)
    assert [ax.get_title() for ax in maps_of(figure)] == paths


def test_layers_of_other_names():
    models = {"a": network(1.0, name="first"), "b": network(1.0, 3, "other")}
    maps = maps_of(plots.weight_heatmap(models, [0]))
    assert [ax.get_ylabel() for ax in maps] == ["layer 1\ninput unit", ""]
    assert [ax.images[0].get_array().shape for ax in maps] == [(7, 5), (3, 5)]


def test_rows_are_input_channels():
    """In every layer: a kernel that is one in channel 2 of 4, else zero."""
    inputs = keras.Input((6, 6, 4))
    kernels = {
        "conv": (layers.Conv2D(3, 2), (slice(None),) * 2 + (2,)),
        "depthwise": (layers.DepthwiseConv2D(2), (slice(None),) * 2 + (2,)),
        "transpose": (layers.Conv2DTranspose(3, 2), (..., 2)),
        "einsum": (layers.EinsumDense("abcd,def->abcef", (6, 6, 2, 3)), (2,)),
        "dense": (layers.Dense(5), (2,)),
    }
    for name, (layer, channel) in kernels.items():
        model = keras.Model(inputs, layer(inputs))
        kernel = np.zeros(layer.kernel.shape)
        kernel[channel] = 1.0
        layer.kernel.assign(kernel)
        (ax,) = maps_of(plots.weight_heatmap(model))
        size = ax.images[0].get_array()
        expected = np.zeros((4, kernel.size // 4))
        expected[2] = 1.0
        np.testing.assert_array_equal(size, expected, err_msg=name)


def test_weights_with_a_distribution():
    layer = BayesianDense(2, 10, name="bayesian")
    model = keras.Sequential([keras.Input((3,)), layer])
    mean = np.array([[0.0, 0.3], [-2.0, 1e-9], [0.5, 0.0]])
    variance = np.array([[0.04, 0.16], [1e-8, 9.0], [0.25, 1e-6]])
    layer.kernel.assign(mean)
    layer.log_noise.assign(np.log(variance))
    (ax,) = maps_of(plots.weight_heatmap(model))
    np.testing.assert_allclose(
        ax.images[0].get_array(), np.sqrt(mean**2 + variance), rtol=1e-6
    )


def test_weights_with_relative_noise():
    """With alpha = s^2 / mu^2: of the package, and of a user's layer."""
    mean = np.array([[0.5, -0.1, 2.0], [1.0, 0.3, 0.2]])
    by_row = np.array([[-2.0], [1.5]])
    by_weight = np.array([[-2.0, 0.0, 1.0], [1.5, -7.0, 2.0]])
    ours = VariationalDense(
        3, 10, prior="gaussian", parametrization="multiplicative", alpha="row"
    )
    for layer, log_alpha in ((ours, by_row), (NoisyDense(3), by_weight)):
        model = keras.Sequential([keras.Input((2,)), layer])
        layer.kernel.assign(mean)
        noise = layer.log_noise if layer is ours else layer.log_alphas
        noise.assign(log_alpha)
        (ax,) = maps_of(plots.weight_heatmap(model))
        np.testing.assert_allclose(
            ax.images[0].get_array(),
            np.abs(mean) * np.sqrt(1.0 + np.exp(log_alpha)),
            rtol=1e-6,
        )


def test_weights_of_zero():
    model = network(1.0)
    for variable in model.weights:
        variable.assign(keras.ops.zeros_like(variable))
    figure = plots.weight_heatmap(model)
    pixels.drawn(figure)
    assert maps_of(figure)[0].images[0].norm.vmax == 1.0


def test_large_kernels_are_averaged_and_small_ones_sharp():
    for units, interpolation in ((128, "nearest"), (129, "auto")):
        model = keras.Sequential([keras.Input((3,)), layers.Dense(units)])
        (ax,) = maps_of(plots.weight_heatmap(model))
        assert ax.images[0].get_interpolation() == interpolation


def test_wrong_models():
    with pytest.raises(BayesdropError, match=r"`models`. Expected .* at least"):
        plots.weight_heatmap({})
    with pytest.raises(BayesdropError, match=r"`model`. Expected a `keras"):
        plots.weight_heatmap({"a": 3})
    with pytest.raises(UnbuiltModelError, match="not been built"):
        plots.weight_heatmap(keras.Sequential([layers.Dense(2)]))
    empty = keras.Sequential([keras.Input((3,)), layers.ReLU()])
    with pytest.raises(BayesdropError, match=r"Expected .* at least one"):
        plots.weight_heatmap(empty)
    short = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    with pytest.raises(
        BayesdropError,
        match=r"same number of layers .* Received: {'a': 2, 'b': 1}",
    ):
        plots.weight_heatmap({"a": network(1.0), "b": short})
    broken = network(1.0)
    broken.get_layer("last").kernel.assign(np.full((5, 2), np.nan))
    with pytest.raises(NonFiniteError, match=r"`last`.* Received: 10 of 10"):
        plots.weight_heatmap(broken)
    assert not plt.get_fignums()


@pytest.mark.parametrize("wrong", ["dropout", 2, -3, True, 0.5, ["last", "x"]])
def test_wrong_layers(wrong):
    with pytest.raises(
        SelectionError,
        match=r"names no layer .* Expected some of \['hidden', 'last'\]"
        ".* Received",
    ):
        plots.weight_heatmap(network(1.0), wrong)


def test_wrong_end_of_the_scale():
    with pytest.raises(BayesdropError, match="argument `largest`"):
        plots.weight_heatmap(network(1.0), largest=0.0)
