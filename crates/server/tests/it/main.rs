//! Tests of the program `phalanx-server`, as clients and operators use it.

mod audit;
mod backup;
mod bodies;
mod clients;
mod commands;
mod common;
mod docs;
mod edge;
mod full;
mod hostile;
mod kill;
#[cfg(feature = "postgres")]
mod postgres;
mod records;
mod records_go;
mod shred;
mod soak;
mod store;
mod strangers;
mod systemd;
mod tampered;
mod tls;
mod transit;
