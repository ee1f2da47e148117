# SPDX-License-Identifier: Apache-2.0
"""Assumptions of `strategy_of` about models and strategies."""

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from tests.helpers import TestCase


class StrategyTest(TestCase):
    def test_a_model_remembers_the_strategy_that_it_was_made_under(self):
        strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        with strategy.scope():
            model = keras.Sequential([keras.Input((1,))])
        self.assertIs(model.distribute_strategy, strategy)
        self.assertIs(private_keras.strategy_of(model), strategy)

    def test_otherwise_it_is_that_of_the_scope(self):
        model = keras.Sequential([keras.Input((1,))])
        default = tf.distribute.get_strategy()
        self.assertIs(private_keras.strategy_of(model), default)
        strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        with strategy.scope():
            self.assertIs(private_keras.strategy_of(model), strategy)
        self.assertEqual(default.num_replicas_in_sync, 1)
