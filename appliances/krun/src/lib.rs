//! libkrun as a shared library: the crate of that name is one that Rust programs link with, and its
//! functions are exported again by whoever is a library for C.

extern crate krun as _;
