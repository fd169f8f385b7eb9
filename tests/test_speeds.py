"""Quick tests and slow ones."""

from speeds import WHOLLY_SLOW


def test_tests_that_are_slow_but_for_some_parameters_have_these(request):
    assert not request.config.stash[WHOLLY_SLOW]
