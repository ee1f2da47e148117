# SPDX-License-Identifier: Apache-2.0
"""Models whose heads are known: wrappers, losses and activations."""

import functools

import keras
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.prediction.head_models import SPARSE
from tests.prediction.head_models import Own
from tests.prediction.head_models import OwnCrossentropy
from tests.prediction.head_models import WrappedFunction
from tests.prediction.head_models import Wrapping
from tests.prediction.head_models import averaged
from tests.prediction.head_models import concrete
from tests.prediction.head_models import dense
from tests.prediction.head_models import functional
from tests.prediction.head_models import images
from tests.prediction.head_models import joined
from tests.prediction.head_models import own
from tests.prediction.head_models import own_activation
from tests.prediction.head_models import own_loss
from tests.prediction.head_models import sequence
from tests.prediction.head_models import steps

layers = keras.layers
losses = keras.losses

REGRESSION = kbd.Regression()
CLASSES = kbd.Classification(from_logits=False)
CLASS_LOGITS = kbd.Classification(from_logits=True)
LABELS = kbd.Binary(from_logits=False)
LABEL_LOGITS = kbd.Binary(from_logits=True)

# Name: (builds the model, its head).
HEADS = {
    # Wrappers.
    "concrete softmax": (
        lambda: sequence(concrete(dense()), loss=SPARSE),
        CLASSES,
    ),
    "concrete sigmoid": (
        lambda: sequence(
            concrete(dense(1, "sigmoid")), loss="binary_crossentropy"
        ),
        LABELS,
    ),
    "concrete linear, mse": (
        lambda: sequence(concrete(dense(2, None)), loss="mse"),
        REGRESSION,
    ),
    "concrete convolution": (
        lambda: images(concrete(layers.Conv2D(2, 1, activation="softmax"))),
        CLASSES,
    ),
    "marginalized": (
        lambda: sequence(
            kbd.layers.MarginalizedDropoutDense(
                3,
                0.5,
                loss="categorical_crossentropy",
                activation="softmax",
            )
        ),
        CLASSES,
    ),
    "time distributed": (
        lambda: steps(layers.TimeDistributed(dense())),
        CLASSES,
    ),
    "time distributed, nested and concrete": (
        lambda: steps(
            layers.TimeDistributed(
                keras.Sequential([keras.Input((4,)), concrete(dense())])
            )
        ),
        CLASSES,
    ),
    "spectral normalization": (
        lambda: sequence(layers.SpectralNormalization(dense())),
        CLASSES,
    ),
    "bidirectional, concatenated sigmoids": (
        lambda: steps(
            layers.Bidirectional(layers.SimpleRNN(2, activation="sigmoid"))
        ),
        LABELS,
    ),
    "bidirectional, averaged softmax": (
        lambda: steps(
            layers.Bidirectional(
                layers.SimpleRNN(3, activation="softmax"), merge_mode="ave"
            )
        ),
        CLASSES,
    ),
    "bidirectional, concatenated softmax": (
        lambda: steps(
            layers.Bidirectional(layers.SimpleRNN(3, activation="softmax"))
        ),
        REGRESSION,
    ),
    "gates scale a softmax": (
        lambda: steps(layers.LSTM(3, activation="softmax")),
        REGRESSION,
    ),
    "somebody's wrapper": (lambda: sequence(Wrapping(dense())), CLASSES),
    "variational": (
        lambda: sequence(
            kbd.layers.VariationalDense(
                3, num_train_examples=10, activation="softmax"
            )
        ),
        CLASSES,
    ),
    # Nested models.
    "nested, noise behind": (
        lambda: sequence(
            keras.Sequential([keras.Input((4,)), dense()]),
            keras.Sequential([keras.Input((3,)), layers.Dropout(0.2)]),
        ),
        CLASSES,
    ),
    "nested with its own call, cross-entropy": (
        lambda: sequence(Own(), loss=SPARSE),
        CLASSES,
    ),
    "own call, cross-entropy": (lambda: own(loss=SPARSE), CLASSES),
    "own call, binary cross-entropy": (
        lambda: own("sigmoid", 1, loss=losses.BinaryCrossentropy()),
        LABELS,
    ),
    "own call, logits": (
        lambda: own(
            None, loss=losses.CategoricalCrossentropy(from_logits=True)
        ),
        CLASS_LOGITS,
    ),
    "own call, mse": (lambda: own(None, loss="mse"), REGRESSION),
    # Layers behind the activation.
    "dropout behind": (
        lambda: sequence(dense(), layers.Dropout(0.2), loss=SPARSE),
        CLASSES,
    ),
    "own noise behind": (
        lambda: sequence(
            dense(1, "sigmoid"), kbd.layers.MCGaussianDropout(0.2)
        ),
        LABELS,
    ),
    "variational dropout behind": (
        lambda: sequence(
            dense(), kbd.layers.VariationalDropout(num_train_examples=10)
        ),
        CLASSES,
    ),
    "softmax layer": (
        lambda: sequence(dense(activation=None), layers.Softmax()),
        CLASSES,
    ),
    "relu layer": (
        lambda: sequence(dense(activation=None), layers.ReLU(), loss="mse"),
        REGRESSION,
    ),
    "reshaped, classes last": (
        lambda: sequence(
            dense(6, None),
            layers.Reshape((2, 3)),
            layers.Softmax(),
            layers.Reshape((1, 2, 3)),
        ),
        CLASSES,
    ),
    "reshaped, classes split": (
        lambda: sequence(dense(6), layers.Reshape((2, 3))),
        REGRESSION,
    ),
    "flattened labels": (
        lambda: images(dense(1, "sigmoid"), layers.Flatten()),
        LABELS,
    ),
    "flattened classes": (
        lambda: images(dense(2), layers.Flatten()),
        REGRESSION,
    ),
    "classes moved to the end": (
        lambda: steps(
            dense(3, None), layers.Softmax(axis=1), layers.Permute((2, 1))
        ),
        CLASSES,
    ),
    "classes moved away": (
        lambda: steps(dense(3), layers.Permute((2, 1))),
        REGRESSION,
    ),
    "upsampled": (
        lambda: images(dense(2), layers.UpSampling2D(2), loss=SPARSE),
        CLASSES,
    ),
    "mean over places": (
        lambda: images(dense(2), layers.GlobalAveragePooling2D()),
        CLASSES,
    ),
    "mean over members": (lambda: functional(averaged), CLASSES),
    "distributions side by side": (
        lambda: functional(joined(1, "softmax")),
        CLASSES,
    ),
    "labels in a row": (lambda: functional(joined(-1, "sigmoid")), LABELS),
    "distributions in a row": (
        lambda: functional(joined(-1, "softmax")),
        REGRESSION,
    ),
    # Functions.
    "ops.softmax": (lambda: functional(keras.ops.softmax), CLASSES),
    "activations.softmax": (
        lambda: functional(keras.activations.softmax),
        CLASSES,
    ),
    "ops.sigmoid of a part": (
        lambda: functional(lambda x: keras.ops.sigmoid(x)[:, :1]),
        LABELS,
    ),
    "ops.transpose": (
        lambda: functional(
            lambda x: keras.ops.transpose(
                keras.ops.softmax(x, axis=1), (0, 2, 1)
            ),
            shape=(5, 4),
        ),
        CLASSES,
    ),
    "ops.cast, ops.expand_dims": (
        lambda: functional(
            lambda x: keras.ops.expand_dims(
                keras.ops.cast(keras.ops.softmax(x), "float64"), 1
            )
        ),
        CLASSES,
    ),
    "tf.nn.softmax": (lambda: sequence(dense(3, tf.nn.softmax)), CLASSES),
    "partial softmax": (
        lambda: sequence(
            dense(3, functools.partial(keras.activations.softmax, axis=-1))
        ),
        CLASSES,
    ),
    "own activation, cross-entropy": (
        lambda: sequence(dense(3, own_activation), loss=SPARSE),
        CLASSES,
    ),
    "hard sigmoid, binary cross-entropy": (
        lambda: sequence(dense(1, "hard_sigmoid"), loss="bce"),
        LABELS,
    ),
    "softmax, binary cross-entropy": (
        lambda: sequence(dense(2), loss="binary_crossentropy"),
        CLASSES,
    ),
    "softmax, mse": (lambda: sequence(dense(), loss="mse"), CLASSES),
    "sigmoid, mse": (
        lambda: sequence(dense(1, "sigmoid"), loss="mse"),
        LABELS,
    ),
    # Losses of a linear output.
    **{
        f"linear, {loss}": (
            lambda loss=loss: sequence(dense(2, None), loss=loss),
            REGRESSION,
        )
        for loss in (
            *("mse", "MAE", "mape", "msle", "huber", "log_cosh", "poisson"),
            *("MeanSquaredError", "cosine_similarity", "hinge"),
        )
    },
    "linear, own function": (
        lambda: sequence(dense(2, None), loss=own_loss),
        REGRESSION,
    ),
    "linear, two losses": (
        lambda: sequence(dense(2, None), loss=["mse", "mae"]),
        REGRESSION,
    ),
    "linear, config of a loss": (
        lambda: sequence(
            dense(3, None),
            loss={
                "class_name": "CategoricalCrossentropy",
                "config": {"from_logits": True},
            },
        ),
        CLASS_LOGITS,
    ),
    "linear, partial loss": (
        lambda: sequence(
            dense(3, None),
            loss=functools.partial(
                losses.sparse_categorical_crossentropy, from_logits=True
            ),
        ),
        CLASS_LOGITS,
    ),
    "linear, inherited loss": (
        lambda: sequence(
            dense(3, None), loss=OwnCrossentropy(from_logits=True)
        ),
        CLASS_LOGITS,
    ),
    "linear, focal loss of logits": (
        lambda: sequence(
            dense(1, None),
            loss=losses.BinaryFocalCrossentropy(from_logits=True),
        ),
        LABEL_LOGITS,
    ),
    "linear, wrapped function": (
        lambda: sequence(
            dense(1, None),
            loss=WrappedFunction(losses.binary_crossentropy, from_logits=True),
        ),
        LABEL_LOGITS,
    ),
    "linear, ctc": (
        lambda: steps(dense(3, None), loss=losses.CTC()),
        CLASS_LOGITS,
    ),
    "linear, Gaussian": (
        lambda: sequence(dense(2, None), loss=kbd.losses.GaussianNLL(4.0)),
        kbd.Regression(noise_precision=4.0),
    ),
    "sigmoid, Gaussian": (
        lambda: sequence(dense(1, "sigmoid"), loss=kbd.losses.GaussianNLL(4.0)),
        kbd.Regression(noise_precision=4.0),
    ),
}
