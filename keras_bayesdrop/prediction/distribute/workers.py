# SPDX-License-Identifier: Apache-2.0
"""Exchanges results and failures between the workers of a strategy.

Every worker sends and receives at the same places of the same loop. A worker
that fails in between sends its error where the others wait for a result.
"""

import dataclasses
import functools
import io
import json
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.prediction.distribute.replicas import Replicas
from keras_bayesdrop.prediction.sampling.accumulate import SampleMoments
from keras_bayesdrop.prediction.sampling.collect import Collected
from keras_bayesdrop.prediction.sampling.collect import join

_FAILURE = "failure"
_WORD = 4  # Bytes. Strategies gather int32, and no smaller integers.

Arrays = dict[str, Any]


def agree(replicas: Replicas, asked: dict[str, Any], seed: int) -> int:
    """Returns the seed of the first worker.

    Raises if the arguments of workers differ: they would wait for each other
    without end.

    Args:
        replicas: The replicas.
        asked: Arguments of this worker, numbers and strings.
        seed: Its seed.
    """
    mine = np.array(json.dumps([asked, str(seed)]))
    received = _exchange(replicas, lambda: {"asked": mine})
    everyone = [json.loads(each["asked"].item()) for each in received]
    first = everyone[0][0]
    for worker, (each, _) in enumerate(everyone):
        if each != first:
            names = [name for name in first if first[name] != each[name]]
            raise BayesdropError(
                "Workers were asked for different predictions. Expected the "
                "same arguments in all of them. Received: "
                f"{ {name: first[name] for name in names} } in worker 0 and "
                f"{ {name: each[name] for name in names} } in worker {worker}"
            )
    return int(everyone[0][1])


def gather_rows(
    replicas: Replicas, predict: Callable[[], Sequence[Collected]]
) -> list[Collected]:
    """Returns the rows of all workers, in order, per output.

    Args:
        replicas: The replicas.
        predict: Makes those of this worker.
    """
    received = _exchange(replicas, lambda: _to_arrays(predict()))
    by_worker = [_from_arrays(arrays) for arrays in received]
    return [join(parts) for parts in zip(*by_worker, strict=True)]


def gather_samples(
    replicas: Replicas, draw: Callable[[], Sequence[tf.Tensor]]
) -> list[tf.Tensor]:
    """Returns the samples of all workers, in order: [rows, samples, ...].

    Args:
        replicas: The replicas.
        draw: Makes those of this worker, per output; nothing, if it has none.
    """

    def arrays() -> Arrays:
        return {str(n): np.asarray(x) for n, x in enumerate(draw())}

    received = [each for each in _exchange(replicas, arrays) if each]
    return [
        tf.constant(np.concatenate([each[name] for each in received], axis=1))
        for name in received[0]
    ]


def _exchange(replicas: Replicas, make: Callable[[], Arrays]) -> list[Arrays]:
    """Sends arrays to all workers, and returns what each has sent."""
    try:
        mine = make()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        _send(replicas, {_FAILURE: np.array(text)})
        raise
    received = _send(replicas, mine)
    for worker, arrays in enumerate(received):
        if _FAILURE in arrays:
            raise BayesdropError(
                f"Worker {worker} could not predict its share. Expected a "
                f"result from each. Received: {arrays[_FAILURE].item()}"
            )
    return received


def _send(replicas: Replicas, arrays: Arrays) -> list[Arrays]:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    payload = buffer.getvalue()
    padded = payload + bytes(-len(payload) % _WORD)
    words = np.frombuffer(padded, np.int32)
    sized = np.concatenate([[np.int32(len(payload))], words])
    gathered = np.asarray(_program(replicas.strategy)(tf.constant(sized)))
    received = []
    while len(gathered):
        size = int(gathered[0])
        end = 1 + -(-size // _WORD)
        received.append(gathered[1:end].tobytes()[:size])
        gathered = gathered[end:]
    # Every device of a worker has sent the same.
    return [_read(each) for each in received[:: len(replicas.devices)]]


def _read(payload: bytes) -> Arrays:
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        return dict(archive)


@functools.lru_cache(maxsize=4)
def _program(strategy: Any) -> Any:
    """Compiles the exchange of vectors of any lengths."""

    def gather(words: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        # An argument is on no device yet; what is gathered has to be on one.
        return context.all_gather(tf.identity(words), axis=0)

    def run(words: tf.Tensor) -> tf.Tensor:
        gathered = strategy.run(gather, (words,))
        return strategy.experimental_local_results(gathered)[0]

    return tf.function(
        run,
        autograph=False,
        input_signature=[tf.TensorSpec([None], tf.int32)],
    )


def _to_arrays(outputs: Sequence[Collected]) -> Arrays:
    """Returns the arrays of some outputs by name."""
    arrays = {}
    for number, collected in enumerate(outputs):
        for field in dataclasses.fields(SampleMoments):
            value = getattr(collected.moments, field.name)
            arrays[f"{number} moments {field.name}"] = value
        for name in ("num_samples", "samples", "quantiles", "noise_samples"):
            arrays[f"{number} own {name}"] = getattr(collected, name)
    return {name: x for name, x in arrays.items() if x is not None}


def _from_arrays(arrays: Arrays) -> list[Collected]:
    """Returns the outputs that `_to_arrays` took apart."""
    outputs: dict[int, dict[str, Arrays]] = {}
    for key, value in arrays.items():
        number, kind, name = key.split()
        fields = outputs.setdefault(int(number), {"moments": {}, "own": {}})
        fields[kind][name] = value
    return [
        Collected(SampleMoments(**fields["moments"]), **fields["own"])
        for _, fields in sorted(outputs.items())
    ]
