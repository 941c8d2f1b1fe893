//! Tests of the program `phalanx-server`, as clients and operators use it.

mod common;
mod edge;
