//! The tests of the experiments, in one program: it is compiled and linked once.

mod forgery;
mod layout;
mod merged;
mod papers;
mod runner;
