"""In the place of the package, which gymnax imports for one picture that no test draws.

It brings pandas and the statistics of SciPy, which take a second in every process.
"""
