"""What reads bytes of a file without an object of Python for each field: text in, arrays out."""
