"""Replaces the package, which gymnax imports for one plot that no test draws.

seaborn imports pandas and the statistics of SciPy, which takes a second in every process.
"""
