"""Files of columns, whose rows are numbered: Parquet, NumPy's archives."""
