"""Numbers that would do where one that was given is no multiple of another."""


def multiples_near(number: int, divisor: int) -> str:
    """The positive multiples of `divisor` next to a number that is none, for the end of a message."""
    below = number // divisor * divisor
    nearby = [str(multiple) for multiple in (below, below + divisor) if multiple > 0]
    return f"{' or '.join(nearby)} would do"
