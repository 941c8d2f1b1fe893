//! The tests of the experiments, in one program: it is compiled and linked once.

#[path = "../common/mod.rs"]
mod common;

mod bare;
mod command;
mod forgery;
mod halves;
mod layout;
mod merged;
mod page;
mod papers;
mod runner;
mod sefps_file;
