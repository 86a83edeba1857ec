"""`tensorflow.python.ipu.keras.layers`: those of Keras, which XLA compiles."""

from __future__ import annotations

from tilestep.tensorflow.untyped import tf

Dropout = tf.keras.layers.Dropout
Embedding = tf.keras.layers.Embedding
GRU = tf.keras.layers.GRU
GroupNormalization = tf.keras.layers.GroupNormalization
LSTM = tf.keras.layers.LSTM
LayerNormalization = tf.keras.layers.LayerNormalization
