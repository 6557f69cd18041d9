"""Learners in the dress of other libraries: :mod:`fwonline.compat.sklearn`, which needs scikit-learn."""
