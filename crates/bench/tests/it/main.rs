//! The tests of the experiments. They are one program, so that it is compiled and linked only once.

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
mod service;
