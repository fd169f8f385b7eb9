"""Damages files as a failing disk would."""


def damage_file(path):
    """Changes a fifth of a file's bytes, in its middle."""
    data = bytearray(path.read_bytes())
    for place in range(2 * len(data) // 5, 3 * len(data) // 5):
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))


def damage_arrays(checkpoint):
    """Damages every file with arrays of a checkpoint, since not all of them are read again."""
    for path in checkpoint.rglob("d/*"):
        damage_file(path)
