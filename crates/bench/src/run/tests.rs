//! Experiments in small, from stand-ins for their programs to the page.

mod cluster;
mod java;
