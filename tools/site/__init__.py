"""The guide and its reference, as a site: see ``conf.py``."""
