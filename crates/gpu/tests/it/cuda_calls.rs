//! The calls of NVIDIA's driver, checked on any machine with a stand-in for it: their order, their arguments, and what
//! happens on errors. This proves nothing about a GPU.

use crate::common::sweep_by;
use crate::devices::{
    paint,
    plain_c::{compile, source},
};
use phalanx_core::engine::{Bind, Buffer, Engine, Job, Op, Unit};
use phalanx_core::{ChunkSize, KdfLimit, NewFile, Opener, Reader, Recipient, SecretKey, Suite};
use phalanx_gpu::{
    AesLaunch, Api, Device, DeviceInfo, DeviceReader, DeviceWriter, Direction, EnergyCounter, GpuEngine, Module,
    Reason, Variant,
};
use phalanx_kernels::keccak;
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Runs one of the ignored tests of this file with the stand-in as the driver.
fn with_stand_in(test: &str) {
    // Shared by parallel tests, and removed after the last of them.
    static FOLDER: Mutex<Weak<tempfile::TempDir>> = Mutex::new(Weak::new());
    let folder = {
        let mut shared = FOLDER.lock().unwrap();
        let folder = shared.upgrade().unwrap_or_else(|| Arc::new(stand_in()));
        *shared = Arc::downgrade(&folder);
        folder
    };
    let run = Command::new(std::env::current_exe().unwrap())
        .args([&format!("cuda_calls::{test}"), "--exact", "--ignored", "--nocapture"])
        .envs([("LD_LIBRARY_PATH", folder.path()), ("STAND_IN", folder.path())])
        .output()
        .unwrap();
    let (output, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && output.contains("stand-in passed"), "{output}\n{errors}");
    println!("{output}");
}

/// A folder with the stand-in's libraries.
fn stand_in() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for module in Module::ALL {
        let file = |suffix: &str| folder.path().join(format!("{}.{suffix}", module.name()));
        compile(&source(module), &file("so"));
        std::fs::write(file("ptx"), module.ptx()).unwrap();
    }
    compile(include_str!("../common/stand_in.c"), &folder.path().join("libcuda.so.1"));
    compile(include_str!("../common/stand_in_nvml.c"), &folder.path().join("libnvidia-ml.so.1"));
    folder
}

#[test]
#[cfg(target_os = "linux")]
fn calls_meet_the_requirements_of_the_driver() {
    with_stand_in("inside");
}

#[test]
#[cfg(target_os = "linux")]
fn any_code_at_any_call_is_one_line() {
    with_stand_in("failing");
}

/// Functions that only the stand-in has.
struct StandIn(libloading::Library);

impl StandIn {
    fn new() -> Self {
        // SAFETY: the stand-in does nothing when it is loaded.
        Self(unsafe { libloading::Library::new("libcuda.so.1") }.unwrap())
    }

    fn ask(&self, name: &str) -> i64 {
        // SAFETY: the stand-in's functions of these names take nothing and return a number.
        unsafe { self.0.get::<unsafe extern "C" fn() -> i64>(name.as_bytes()).unwrap()() }
    }

    fn tell(&self, name: &str, value: i64) {
        // SAFETY: the stand-in's functions of these names take a number and return nothing.
        unsafe { self.0.get::<unsafe extern "C" fn(i64)>(name.as_bytes()).unwrap()(value) }
    }

    /// Waits until the stand-in has refused something once more than `before`.
    fn wait_for_refusal(&self, before: i64) {
        while self.ask("stand_in_refused") == before {
            std::thread::yield_now();
        }
    }

    /// Makes the call with this number, counted from 0, fail. Returns whether an earlier call failed.
    fn fail(&self, call: i64, code: i32) -> bool {
        // SAFETY: the function has that type.
        unsafe { self.0.get::<unsafe extern "C" fn(i64, i32) -> i32>(b"stand_in_fail").unwrap()(call, code) != 0 }
    }
}

/// The test that runs with the stand-in as the driver. `calls_meet_the_requirements_of_the_driver` starts it.
#[test]
#[ignore = "needs the stand-in"]
fn inside() {
    let (devices, reasons) = phalanx_gpu::devices();
    let info = devices.iter().find(|info| info.api == Api::Cuda).unwrap_or_else(|| panic!("{reasons:?}"));
    assert_eq!((info.name.as_str(), info.compute_units, info.local_memory), ("stand-in 0", 2, 232_448));
    assert_eq!((info.warp, info.clock_mhz), (32, 1980));
    assert_eq!(info.driver, "CUDA 13.0, compute capability 9.0");
    energy(info);
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
    // Another thread, on which the context is not current.
    std::thread::spawn(move || device.stream().unwrap().buffer(16).map(drop).unwrap()).join().unwrap();

    let device = Device::open(info).unwrap();
    rows(&device);
    shares(&device);
    gives_up(&device);
    captures(&device);
    drop(device);
    assert_eq!(StandIn::new().ask("stand_in_depth"), 0, "the context that was current before is not current again");

    let gone = DeviceInfo { index: 1, ..info.clone() };
    assert_eq!(Device::open(&gone).unwrap_err().to_string(), "stand-in 0 (CUDA): the device is gone");
    assert_eq!(StandIn::new().ask("stand_in_taken"), 0, "memory was not freed");
    engine(Device::open(info).unwrap());
    assert_eq!(StandIn::new().ask("stand_in_taken"), 0, "memory was not freed");
    hang(Device::open(info).unwrap());
    println!("stand-in passed");
}

/// Short chunks are copied by one call in each direction, and another library's memory is found by its address.
fn rows(device: &Device) {
    let (key, plain, mut stored) = (SecretKey::from_slice(&[1; 32]).unwrap(), paint(6 * 4096 + 5), Vec::new());
    let new =
        NewFile::with_chunk_size(Suite::default(), ChunkSize::new(4096).unwrap(), &[Recipient::key(&key)]).unwrap();
    let there = device.stream().unwrap().buffer_of(&plain).unwrap();
    let shared = there.share().unwrap();
    let copies = || StandIn::new().ask("stand_in_row_copies");
    let before = copies();
    let mut writer = DeviceWriter::new(new, &mut stored, device.clone(), keccak::Level::detect()).unwrap();
    let gate = device.gate().unwrap();
    gate.wait().unwrap();
    // SAFETY: the memory is the buffer's, which lives and is not written to.
    writer.write_foreign(&unsafe { device.foreign(shared.address(), plain.len()) }.unwrap()).unwrap();
    writer.finish().unwrap();
    assert_eq!(copies(), before + 1);
    let file = Reader::open(stored, &Opener::new(key, KdfLimit::default())).unwrap();
    let read = DeviceReader::new(file, device.clone(), keccak::Level::detect()).unwrap().read(0..u64::MAX).unwrap();
    assert_eq!(copies(), before + 2);
    let mut bytes = vec![0; plain.len()];
    device.stream().unwrap().download(&read, 0, &mut bytes).unwrap();
    assert!(bytes == plain);
    let pinned = device.pinned(64).unwrap();
    // SAFETY: it is refused.
    let refused = unsafe { device.foreign(pinned.as_ptr() as u64, 64) }.unwrap_err().to_string();
    assert!(refused.ends_with("is the host's"), "{refused}");
    drop((shared, there));
    assert!(device.finish_freeing());
}

/// Memory whose address others know is not wiped before their work is over: the whole context is waited for.
fn shares(device: &Device) {
    let waited = || StandIn::new().ask("stand_in_waited_for_all");
    let mut stream = device.stream().unwrap();
    let (before, own, shared) = (waited(), stream.buffer(64).unwrap(), stream.buffer(64).unwrap());
    drop(own);
    assert_eq!(waited(), before);
    let others = shared.share().unwrap();
    assert_ne!(others.address(), 0);
    drop(shared);
    assert_eq!(waited(), before);
    drop(others);
    assert!(device.finish_freeing());
    assert_eq!(waited(), before + 1);
}

/// The thread that drops shared memory does not wait for the work of others: they may wait for it. Who needs the memory does.
fn gives_up(device: &Device) {
    let stand_in = StandIn::new();
    let mut stream = device.stream().unwrap();
    let (taken, refused) = (stand_in.ask("stand_in_taken"), stand_in.ask("stand_in_refused"));
    let shared = stream.buffer(1 << 20).unwrap();
    let others = shared.share().unwrap();
    stand_in.tell("stand_in_may_take", 16);
    stand_in.tell("stand_in_others_work", 1);
    drop((shared, others));
    assert_eq!(stand_in.ask("stand_in_taken"), taken + 1, "memory is freed while others use it");
    std::thread::scope(|scope| {
        let again = scope.spawn(|| device.stream().unwrap().buffer(1 << 20).map(drop));
        stand_in.wait_for_refusal(refused);
        stand_in.tell("stand_in_others_work", 0);
        again.join().unwrap().unwrap();
    });
    assert_eq!(stand_in.ask("stand_in_taken"), taken);
    // If nothing is being freed, there is no reason to try again.
    let refused = stand_in.ask("stand_in_refused");
    assert_eq!(stream.buffer(2 << 20).unwrap_err().reason, Reason::OutOfMemory(2 << 20));
    assert_eq!(stand_in.ask("stand_in_refused"), refused + 1);
    stand_in.tell("stand_in_may_take", -1);
}

/// Another library captures work as a graph. The device can be used nevertheless, and what others share is freed when the
/// capture is over. The stand-in ends this process if a call would end the capture.
fn captures(device: &Device) {
    let stand_in = StandIn::new();
    let (taken, refused) = (stand_in.ask("stand_in_taken"), stand_in.ask("stand_in_refused"));
    let shared = device.stream().unwrap().buffer(64).unwrap();
    let others = shared.share().unwrap();
    stand_in.tell("stand_in_capture", 1);
    let mut stream = device.stream().unwrap();
    let (buffer, mut bytes) = (stream.buffer_of(&[7; 64]).unwrap(), device.pinned(64).unwrap());
    stream.download(&buffer, 0, &mut bytes).unwrap();
    assert_eq!(bytes[..], [7; 64]);
    drop((stream, buffer, bytes, shared, others));
    stand_in.wait_for_refusal(refused);
    assert!(!device.is_dead());
    assert_eq!(stand_in.ask("stand_in_taken"), taken + 1);
    stand_in.tell("stand_in_capture", 0);
    assert!(device.finish_freeing());
    assert_eq!(stand_in.ask("stand_in_taken"), taken);
    assert_eq!(stand_in.ask("stand_in_mode"), 0, "the mode that the thread had before is not there again");
}

/// The device's counter of energy.
fn energy(info: &DeviceInfo) {
    let counter = EnergyCounter::of(info).unwrap();
    let before = counter.joules().unwrap();
    assert_eq!(counter.joules().unwrap() - before, 1.5);
    let told = counter.joules().unwrap_err().to_string();
    assert_eq!(told, "stand-in 0 (CUDA): reading the device's energy failed: Not Supported (3)");
    let other = DeviceInfo { api: Api::OpenCl, ..info.clone() };
    let told = EnergyCounter::of(&other).unwrap_err().to_string();
    assert_eq!(told, "stand-in 0 (OpenCL): OpenCL does not tell the energy of a device");
}

/// The calls that only the engine makes: it starts copies, and asks until they are over.
fn engine(device: Device) {
    let engine = GpuEngine::new(device, keccak::Level::detect());
    let plain: Vec<u8> = paint(3 << 20);
    let synchronous = || StandIn::new().ask("stand_in_synchronous");
    for len in [5000, plain.len()] {
        let mut job = job(&engine, &plain[..len]);
        // Short jobs use a kernel of another module, which is built and tested when it is first needed.
        let mut first = job.like(engine.buffer(len).unwrap());
        first.units.clone_from(&job.units);
        assert!(engine.run(&mut first).unwrap().all_passed());
        let before = synchronous();
        assert!(engine.run(&mut job).unwrap().all_passed());
        assert!(job.buf[..] != plain[..len]);
        job.op = Op::Open;
        assert!(engine.run(&mut job).unwrap().all_passed());
        assert!(job.buf[..] == plain[..len]);
        // A lane clears its memory and waits for that, but no byte of a job is copied synchronously.
        assert_eq!(synchronous(), before, "{len} bytes");
        job.units[0].tag[7] ^= 1;
        let before = job.buf.to_vec();
        assert_eq!(engine.run(&mut job).unwrap().failed(), [0]);
        assert!(job.buf[..] == before, "what is not authentic is not decrypted");
    }
    // A device's context is not current on a thread that has not used it.
    std::thread::scope(|scope| {
        for _ in 0..3 * engine.info().workers {
            scope.spawn(|| {
                let mut job = job(&engine, &plain[..70_000]);
                assert!(engine.run(&mut job).unwrap().all_passed());
            });
        }
    });
}

fn job(engine: &GpuEngine, plain: &[u8]) -> Job {
    job_in(engine.buffer(plain.len()).unwrap(), plain)
}

fn job_in(buffer: Buffer, plain: &[u8]) -> Job {
    let keys = SecretKey::from_slice(&[1; 32]).unwrap().file_keys(Suite::default()).content().clone();
    let mut job = Job::of_chunks(Op::Seal, Suite::default(), 20, [keys].into(), buffer);
    job.buf.copy_from_slice(plain);
    let bind = Bind::Chunk { index: 0, last: true };
    job.units.push(Unit { key: 0, nonce: [3; 16], bind, data: 0..plain.len(), tag: [0; 32] });
    job
}

/// Unknown codes, and some known ones, at each call in turn. `any_code_at_any_call_is_one_line` starts it.
#[test]
#[ignore = "needs the stand-in"]
fn failing() {
    let stand_in = StandIn::new();
    let plain = paint((1 << 20) + 5);
    let all = || -> Result<(), String> {
        let (devices, reasons) = phalanx_gpu::devices();
        let info = devices.into_iter().find(|info| info.api == Api::Cuda);
        let Some(info) = info else { return Err(reasons[0].to_string()) };
        let device = Device::open(&info).map_err(|error| error.to_string())?;
        let engine = GpuEngine::with_lanes(device.clone(), keccak::Level::detect(), 1, 2 << 20);
        let buffer = engine.buffer(plain.len()).map_err(|fault| fault.to_string())?;
        let mut job = job_in(buffer, &plain);
        let done = engine.run(&mut job).map_err(|fault| fault.to_string());
        assert!(done.is_ok() || job.buf[..] == plain);
        drop(done?);
        job.op = Op::Open;
        drop(engine.run(&mut job).map_err(|fault| fault.to_string())?);
        assert!(job.buf[..] == plain);
        Ok(())
    };
    for (code, step_by) in
        [(98_765, sweep_by(7, 31)), (-7, sweep_by(41, 101)), (1, sweep_by(23, 97)), (2, sweep_by(29, 89))]
    {
        let mut failures = 0i64;
        for call in (0..).step_by(step_by) {
            stand_in.fail(call, code);
            let done = all();
            if !stand_in.fail(-1, code) {
                assert_eq!(done, Ok(()));
                println!("code {code}: {failures} failures in {call} calls, every {step_by}");
                assert!(failures > 100 / step_by as i64 && failures < call, "{failures} of {call}");
                break;
            }
            if let Err(text) = done {
                failures += 1;
                let known = match code {
                    1 => "another error (1)".into(),
                    2 if text.contains("out of device memory") => "out of device memory".into(),
                    2 => "out of memory (2)".into(),
                    _ => format!("error {code}"),
                };
                assert!(text.contains(&known) && !text.contains('\n'), "call {call}: {text}");
                assert!(text.contains("stand-in 0 (CUDA)") || text.starts_with("CUDA: "), "call {call}: {text}");
            }
        }
    }
    wiping(&stand_in);
    println!("stand-in passed");
}

/// Memory that cannot be wiped is not freed. The stand-in ends this process if it is.
fn wiping(stand_in: &StandIn) {
    for call in 0.. {
        let (devices, _) = phalanx_gpu::devices();
        let device = Device::open(devices.iter().find(|info| info.api == Api::Cuda).unwrap()).unwrap();
        let buffer = device.stream().unwrap().buffer_of(&[7; 64]).unwrap();
        stand_in.fail(call, 1);
        drop(buffer);
        if !stand_in.fail(-1, 1) {
            assert!(call > 10, "only {call} calls");
            break;
        }
    }
}

/// A device that does not answer causes an error of one line within the limit, and immediately for later calls. The
/// stand-in ends this process if a call waits for the device or frees anything.
fn hang(device: Device) {
    let engine = GpuEngine::new(device.clone(), keccak::Level::detect());
    let plain = paint(2 << 20);
    let mut job = job(&engine, &plain);
    let mut other = engine.buffer(2 << 20).unwrap();
    let mut stream = device.stream().unwrap();
    let buffer = stream.buffer(100).unwrap();
    device.set_time_limit(Duration::from_millis(50));
    StandIn::new().ask("stand_in_hang");
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
