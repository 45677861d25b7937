//! Pure functions from samples to overheads with intervals.
