//! The tests of the crate, in one program: it is compiled and linked once.

mod common;
mod golden;
mod hostile;
mod interop;
mod opening;
mod plugins;
mod signing;
mod texts;
