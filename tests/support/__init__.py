"""What tests of several folders share: algorithms written out, catalogues, workers, a broker."""
