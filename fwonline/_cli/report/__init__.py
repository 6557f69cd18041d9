"""``fwonline report``: the curves of runs, as a picture and as a page to look into."""
