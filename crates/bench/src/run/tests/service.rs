//! The experiments with servers on a machine that has none of them.

use crate::measure::service::missing;
use crate::measure::setup::{ServicePart, Setup};
use crate::names::service::LIBRARY;
use crate::record;
use crate::run::{Experiment, run};

#[test]
fn what_is_missing_is_named_and_has_rows() {
    let out = tempfile::tempdir().unwrap();
    let mut setup = Setup::of_tests(out.path());
    assert_eq!(missing(&setup.service).len(), 3);
    setup.service.parts = [ServicePart::Single, ServicePart::Batch, ServicePart::Stream, ServicePart::Memory].into();
    run(&[Experiment::Service], &setup, &()).unwrap();
    let (_, rows) = record::read(out.path()).unwrap();
    let measured: Vec<&str> =
        rows.iter().filter(|row| row.why_not().is_none()).map(|row| row.scheme.as_str()).collect();
    assert_eq!(measured, [LIBRARY]);
    for why in ["no phalanx-server", "no vault", "no pgcrypto"] {
        assert!(rows.iter().any(|row| row.why_not().is_some_and(|is| is.starts_with(why))), "{why}");
    }
}
