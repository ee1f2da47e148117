# SPDX-License-Identifier: Apache-2.0
"""Views: other ways to call the same model, sharing its weights.

A view is a Keras model around the user's model. It owns no weights and changes
nothing: it runs the user's layers in inference mode and handles their noise
itself. Building a second graph from the same layers would be shorter, but
leaves extra nodes on them (`layer.output` then raises); a view does not.

A call, and the next `predict`, `evaluate` or `fit` of a view, see the source as
it is then: an attribute that was changed in between counts.
"""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.choice import DEFAULT_DRAWS
from keras_bayesdrop._core.choice import DRAWS
from keras_bayesdrop._core.choice import MASKS
from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.graph import LayerSelection
from keras_bayesdrop.graph import ModelView
from keras_bayesdrop.graph import select_sites
from keras_bayesdrop.graph import source_of
from keras_bayesdrop.graph import survey
from keras_bayesdrop.graph import version_of
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.random.philox import LAST_SAMPLE
from keras_bayesdrop.random.philox import seed_to_key


class View(ModelView, keras.Model):
    """A model that runs another, with its noise under control.

    Args:
        source: The model to run. Never changed.
        layers: Which noise sites may be active; all by default.
        name: Name of the view.
    """

    def __init__(
        self,
        source: keras.Model,
        layers: LayerSelection = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_model(source)
        if layers is not None:
            surveyed = survey(source)
            # Without an example not all sites of code of one's own are known.
            if surveyed.is_complete:
                select_sites(layers, surveyed.sites)
        super().__init__(name=name, **kwargs)
        self.source = source
        self.selection = layers if isinstance(layers, str) else _frozen(layers)
        self._traced_versions: dict[str, int] = {}
        self.built = True

    def _draws(self, num_rows: tf.Tensor) -> Draws | None:
        """Returns the draws of one call for `num_rows` rows, if any."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the view, without clearing the losses of the source."""
        with private_keras.losses_kept(self):
            return super().__call__(*args, **kwargs)

    def call(self, inputs: Any) -> Any:
        """Runs the source model once."""
        plan = build_plan(self.source, self.selection, inputs)
        engine = Reference()
        flat = plan.flatten(inputs)
        draws = self._draws(tf.shape(flat[0])[0])
        if draws is not None:
            plan.require_samples()
        cut = engine.run_prefix(plan, flat)
        return plan.pack(engine.run_suffix(plan, cut, draws))

    def make_predict_function(self, force: bool = False) -> Any:
        """Makes what `predict` runs, anew if the source changed."""
        return super().make_predict_function(force or self._is_stale("predict"))

    def make_test_function(self, force: bool = False) -> Any:
        """Makes what `evaluate` runs, anew if the source changed."""
        return super().make_test_function(force or self._is_stale("test"))

    def make_train_function(self, force: bool = False) -> Any:
        """Makes what `fit` runs, anew if the source changed."""
        return super().make_train_function(force or self._is_stale("train"))

    def _is_stale(self, function: str) -> bool:
        """Returns whether the source changed since a function was compiled."""
        version = version_of(self.source)
        stale = self._traced_versions.get(function) != version
        self._traced_versions[function] = version
        return stale

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that rebuild the view.

        Patterns and predicates are saved as the paths that they choose.
        """
        layers = None
        if self.selection is not None:
            surveyed = survey(self.source)
            layers = sorted(select_sites(self.selection, surveyed.sites))
        return {
            "name": self.name,
            "source": keras.saving.serialize_keras_object(self.source),
            "layers": layers,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "View":
        """Rebuilds the view and, inside it, the source model."""
        source = keras.saving.deserialize_keras_object(
            config["source"], custom_objects=custom_objects
        )
        return cls(**{**config, "source": source})


@export("keras_bayesdrop.views.StochasticView")
class StochasticView(View):
    """Every chosen noise site on, everything else in inference mode."""

    def __init__(
        self,
        source: keras.Model,
        layers: LayerSelection = None,
        masks: str = "independent",
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        masks = check_choice(masks, "masks", MASKS)
        seed = None if seed is None else check_int(seed, "seed")
        super().__init__(source, layers, name, **kwargs)
        self.masks = masks
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def _draws(self, num_rows: tf.Tensor) -> Draws:
        halves = tf.cast(self.seed_generator.next(), tf.uint64)
        return Draws(
            seed=tf.bitwise.left_shift(halves[0], tf.constant(32, tf.uint64))
            + halves[1],
            first_sample=0,
            num_samples=1,
            num_blocks=1,
            first_row=0,
            num_rows=num_rows,
            shared=self.masks == "shared",
            balanced=False,
            # Every call is sample 0 of another seed.
            first_mask=tf.cast(halves[1] % (1 << 31), tf.int64),
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that rebuild the view."""
        return {**super().get_config(), "masks": self.masks, "seed": self.seed}


@export("keras_bayesdrop.views.DeterministicView")
class DeterministicView(View):
    """All noise off: the weight-scaling prediction."""

    def _draws(self, num_rows: tf.Tensor) -> None:
        return None


@export("keras_bayesdrop.views.SampleFunction")
class SampleFunction(View):
    """One frozen mask: a single function drawn from the posterior."""

    def __init__(
        self,
        source: keras.Model,
        seed: int,
        sample: int = 0,
        layers: LayerSelection = None,
        draws: str = DEFAULT_DRAWS,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        draws = check_choice(draws, "draws", DRAWS)
        super().__init__(source, layers, name, **kwargs)
        self.draws = draws
        self.seed = check_int(seed, "seed")
        self.sample = check_int(sample, "sample", 0, LAST_SAMPLE)

    def _draws(self, num_rows: tf.Tensor) -> Draws:
        return Draws(
            seed=tf.constant(seed_to_key(self.seed), tf.uint64),
            first_sample=self.sample,
            num_samples=1,
            num_blocks=1,
            first_row=0,
            num_rows=num_rows,
            shared=True,
            balanced=self.draws == "balanced",
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that rebuild the view."""
        return {
            **super().get_config(),
            "seed": self.seed,
            "sample": self.sample,
            "draws": self.draws,
        }


def stochastic(
    model: keras.Model,
    layers: LayerSelection = None,
    masks: str = "independent",
    seed: int | None = None,
) -> StochasticView:
    """Returns a view of `model` in which every noise site draws when called.

    Dropout layers of every kind, the dropout inside recurrent and attention
    layers, and those in nested or subclassed models are on; BatchNormalization
    and everything else stays in inference mode. The view shares the weights
    of `model` and changes nothing in it.

    Args:
        model: A built Keras model.
        layers: Which noise sites to turn on: a name or path, a regular
            expression, a predicate of the layer, or a sequence of these. All
            by default.
        masks: `"independent"` for a mask per example, as in training, or
            `"shared"` for one mask per call.
        seed: Makes the sequence of masks reproducible.

    Returns:
        A `keras.Model`.

    Example:
    ```python
    noisy = keras_bayesdrop.stochastic(model)
    samples = [noisy(x) for _ in range(10)]
    ```
    """
    private_keras.require_tensorflow()
    check_model(model)
    model, layers = source_of(model, layers)
    return StochasticView(
        model, layers, masks, seed, name=f"{model.name}_stochastic"
    )


def deterministic(model: keras.Model) -> DeterministicView:
    """Returns a view of `model` with all noise off, `MCDropout` included.

    This is the usual prediction of a network trained with dropout, which
    approximates the mean over masks by scaling the weights.

    Args:
        model: A built Keras model.

    Returns:
        A `keras.Model` that shares the weights of `model`.

    Example:
    ```python
    y = keras_bayesdrop.deterministic(model).predict(x)
    ```
    """
    private_keras.require_tensorflow()
    check_model(model)
    model, _ = source_of(model, None)
    return DeterministicView(model, name=f"{model.name}_deterministic")


def sample_function(
    model: keras.Model,
    seed: int,
    sample: int = 0,
    layers: LayerSelection = None,
    draws: str = DEFAULT_DRAWS,
) -> SampleFunction:
    """Returns one function drawn from the posterior, as a Keras model.

    The mask is frozen: the function is deterministic and smooth, and it is the
    very one that `predict_with_uncertainty(model, x, seed=seed)`
    uses as its sample number `sample`.

    Args:
        model: A built Keras model.
        seed: The seed of the prediction.
        sample: The number of the sample, from 0.
        layers: Which noise sites are active, as in `stochastic`.
        draws: `"balanced"` or `"independent"`, as in `Sampling`.

    Returns:
        A `keras.Model` that shares the weights of `model`.

    Example:
    ```python
    f = keras_bayesdrop.sample_function(model, seed=0, sample=3)
    best = x[f.predict(x).argmax()]  # Thompson sampling
    ```
    """
    private_keras.require_tensorflow()
    check_model(model)
    model, layers = source_of(model, layers)
    name = f"{model.name}_sample_{sample}"
    return SampleFunction(model, seed, sample, layers, draws, name=name)


def _frozen(layers: Any) -> Any:
    return tuple(layers) if isinstance(layers, (list, set)) else layers
