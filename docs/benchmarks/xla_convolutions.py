"""Shows that gradients of convolutions are slow inside a loop on a CPU.

It needs only JAX, and times the gradient of each operand outside a loop and in
the body of a `fori_loop`.
"""

import time

import jax
import jax.numpy as jnp

BATCH, N_STEPS = 256, 2
LAYERS = {  # input size, input channels, output channels, kernel size, stride
    "84 x 84 x 4, 32 of 8 x 8, stride 4": (84, 4, 32, 8, 4),
    "20 x 20 x 32, 64 of 4 x 4, stride 2": (20, 32, 64, 4, 2),
    "9 x 9 x 64, 64 of 3 x 3": (9, 64, 64, 3, 1),
}


def main() -> None:
    """Prints a table of the milliseconds per gradient."""
    print(f"jax {jax.__version__}, {jax.devices()[0].platform}\n")
    print("| Convolution | Gradient | Alone (ms) | In a loop (ms) | Ratio |")
    print("|---|---|---|---|---|")
    for name, (side, channels, features, size, stride) in LAYERS.items():
        x = jnp.ones((BATCH, side, side, channels))
        kernel = jnp.ones((size, size, channels, features))

        def convolve(x, kernel, stride=stride):
            layout = ("NHWC", "HWIO", "NHWC")
            return jax.lax.conv_general_dilated(
                x, kernel, (stride, stride), "VALID", dimension_numbers=layout
            )

        output, transpose = jax.vjp(convolve, x, kernel)
        for i, operand in enumerate(("input", "kernel")):

            def gradient(given, i=i, transpose=transpose):
                return transpose(given)[i].mean()

            def in_a_loop(given, n, gradient=gradient):
                return jax.lax.fori_loop(
                    0, n, lambda _, last: gradient(given + last), 0.0
                )

            alone = milliseconds(jax.jit(gradient), output)
            looped = milliseconds(jax.jit(in_a_loop), output, N_STEPS) / N_STEPS
            numbers = f"{alone:.1f} | {looped:.1f} | {looped / alone:.0f}"
            print(f"| {name} | {operand} | {numbers} |")


def milliseconds(function, *args):
    """The median time of five calls, after one that compiles."""
    jax.block_until_ready(function(*args))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(1e3 * (time.perf_counter() - began))
    return sorted(times)[2]


if __name__ == "__main__":
    main()
