"""Pictures of the states of environments."""

import base64

import gymnax
import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from gymnax.wrappers import LogWrapper
from probes import Pennies, Probe

from jaxagents.envs import as_environment, drawings
from jaxagents.envs.drawings import draw_grid, draw_states

KEY = jax.random.key(0)


def made(name):
    env = as_environment(*gymnax.make(name))
    return env, jax.jit(env.reset)(KEY)[1]


def centre_of(picture, colour):
    """Mean row and column of the pixels of a colour."""
    return np.argwhere((picture == colour).all(axis=-1)).mean(axis=0)


PENDULUM, WHEELS = (204, 77, 77), (128, 128, 128)


@pytest.mark.parametrize(
    ("name", "field", "values", "colour"),
    [
        ("CartPole-v1", "theta", (-0.5, 0.5), (202, 152, 101)),
        ("Pendulum-v1", "theta", (0.5, -0.5), PENDULUM),  # counted as angles are
        ("Acrobot-v1", "joint_angle1", (-0.5, 0.5), (0, 204, 204)),
        ("MountainCar-v0", "position", (-0.7, 0.4), WHEELS),
    ],
)
def test_draws_classic_control(name, field, values, colour):
    env, state = made(name)
    left, right = (env.render(state.replace(**{field: np.float32(x)})) for x in values)
    assert left.shape == right.shape
    assert left.dtype == np.uint8
    assert centre_of(left, colour)[1] < centre_of(right, colour)[1]
    if name == "Pendulum-v1":
        up, down = (env.render(state.replace(theta=np.float32(x))) for x in (0, np.pi))
        assert centre_of(up, colour)[0] < len(up) / 2 < centre_of(down, colour)[0]


def test_draws_games_of_minatar():
    env, state = made("Breakout-MinAtar")
    moved = env.render(state.replace(pos=np.int32(7)))
    assert moved.shape == env.render(state).shape == (240, 240, 3)
    np.testing.assert_array_equal(moved[9 * 24 + 12, 7 * 24 + 12], (86, 180, 233))


def test_the_first_channel_is_on_top():
    channels = np.zeros((2, 3, 12), bool)
    channels[0, 0, [0, 1]] = channels[1, 2, 11] = True
    picture = draw_grid(channels)
    assert picture.shape == (160, 240, 3)
    np.testing.assert_array_equal(picture[40, 40], (86, 180, 233))
    np.testing.assert_array_equal(picture[40, 120], (16, 18, 28))
    assert (picture[120, 200] > 28).any()


def test_draws_with_the_renderers_of_gymnax():
    env, state = made("FourRooms-misc")
    open_before = plt.get_fignums()
    picture = env.render(state)
    assert picture.shape == (480, 640, 3)
    assert picture.dtype == np.uint8
    assert (picture == 0).any()
    assert plt.get_fignums() == open_before
    assert env.render_fps == 10


def test_draws_what_wrappers_hold():
    env, _ = made("CartPole-v1")
    wrapped = as_environment(LogWrapper(env.env), env.params)
    _, inside = wrapped.env.reset(KEY, env.params)
    np.testing.assert_array_equal(wrapped.render(inside), env.render(inside.env_state))
    assert wrapped.render_fps == 50


class Drawn(Probe):
    render_fps = 7

    def render(self, state, params):
        return np.full((4, 6, 3), 10 * state.time, np.uint8)


def test_draws_by_its_own_method():
    env = as_environment(Drawn())
    assert env.can_draw
    assert env.render_fps == 7
    _, state = env.reset(KEY)
    states = jax.tree.map(lambda x: np.stack([x, x + 1]), state)
    np.testing.assert_array_equal(draw_states(env, states, 2)[:, 0, 0, 0], [0, 10])


def test_says_what_is_missing():
    for env in (Pennies(), as_environment(Probe())):
        assert not env.can_draw
        with pytest.raises(NotImplementedError, match="does not draw"):
            env.render(None)
    assert not as_environment(*gymnax.make("DeepSea-bsuite")).can_draw


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        ([np.zeros((4, 6, 3))], r"an image.*got shape \(4, 6, 3\) and dtype float64"),
        ([np.zeros((4, 6), np.uint8)], r"an image.*got shape \(4, 6\)"),
        ([None], "an image.*got shape"),
    ],
)
def test_refuses_what_is_no_picture(pictures, message):
    class Odd(Probe):
        def render(self, state, params):
            return pictures[state]

    n = len(pictures)
    with pytest.raises(ValueError, match=f"Odd.render must return {message}"):
        draw_states(as_environment(Odd()), np.arange(n), n)


def test_a_notebook_plays_frames_and_a_console_tells_their_shape():
    frames = np.zeros((3, 8, 8, 3), np.uint8).view(drawings.Frames)
    frames.fps = 20
    assert frames[1:].fps == 20
    assert repr(frames) == "Frames of shape (3, 8, 8, 3)"
    assert frames[0]._repr_html_() is None
    head, _, content = frames._repr_html_().partition("base64,")
    assert "image/gif" in head
    assert base64.b64decode(content.rstrip('">')).startswith(b"GIF89a")
