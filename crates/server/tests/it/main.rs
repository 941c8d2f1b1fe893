//! Tests of the program `phalanx-server`, as clients and operators use it.

mod audit;
mod common;
mod edge;
mod hostile;
mod systemd;
mod tls;
