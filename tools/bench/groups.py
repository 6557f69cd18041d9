"""Which benchmarks there are. A new one is a module with a ``run`` and a line here."""

from __future__ import annotations

import dataclasses
import typing

from tools.bench import (
    classes,
    completion,
    covariance,
    curves,
    drift,
    files,
    gap,
    kmeans,
    learn_arrays,
    learn_one,
    learning,
    memory,
    mixture,
    monitors,
    progressive,
    shrinkage,
    softmax,
    startup,
    vocabulary,
)

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.bench.report import Comparison, Settings, Table

__all__ = ["GROUPS", "Group"]


@dataclasses.dataclass(frozen=True)
class Group:
    """A title, and what measures."""

    title: str
    run: Callable[[Settings], Iterator[Comparison | Table]]


GROUPS = {
    "learn_one": Group("one dict at a time, beside river's logistic regression", learn_one.run),
    "learn_arrays": Group("a CSR matrix, beside copt, a bare loop, scikit-learn and Vowpal Wabbit", learn_arrays.run),
    "vocabulary": Group("names for ever: latency, a bound of them, and what those that rest cost", vocabulary.run),
    "memory": Group("memory while a long stream is learned", memory.run),
    "startup": Group("import time, compilation in a second process, a run of few rows", startup.run),
    "files": Group("whole runs of the command over files, beside Vowpal Wabbit's text pass", files.run),
    "curves": Group("suboptimality against gradients on the tasks of Negiar et al.", curves.run),
    "progressive": Group("loss over one pass in l1 balls, beside the best fixed point and the peers", progressive.run),
    "learning": Group("the default's loss over one pass, beside projected gradients tuned in hindsight", learning.run),
    "mixture": Group(
        "the mixture over one pass, beside its default learner, tuned AdaGrad, Vowpal Wabbit", mixture.run
    ),
    "drift": Group("the default on streams that change, beside projected gradients and river", drift.run),
    "classes": Group("many classes over one pass, beside one model a class and river's softmax", classes.run),
    "gap": Group("the Gap monitor's upper estimate, beside the exact gap", gap.run),
    "monitors": Group("monitors and sinks told blocks of samples, beside one sample after another", monitors.run),
    "softmax": Group("SVRF on Fashion-MNIST, beside its two matrix products in numpy", softmax.run),
    "covariance": Group("a covariance step, beside numpy, memory and river", covariance.run),
    "shrinkage": Group("the covariance without bounds, beside scikit-learn's shrinkage", shrinkage.run),
    "completion": Group("steps of matrix completion, beside literal numpy", completion.run),
    "kmeans": Group("steps of the relaxation of k-means, beside literal numpy", kmeans.run),
}
