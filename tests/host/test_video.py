"""Videos of episodes."""

import re
import sys

import gymnasium
import numpy as np
import pytest
from PIL import Image

from jaxagents.core.extras import pip_install
from jaxagents.host import evaluate, record_video


class Counter(gymnasium.Env):
    """Five steps with plain frames, whose brightness rises by 20 from 40."""

    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode="rgb_array", render_fps=25):
        self.render_mode = render_mode
        rate = {} if render_fps is None else {"render_fps": render_fps}
        self.metadata = {"render_modes": ["rgb_array"], **rate}
        self.n_rendered = 0

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return 0, {}

    def step(self, action):
        self.time += 1
        return self.time, float(action), self.time == 5, False, {}

    def render(self):
        self.n_rendered += 1
        return np.full((16, 32, 3), 40 + 20 * self.time, np.uint8)


BRIGHTNESS = [40, 60, 80, 100, 120, 140]


def stay(observation):
    return 1


def frames(path):
    """Brightness and duration, in milliseconds, of each frame of a GIF."""
    with Image.open(path) as film:
        assert film.size == (32, 16)
        assert film.info["loop"] == 0
        shown = []
        for i in range(film.n_frames):
            film.seek(i)
            picture = np.asarray(film.convert("RGB"))
            shown.append((round(float(picture.mean())), film.info["duration"]))
        return shown


def test_films_the_first_and_every_later_frame(tmp_path):
    path = tmp_path / "film.gif"
    metrics = record_video(stay, Counter(), path, n_episodes=2)
    assert frames(path) == [(value, 40) for value in 2 * BRIGHTNESS]
    for name, values in evaluate(stay, Counter(), 2).items():
        np.testing.assert_array_equal(metrics[name], values)


@pytest.mark.parametrize(
    ("rate", "fps", "every", "duration"),
    [(25, 10, 1, 100), (None, None, 1, 30), (50, None, 1, 20), (125, None, 3, 20)],
)
def test_time_passes_as_in_the_environment(tmp_path, rate, fps, every, duration):
    env = Counter(render_fps=rate)
    record_video(stay, env, tmp_path / "film.gif", fps=fps)
    expected = [(value, duration) for value in BRIGHTNESS[::every]]
    assert frames(tmp_path / "film.gif") == expected
    assert env.n_rendered == len(expected)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio's reader
def test_films_mp4(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    import imageio.v2 as imageio

    record_video(stay, Counter(), tmp_path / "film.mp4")
    with imageio.get_reader(tmp_path / "film.mp4") as film:
        assert film.get_meta_data()["fps"] == 25
        brightness = [picture.mean() for picture in film]
    np.testing.assert_allclose(brightness, BRIGHTNESS, atol=5.0)


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("imageio_ffmpeg", "film.mp4", "imageio_ffmpeg is not .*: "),
        ("imageio.v2", "film.gif", "imageio is not .*: "),
    ],
)
def test_says_what_it_needs(tmp_path, monkeypatch, module, name, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message + re.escape(pip_install("video"))):
        record_video(stay, Counter(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_never_overwrites_and_plays_nothing_where_it_cannot_write(tmp_path):
    path, env = tmp_path / "film.gif", Counter()
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"film\.gif exists already"):
        record_video(stay, env, path)
    assert path.read_text() == "mine"
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        record_video(stay, env, tmp_path / "missing" / "film.gif")
    assert env.n_rendered == 0


def test_leaves_no_half_film(tmp_path):
    def stumble(observation):
        if observation == 2:
            raise RuntimeError("stumbled")
        return 0

    with pytest.raises(RuntimeError, match="stumbled"):
        record_video(stumble, Counter(), tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "name", "fps", "error", "message"),
    [
        (Counter(None), "film.gif", None, ValueError, 'render_mode="rgb_array", got .*None'),
        (Counter(), "film.avi", None, ValueError, r"must end in \.gif or \.mp4, got .*film\.avi"),
        (Counter(), "film.gif", 0, ValueError, "fps must be positive, got 0"),
        ("CartPole-v1", "film.gif", None, TypeError, "env must be a single Gymnasium environment"),
    ],
)
def test_refuses_what_cannot_be_filmed(tmp_path, env, name, fps, error, message):
    with pytest.raises(error, match=message):
        record_video(stay, env, tmp_path / name, fps=fps)
    assert list(tmp_path.iterdir()) == []
