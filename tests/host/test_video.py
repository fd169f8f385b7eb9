"""Films of episodes."""

import sys

import gymnasium
import numpy as np
import pytest
from PIL import Image

from jaxagents.host import evaluate, record_video


class Counter(gymnasium.Env):
    """Five steps, whose pictures are plain and brighter by 20 each, from 40."""

    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode="rgb_array", render_fps=25):
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": render_fps}
        if render_fps is None:
            self.metadata = {"render_modes": ["rgb_array"]}
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


def stay(observation):
    return 1


def frames(path):
    """Brightness and duration, in milliseconds, of each frame of a GIF."""
    with Image.open(path) as film:
        assert film.size == (32, 16)
        shown = []
        for i in range(film.n_frames):
            film.seek(i)
            picture = np.asarray(film.convert("RGB"))
            shown.append((round(float(picture.mean())), film.info["duration"]))
        return shown


def test_films_the_first_and_every_later_frame(tmp_path):
    path = tmp_path / "film.gif"
    metrics = record_video(stay, Counter(), path, n_episodes=2)
    brightness = [40, 60, 80, 100, 120, 140]
    assert frames(path) == [(value, 40) for value in 2 * brightness]
    for name, values in evaluate(stay, Counter(), 2).items():
        np.testing.assert_array_equal(metrics[name], values)
    with Image.open(path) as film:
        assert film.info["loop"] == 0


@pytest.mark.parametrize(
    ("rate", "fps", "expected"),
    [
        (25, 10, [(40, 100), (60, 100), (80, 100), (100, 100), (120, 100), (140, 100)]),
        (None, None, [(40, 30), (60, 30), (80, 30), (100, 30), (120, 30), (140, 30)]),
        (50, None, [(40, 20), (60, 20), (80, 20), (100, 20), (120, 20), (140, 20)]),
        (100, None, [(40, 20), (80, 20), (120, 20)]),
        (125, None, [(40, 20), (100, 20)]),
    ],
)
def test_time_passes_as_in_the_environment(tmp_path, rate, fps, expected):
    env = Counter(render_fps=rate)
    record_video(stay, env, tmp_path / "film.gif", fps=fps)
    assert frames(tmp_path / "film.gif") == expected
    assert env.n_rendered == len(expected)


def test_films_an_environment_of_gymnasium(tmp_path, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array", max_episode_steps=6)
    metrics = record_video(lambda observation: 0, env, tmp_path / "film.gif")
    assert metrics["lengths"].tolist() == [6]
    env.reset(seed=0)
    white_and_track = env.render()
    env.close()
    with Image.open(tmp_path / "film.gif") as film:
        assert film.size == white_and_track.shape[1::-1]
        first = np.asarray(film.convert("RGB"), int)
        film.seek(film.n_frames - 1)
        last = np.asarray(film.convert("RGB"), int)
    assert np.abs(first - white_and_track).mean() < 5.0
    assert (first != last).any()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio's reader
def test_films_mp4(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    import imageio.v2 as imageio

    record_video(stay, Counter(), tmp_path / "film.mp4")
    with imageio.get_reader(tmp_path / "film.mp4") as film:
        assert film.get_meta_data()["fps"] == 25
        brightness = [picture.mean() for picture in film]
    np.testing.assert_allclose(brightness, [40, 60, 80, 100, 120, 140], atol=5.0)


def test_mp4_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(
        ImportError, match=r'imageio_ffmpeg is not installed: pip install "imageio\[ffmpeg\]"'
    ):
        record_video(stay, Counter(), tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


def test_names_the_extra_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio.v2", None)
    with pytest.raises(
        ImportError, match=r'imageio is not installed: pip install "jaxagents\[video\]"'
    ):
        record_video(stay, Counter(), tmp_path / "film.gif")


def test_never_overwrites(tmp_path):
    path = tmp_path / "film.gif"
    path.write_text("mine")
    env = Counter()
    with pytest.raises(FileExistsError, match=r"film\.gif exists already"):
        record_video(stay, env, path)
    assert path.read_text() == "mine"
    assert env.n_rendered == 0


def test_plays_nothing_for_a_film_whose_folder_is_missing(tmp_path):
    env = Counter()
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
    record_video(stay, Counter(), tmp_path / "film.gif")


@pytest.mark.parametrize(
    ("env", "name", "fps", "message"),
    [
        (Counter(render_mode=None), "film.gif", None, 'render_mode="rgb_array", got .*None'),
        (Counter(render_mode="human"), "film.gif", None, "got render_mode='human'"),
        (Counter(), "film.avi", None, r"must end in \.gif or \.mp4, got .*film\.avi"),
        (Counter(), "film.gif", 0, "fps must be positive, got 0"),
    ],
)
def test_refuses_what_cannot_be_filmed(tmp_path, env, name, fps, message):
    with pytest.raises(ValueError, match=message):
        record_video(stay, env, tmp_path / name, fps=fps)
    assert list(tmp_path.iterdir()) == []


def test_refuses_what_is_no_single_environment(tmp_path):
    with pytest.raises(TypeError, match="env must be a single Gymnasium environment"):
        record_video(stay, "CartPole-v1", tmp_path / "film.gif")
