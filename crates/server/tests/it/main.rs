//! Tests of the program `phalanx-server`, as clients and operators use it.

mod audit;
mod common;
mod backup;
mod commands;
mod edge;
mod hostile;
mod systemd;
mod tls;
mod kill;
mod shred;
mod store;
