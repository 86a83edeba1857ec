"""A character-level transformer in Flax NNX, trained on a line of text, that then writes some of it."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
LETTERS = sorted(set(TEXT))
CONTEXT, WIDTH, HEADS, LAYERS, BATCH, STEPS = 32, 64, 4, 2, 16, 30


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, dropout_rate=0.1, rngs=rngs)
        self.before, self.after = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.wide, self.narrow = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs), nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.before(x), mask=nnx.make_causal_mask(x[..., 0]))
        return x + self.narrow(nnx.gelu(self.wide(self.after(x))))


class Transformer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.letters = nnx.Embed(len(LETTERS), WIDTH, rngs=rngs)
        self.places = nnx.Embed(CONTEXT, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm, self.head = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.Linear(WIDTH, len(LETTERS), rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.letters(tokens) + self.places(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model: Transformer, tokens: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(model(tokens[:, :-1]), tokens[:, 1:]).mean()


@nnx.jit
def train_step(model: Transformer, optimizer: nnx.Optimizer, tokens: jax.Array) -> jax.Array:
    loss, gradients = nnx.value_and_grad(loss_of)(model, tokens)
    optimizer.update(model, gradients)
    return loss


@nnx.jit
def next_letter(model: Transformer, tokens: jax.Array) -> jax.Array:
    return model(tokens)[:, -1].argmax(-1)


def main() -> None:
    codes = np.array([LETTERS.index(letter) for letter in TEXT])
    starts = np.random.default_rng(0)
    model = Transformer(nnx.Rngs(0))
    model.train()
    optimizer = nnx.Optimizer(model, optax.adamw(3e-3), wrt=nnx.Param)
    losses = []
    for _ in range(STEPS):
        begin = starts.integers(0, len(codes) - CONTEXT - 1, BATCH)
        losses.append(train_step(model, optimizer, np.stack([codes[k : k + CONTEXT + 1] for k in begin])))
    model.eval()
    written = codes[:CONTEXT]
    for _ in range(8):
        written = np.append(written, next_letter(model, written[None, -CONTEXT:]))
    text = "".join(LETTERS[k] for k in written[CONTEXT:])
    print(json.dumps({"losses": [float(loss) for loss in losses], "text": text}))


if __name__ == "__main__":
    main()
