//! Deaths: main processes and reapers that are killed, and what is left then.
