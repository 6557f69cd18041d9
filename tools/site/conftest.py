"""What the tests leave out here: pages that a build of the site has written, and its copies of the examples."""

collect_ignore = ["api", "gallery", "generated", "conf.py"]
