"""One vocabulary for two trees: what the cases call things, and what a later tree calls them.

The cases name classes and parameters as the first tree did. Where a later tree has another name, a
line here says which.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import inspect
import typing

__all__ = ["SAME_TO_ROUNDING", "TIMES", "build", "find", "read", "same_to_rounding", "translated"]

#: Parameters: the old name, and the new ones, of which the first that the class takes is used.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "steps": ("steps_per_sample",),
    "batch": ("batch_size",),
    "power": ("a",),
    "alpha": ("a",),
}
#: Parameters that only one of the trees has: the others do as the value given says.
ADDED = ("detector", "window", "forgetting")
#: Attributes that are read, likewise.
ATTRIBUTES: dict[str, tuple[str, ...]] = {}
#: Modules that a name may stand in, the newest first.
PLACES: dict[str, tuple[str, ...]] = {
    "Checkpoint": ("fwonline.checkpoint", "fwonline.loop"),
    "load_definition": ("fwonline.definition", "fwonline.loop"),
}
#: Classes that took the place of one value of a parameter: (class, parameter, value) -> class without the parameter,
#: and the parameters that it takes.
SPLIT: dict[tuple[str, str, typing.Any], tuple[str, tuple[str, ...]]] = {
    ("OFW", "adversarial", True): ("AdversarialOFW", ("horizon", "gradient_bound")),
    ("OFW", "adversarial", False): ("OFW", ("a", "memory", "max_features")),
}
_EXACT_GAPS = (
    *("fw", "away", "pairwise", "randomized", "sfw", "momentum", "lu-freund", "ofw"),
    *("checkpoint/fw", "clone/fw", "copy/fw", "pickle/fw"),
)
_ASKED = (
    *("bounds", "ellipsoid", "groups", "hull", "k-norm", "k-sparse", "latent", "lp", "ordered", "own", "permutahedron"),
    *("product", "birkhoff", "nuclear", "spectra", "fantope"),
)
#: Cases and fields (glob patterns) whose sums are taken in another order on purpose, with the reason: they are equal to
#: 1e-12 of the field's largest entry, a gap of the objective's value.
SAME_TO_ROUNDING: list[tuple[str, str, str]] = [
    *(
        (f"minimize*/{method}*", field, "what sums over sparse data may have lost is bounded entry by entry")
        for method in ("hazan-luo", "svrf", "scgs", "storc", "projected-svrg")
        for field in ("fun", "gap")
    ),
    ("composite/*", "*", "the mean loss is summed as all optimizers of finite sums do"),
    *((f"*/{kind}*", "*exact_gap*", "an exact gap sums as the optimizer's own steps do") for kind in _EXACT_GAPS),
    *((f"*/{kind}*", "*violation", "rounding itself") for kind in ("adaptive", "fw", "away", "pairwise", "randomized")),
    ("monitors/fw", "seen.*", "an exact gap sums as the optimizer's own steps do"),
    *(
        (f"*/{kind}*/{where}*", "*", "sets that Python is asked about are called from the kernel, which sums itself")
        for kind in ("adaptive", "ofw")
        for where in _ASKED
    ),
]
#: Cases and fields whose results changed on purpose, with the reason.
CHANGED: list[tuple[str, str, str]] = [
    ("softmax/ofw-adversarial/*", "*exact_gap", "AdversarialOFW keeps no samples"),
    ("softmax/ofw-adversarial/*", "*n_remembered", "AdversarialOFW keeps no samples"),
    ("online/ofw-adversarial/permutahedron/*", "*", "names that come late no longer make it begin again"),
]
#: Fields that are times, which no two runs share.
TIMES = ("elapsed", "rate", "samples_per_second")


def same_to_rounding(case: str, field: str) -> str | None:
    """Return the reason why a field may differ by rounding, or None."""
    for cases, fields, reason in SAME_TO_ROUNDING:
        if fnmatch.fnmatchcase(case, cases) and fnmatch.fnmatchcase(field, fields):
            return reason
    return None


def changed(case: str, field: str) -> str | None:
    """Return why a field is another on purpose, or None."""
    for cases, fields, reason in CHANGED:
        if fnmatch.fnmatchcase(case, cases) and fnmatch.fnmatchcase(field, fields):
            return reason
    return None


def find(name: str) -> typing.Any:
    """Return what is called ``name``, from wherever this tree has it."""
    for place in PLACES[name]:
        if importlib.util.find_spec(place) is not None and hasattr(module := importlib.import_module(place), name):
            return getattr(module, name)
    raise AttributeError(f"{name} is in none of {PLACES[name]}")


def build(module: typing.Any, name: str, /, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """Make an object of the class that ``module`` has for ``name``, with parameters under the names it has for them."""
    name, kwargs = translated(module, name, kwargs)
    return getattr(module, name)(*args, **kwargs)


def translated(module: typing.Any, name: str, kwargs: dict[str, typing.Any]) -> tuple[str, dict[str, typing.Any]]:
    """Return the class name and the parameters as the tree of ``module`` has them."""
    for (old, parameter, value), (new, kept) in SPLIT.items():
        if name == old and parameter in kwargs and kwargs[parameter] is value and hasattr(module, "AdversarialOFW"):
            name, kwargs = new, {key: kwargs[key] for key in kept if key in kwargs}
            break
    known = inspect.signature(getattr(module, name)).parameters
    kwargs = {key: value for key, value in kwargs.items() if key not in ADDED or key in known}
    return name, {_name_in(known, key): value for key, value in kwargs.items()}


def _name_in(known: typing.Mapping[str, typing.Any], key: str) -> str:
    return key if key in known else next((new for new in PARAMETERS.get(key, ()) if new in known), key)


def read(owner: typing.Any, name: str) -> typing.Any:
    """Return an attribute, or what a method of that name without arguments returns; None where there is neither."""
    for known in (name, *ATTRIBUTES.get(name, ())):
        if hasattr(type(owner), known) or hasattr(owner, known):
            value = getattr(owner, known)
            return value() if callable(value) else value
    return None
