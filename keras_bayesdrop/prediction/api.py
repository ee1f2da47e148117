# SPDX-License-Identifier: Apache-2.0
"""The one call: predicts with a model and says how sure it is."""

import os
import time
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.prepared import Prepared
from keras_bayesdrop.prediction.request import OLD_KEYWORDS
from keras_bayesdrop.prediction.request import Arguments


@refuse_old_keywords(OLD_KEYWORDS)
def predict_with_uncertainty(
    model: keras.Model | Sequence[keras.Model],
    x: Any,
    num_samples: int = 50,
    *,
    batch_size: int | None = None,
    seed: int | None = None,
    method: str | Method = "sampling",
    head: Any = "auto",
    layers: LayerSelection = None,
    quantiles: Sequence[float] | None = None,
    return_samples: bool | str | os.PathLike[str] = False,
    first_row: int = 0,
    allow_hidden_noise: bool = False,
    verbose: str | int = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Predicts with a Keras model and says how sure it is.

    Draws `num_samples` dropout masks, predicts with each, and reduces the
    predictions as they come:

        y[t] = f(x; mask[t]),    mean = sum{ y[t] : t } / T

    Works on any built Keras model with dropout in it: `keras.layers.Dropout`
    and its relatives, the layers of this package, dropout inside recurrent and
    attention layers, nested and subclassed models. The model is not changed;
    BatchNormalization stays in inference mode.

    Under a `tf.distribute.MirroredStrategy` the devices share the rows of every
    batch, or the samples if rows are few. So do the workers of a
    `MultiWorkerMirroredStrategy`: each calls this with the same arguments, and
    gets the whole result. Masks are those of one device. The strategy is that
    of the scope, or else the one that the model was made under.

    Args:
        model: A built Keras model; or a list of them, an ensemble. Its
            networks weigh the same, and each draws `num_samples` samples with
            a seed of its own, `member_seed(seed, number)`. A network without
            noise counts once. The result has the parts `within` and `between`
            of the epistemic variance.
        x: Whatever `model.predict` takes: arrays, lists and dicts of arrays,
            a `tf.data.Dataset`, a `PyDataset`, a generator.
        num_samples: Number `T` of samples, from 2 to 2^24. With a tolerance
            the most that a row may take.
        batch_size: Bounds the memory: no more is used than a forward pass of
            `batch_size` rows takes, whatever `num_samples` and the number of
            rows. By default chosen by the size of the model. Results do not
            depend on it. A batch of a stream is cut if it is larger.
        seed: Any integer. The same seed gives the same masks, whatever the
            batch size, engine, or process, and the first samples do not
            change when `num_samples` grows. By default drawn at random (from
            Python's generator, so `keras.utils.set_random_seed` governs it).
        method: `"sampling"`, `"moments"` (one pass in closed form, no
            samples) or `"rao_blackwell"` (samples all noise but the last
            site); or an object with more choices: `Sampling`, `Moments`,
            `RaoBlackwell`.
        head: `"regression"`, `"heteroscedastic"` (means and log variances on
            the last axis), `"classification"`, `"noisy_logits"` (logits and
            log variances on the last axis), `"binary"`, or `"auto"` to
            read it off the last activation, the compiled loss and the values
            of the first batch (`explain` shows the reason); or an object
            with more choices: `Regression(noise_precision=...)`,
            `Heteroscedastic(mean=..., log_variance=...)` for two outputs,
            `Classification(from_logits=...)`, `NoisyLogits(num_draws=...)`,
            `Binary(from_logits=...)`; or a structure of these, like the
            outputs of the model.
        layers: Which noise sites are active: a name or path, a regular
            expression, a predicate of the layer, or a sequence of these. All
            by default.
        quantiles: Levels in `[0, 1]` to estimate without keeping samples.
            Exact up to 1024 samples; beyond from sketches, which take 128 MB
            at most, or what `batch_size` rows take. If those of one row do
            not fit, samples are drawn several times (a warning says so).
        return_samples: Whether to keep all samples, `[T, rows, ...]`. Refused
            if they do not fit into memory. Or the path of a `.npy` file to
            write them to: `samples` of the result is that file, mapped into
            memory. With several outputs a file for each,
            `samples.<name>.npy` for `samples.npy`; learned noise is in
            another, `samples.noise.npy`. Not with a tolerance, nor with
            several workers.
        first_row: Int, number of the first row of `x` in a larger whole of
            which `x` is a part. With independent masks a row has the noise of
            its number, so that parts predicted apart, with the same seed, are
            what the whole would be. Shared masks are the same for all rows.
            Masks are numbered for 2^32 rows at least, and for more if the
            model is small; what is beyond is refused.
        allow_hidden_noise: Bool. Noise that cannot be sampled (drawn by
            TensorFlow or NumPy in the code of a layer, or only in a training
            mode that changes more than the noise) is an error that names the
            layer. `True` makes it a warning, and leaves the noise out of the
            uncertainty. Defaults to `False`.
        verbose: 0, 1 (progress bar), 2, or `"auto"`, as in `model.predict`.
        steps: Batches of `x` after which to stop.
        callbacks: Keras callbacks; their `on_predict_*` methods are called.

    Returns:
        A `Predictive`, or a structure of them like the model's outputs (a
        head that takes two outputs has one, in the place of its mean).

    Example:
    ```python
    p = keras_bayesdrop.predict_with_uncertainty(model, x, num_samples=100)
    p.mean, p.std, p.interval(0.9)
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """
    began = time.perf_counter()
    arguments = Arguments(
        num_samples=num_samples,
        batch_size=batch_size,
        seed=seed,
        method=method,
        head=head,
        layers=layers,
        quantiles=quantiles,
        return_samples=return_samples,
        first_row=first_row,
        allow_hidden_noise=allow_hidden_noise,
    )
    return Prepared(model, arguments).predict(
        x, began, verbose=verbose, steps=steps, callbacks=callbacks
    )
