"""Frank-Wolfe on a whole data set, with all its gradient at every step."""
