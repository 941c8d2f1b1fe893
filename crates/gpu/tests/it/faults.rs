//! A device that fails, or gives wrong bytes, at every step: each error is one line, nothing panics, and no memory is
//! left.

use crate::devices::faulty::{How, NEVER, Script};
use phalanx_gpu::{AesLaunch, Device, Direction, Module, Result, Variant};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A device whose call `fails` fails, or whose download `lies` is wrong.
fn open(fails: usize, lies: usize) -> (Arc<Script>, Result<Device>) {
    let script = Script::new(How::Once);
    script.fails.store(fails, Ordering::SeqCst);
    script.lies.store(lies, Ordering::SeqCst);
    let device = script.open();
    (script, device)
}

#[test]
fn a_failure_at_any_step_of_opening_is_one_line() {
    let mut unharmed = 0;
    for step in 0.. {
        match open(step, NEVER) {
            (_, Err(error)) => assert_eq!(error.to_string(), "faulty: something failed: it is; broken", "step {step}"),
            // The streams of the two self-tests wait again when they are dropped, and ignore a failure of that wait.
            (script, Ok(_)) if script.has_failed() => unharmed += 1,
            // Opening has fewer steps than this.
            (_, Ok(_)) => {
                assert!(step > 50 && unharmed == 2, "{step} steps, {unharmed} without harm");
                break;
            }
        }
    }
}

#[test]
fn any_wrong_answer_fails_the_self_test() {
    let answers = |least: usize, test: &dyn Fn(usize) -> Result<()>| {
        for answer in 0.. {
            let Err(error) = test(answer) else {
                assert!(answer >= least, "only {answer} answers");
                return;
            };
            let text = error.to_string();
            assert!(text.starts_with("plain C (other): the self-test failed: "), "answer {answer}: {text}");
        }
    };
    // The engine's modules, when a device is opened, and then those of the papers. Modules with tables share their
    // test.
    answers(4, &|answer| open(NEVER, answer).1.map(drop));
    for (module, least) in [
        (Module::AesBitslice, 4),
        (Module::AesBitsliceKeys, 3),
        (Module::AesBitslicePapers, 9),
        (Module::AesTable1, 13),
        (Module::TurboShake, 1),
        (Module::Kmac, 1),
        (Module::Md5, 1),
    ] {
        answers(least, &|answer| {
            let (script, device) = open(NEVER, NEVER);
            script.lies.store(answer, Ordering::SeqCst);
            device.unwrap().test(module)
        });
    }
}

#[test]
fn a_failed_self_test_blocks_only_its_module() {
    let (script, device) = open(NEVER, NEVER);
    let device = device.unwrap();
    script.lies.store(3, Ordering::SeqCst);
    let mut stream = device.stream().unwrap();
    let keys = stream.round_keys(&[&[1; 32]], Direction::Encrypt).unwrap();
    let mut data = stream.buffer(16).unwrap();
    for _ in 0..2 {
        let launch = AesLaunch::new(Variant::Table1);
        let barred = stream.aes_ctr(&launch, &keys, 0, &[0; 16], &mut data, 0..16).unwrap_err();
        assert!(barred.to_string().contains("the self-test failed: table1"), "{barred}");
    }
    let launch = AesLaunch::new(Variant::Bitsliced);
    stream.aes_ctr(&launch, &keys, 0, &[0; 16], &mut data, 0..16).unwrap();
}

#[test]
fn a_device_may_fail_in_between_and_recover() {
    let (script, device) = open(NEVER, NEVER);
    let device = device.unwrap();
    let mut stream = device.stream().unwrap();
    for step in 0..5 {
        script.fails.store(step, Ordering::SeqCst);
        let mut work = || -> Result<()> {
            let keys = stream.round_keys(&[&[1; 32]], Direction::Encrypt)?;
            let mut data = stream.buffer_of(&[7; 100])?;
            stream.aes_ctr(&AesLaunch::new(Variant::Bitsliced), &keys, 0, &[0; 16], &mut data, 0..100)?;
            stream.download(&data, 0, &mut [0; 100])
        };
        work().unwrap_err();
        work().unwrap();
    }
    let mut pinned = device.pinned(1000).unwrap();
    assert!(pinned.len() == 1000 && pinned.iter().all(|byte| *byte == 0));
    pinned.fill(3);
    let buffer = stream.buffer_of(&pinned).unwrap();
    let mut copy = stream.buffer(1000).unwrap();
    stream.copy(&buffer, &mut copy, 1000).unwrap();
    pinned.fill(0);
    stream.download(&copy, 0, &mut pinned).unwrap();
    assert!(pinned.iter().all(|byte| *byte == 3));
}
