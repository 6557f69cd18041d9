"""The compiled primitives that every step is made of: arrays in, arrays out, no Python objects.

A run of an optimizer keeps its scalars in two small arrays, ``num`` (floats) and ``cnt`` (integers), whose places are
named in :mod:`fwonline._kernels.layout`. One call from Python then costs the same few hundred nanoseconds however much
an algorithm remembers, and the compiled functions are few, cached on disk, and of one signature each.
"""
