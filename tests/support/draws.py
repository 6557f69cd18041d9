"""The random numbers that runs draw, drawn again by the same calls of the same generators."""

import math

import numpy as np

NOISE_BLOCK = 4096


class Draws:
    """A run's random numbers, in their blocks, and Floyd's algorithm on them."""

    def __init__(self, seed, reserve):
        self.rng = np.random.default_rng(seed)
        self.block = max(NOISE_BLOCK, reserve)
        self.numbers = []

    def need(self, count):
        """A block that cannot serve what is coming is thrown away whole."""
        if len(self.numbers) < count:
            self.numbers = self.rng.random(self.block).tolist()

    def batch(self, n, size, first=None):
        others = list(range(n))
        chosen = []
        if first is not None:
            # `first` changes places with the last slot, and is no longer among those that are drawn.
            others[first], others[-1] = others[-1], others[first]
            others.pop()
            chosen = [first]
        picked = []
        for top in range(len(others) - (size - len(chosen)), len(others)):
            pick = int(self.numbers.pop(0) * (top + 1))
            picked.append(top if pick in picked else pick)
        return chosen + [others[k] for k in picked]


class BlockDraws:
    """The blocks of coordinates that a randomized oracle is asked about."""

    def __init__(self, seed, fraction):
        self.rng, self.fraction = np.random.default_rng(seed), fraction

    def of(self, outside, count):
        size = math.ceil(self.fraction * count)
        if size >= len(outside):
            return list(outside)
        return [outside[k] for k in sorted(self.rng.choice(len(outside), size, replace=False, shuffle=False))]
