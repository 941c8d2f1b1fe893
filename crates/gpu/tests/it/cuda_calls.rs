//! The calls of NVIDIA's driver, checked on any machine with a stand-in for it: their order, their arguments, and what
//! happens on errors. This says nothing about a GPU.

use crate::devices::{
    paint,
    plain_c::{compile, source},
};
use phalanx_core::engine::{Bind, Engine, Job, Op, Unit};
use phalanx_core::{SecretKey, Suite};
use phalanx_gpu::{AesLaunch, Api, Device, DeviceInfo, Direction, GpuEngine, Module, Reason, Variant};
use phalanx_kernels::keccak;
use std::process::Command;
use std::time::Duration;

#[test]
#[cfg(target_os = "linux")]
fn calls_are_what_the_driver_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    for module in Module::ALL {
        let file = |suffix: &str| folder.path().join(format!("{}.{suffix}", module.name()));
        compile(&source(module), &file("so"));
        std::fs::write(file("ptx"), module.ptx()).unwrap();
    }
    compile(include_str!("../common/stand_in.c"), &folder.path().join("libcuda.so"));
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["cuda_calls::inside", "--exact", "--ignored", "--nocapture"])
        .envs([("LD_LIBRARY_PATH", folder.path()), ("STAND_IN", folder.path())])
        .output()
        .unwrap();
    let (output, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && output.contains("stand-in passed"), "{output}\n{errors}");
}

/// The part that runs with the stand-in as the driver. `calls_are_what_the_driver_asks_for` starts it.
#[test]
#[ignore = "needs the stand-in"]
fn inside() {
    let (devices, reasons) = phalanx_gpu::devices();
    let info = devices.iter().find(|info| info.api == Api::Cuda).unwrap_or_else(|| panic!("{reasons:?}"));
    assert_eq!((info.name.as_str(), info.compute_units, info.local_memory), ("stand-in 0", 2, 232_448));
    assert_eq!((info.warp, info.clock_mhz), (32, 1980));
    assert_eq!(info.driver, "CUDA 12.2, compute capability 9.0");
    let device = Device::open(info).unwrap();
    for module in Module::ALL {
        device.test(module).unwrap();
    }
    let mut stream = device.stream().unwrap();
    let keys = stream.round_keys(&[&[1; 16]], Direction::Encrypt).unwrap();
    let mut data = stream.buffer(4096).unwrap();
    let launch = AesLaunch { threads: 64, ..AesLaunch::default() };
    let ((), time) = stream.timed(|s| s.aes_ctr(&launch, &keys, 0, &[0; 16], &mut data, 0..4096)).unwrap();
    assert_eq!(time.as_micros(), 1500);
    let mut copy = stream.buffer(4096).unwrap();
    stream.copy(&data, &mut copy, 4096).unwrap();
    let (mut pinned, mut paged) = (device.pinned(4096).unwrap(), vec![0; 4096]);
    stream.download(&copy, 0, &mut pinned).unwrap();
    stream.download(&data, 0, &mut paged).unwrap();
    assert!(pinned[..] == paged[..] && paged.iter().any(|byte| *byte != 0));

    let wide = AesLaunch { threads: 512, granularity: 1, ..AesLaunch::new(Variant::Table1) };
    let refused = stream.aes_ctr(&wide, &keys, 0, &[0; 16], &mut data, 0..16).unwrap_err().to_string();
    assert_eq!(refused, "stand-in 0 (CUDA): aes_ctr of aes_table1 takes 1 to 256 threads a group here, not 512");
    let held: Vec<_> = (0..2).map(|_| stream.buffer(1 << 20).unwrap()).collect();
    let refused = stream.buffer((1 << 28) + 16).unwrap_err().to_string();
    assert!(refused.starts_with("stand-in 0 (CUDA): a buffer of 268435472 bytes"), "{refused}");
    drop((held, data, copy, keys, pinned, stream));
    // Another thread, on which nobody has made the context current.
    std::thread::spawn(move || device.stream().unwrap().buffer(16).map(drop).unwrap()).join().unwrap();

    let gone = DeviceInfo { index: 1, ..info.clone() };
    assert_eq!(Device::open(&gone).unwrap_err().to_string(), "stand-in 0 (CUDA): the device is gone");
    // SAFETY: the stand-in has that function.
    let taken = unsafe {
        let library = libloading::Library::new("libcuda.so").unwrap();
        let taken: libloading::Symbol<unsafe extern "C" fn() -> usize> = library.get(b"stand_in_taken\0").unwrap();
        taken()
    };
    assert_eq!(taken, 0, "device memory was not freed");
    engine(Device::open(info).unwrap());
    hang(Device::open(info).unwrap());
    println!("stand-in passed");
}

/// The calls that only the engine makes: it starts copies, and asks until they are over.
fn engine(device: Device) {
    let engine = GpuEngine::new(device, keccak::Level::detect());
    let plain: Vec<u8> = paint(3 << 20);
    for len in [5000, plain.len()] {
        let mut job = job(&engine, &plain[..len]);
        assert!(engine.run(&mut job).unwrap().all_passed());
        assert!(job.buf[..] != plain[..len]);
        job.op = Op::Open;
        assert!(engine.run(&mut job).unwrap().all_passed());
        assert!(job.buf[..] == plain[..len]);
    }
}

fn job(engine: &GpuEngine, plain: &[u8]) -> Job {
    let keys = SecretKey::from_slice(&[1; 32]).unwrap().file_keys(Suite::default()).content;
    let mut job = Job::of_chunks(Op::Seal, Suite::default(), 20, [keys].into(), engine.buffer(plain.len()).unwrap());
    job.buf.copy_from_slice(plain);
    let bind = Bind::Chunk { index: 0, last: true };
    job.units.push(Unit { key: 0, nonce: [3; 16], bind, data: 0..plain.len(), tag: [0; 32] });
    job
}

/// A device that does not answer: an error of one line within the limit, and at once from then on. The stand-in ends this
/// process if a call waits for the device or frees anything.
fn hang(device: Device) {
    device.set_time_limit(Duration::from_millis(50));
    let engine = GpuEngine::new(device.clone(), keccak::Level::detect());
    let plain = paint(2 << 20);
    let mut job = job(&engine, &plain);
    let mut other = engine.buffer(2 << 20).unwrap();
    let mut stream = device.stream().unwrap();
    let buffer = stream.buffer(100).unwrap();
    // SAFETY: the stand-in has that function.
    unsafe {
        let library = libloading::Library::new("libcuda.so").unwrap();
        let hang: libloading::Symbol<unsafe extern "C" fn()> = library.get(b"stand_in_hang\0").unwrap();
        hang();
    }
    for _ in 0..2 {
        let fault = engine.run(&mut job).unwrap_err().to_string();
        assert_eq!(fault, "engine gpu failed: stand-in 0 (CUDA): no answer within 50ms");
        assert!(job.buf[..] == plain);
    }
    assert!(device.is_dead());
    assert_eq!(stream.finish().unwrap_err().reason, Reason::TimedOut(Duration::from_millis(50)));
    stream.download(&buffer, 0, &mut [0; 100]).unwrap_err();
    other.fill(1);
    drop((job, other, buffer, stream, engine, device));
}
