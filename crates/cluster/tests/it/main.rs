//! The tests of `phalanx-mpi`, as users run it: under `mpirun`. The variable PHALANX_MPIRUN names another launcher,
//! such as `mpirun.mpich` for a program that was built for MPICH.

mod common;
mod faults;
mod mirrors;
mod readme;
mod resume;
mod whole;
