"""The figures of the papers, redrawn on real data: `python -m tools.papers NAME`."""
