//! `phalanx-mpi`: protects files and folders with as many processes as MPI gives. See `docs/cluster.md`.
//!
//! Every process works in a thread of its own, while its main thread passes messages. Rank 0 is also the leader.
#![deny(unsafe_code)]

mod args;
mod division;
mod files;
mod keys;
mod large;
mod leader;
mod message;
mod opened;
mod roots;
mod state;
mod tally;
mod tree;
mod worker;
mod world;

use args::{Cli, Plan, What};
use clap::CommandFactory;
use keys::Keys;
use leader::{ALIVE, Leader};
use message::{Answer, Body, Entry, Hello, Location, Message, ReportedFailure, Task, Tree, Welcome};
use phalanx_core::Error as CoreError;
use phalanx_host::Error;
use phalanx_host::args::EngineName;
use phalanx_host::ask;
use phalanx_host::engines::{Kind, Ready, levels, no_gpu, survey};
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::{Existing, Made, Output, remove_unfinished};
use phalanx_host::lines;
use phalanx_host::lines::{complain, shown};
use phalanx_host::paths::{End, Route};
use state::{Peer, misfit};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tally::Root;
use worker::{Engines, Outbox, Outgoing, Worker};
use world::World;
use zeroize::Zeroizing;

#[global_allocator]
static ALLOCATOR: phalanx_host::last_resort::Allocator = phalanx_host::last_resort::Allocator;

/// The most memory for the jobs of a process, in bytes.
const MEMORY: usize = 64 << 20;
/// Files on the command line that have at least this length, in bytes, are divided among all processes.
const DIVIDED: u64 = 16 << 20;

fn main() -> ExitCode {
    lines::complain_as("phalanx-mpi");
    failure::guard(|| match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    })
}

fn run() -> Outcome {
    phalanx_host::start::begin()?;
    ask::by(|question| rpassword::prompt_password(question).map(Zeroizing::new));
    let rank = world::rank_by_environment();
    let plan = plan(rank.unwrap_or(0));
    // A launcher kills all processes when one of them fails before they have joined, perhaps before rank 0 has reported
    // why. So launched processes always join.
    let plan = if rank.is_some() { plan } else { Ok(plan?) };
    // MPI may start threads of its own.
    let prepared = phalanx_host::start::begin_work();
    let world = World::join()?;
    // From now on the others wait for this process. So it ends with a message to them, or ends them all.
    let done = catch_unwind(AssertUnwindSafe(|| {
        prepared.unwrap_or_else(|failure| give_up(&world, &failure));
        if world.rank == 0 { lead(&world, plan) } else { follow(&world, plan) }
    }));
    done.unwrap_or_else(|_| give_up(&world, &Failure::written(Code::Other)))
}

/// Ends all processes.
fn give_up(world: &World, failure: &Failure) -> ! {
    failure.report();
    let _none_begins = remove_unfinished();
    world.abort(failure.code())
}

/// Parses the command line. All processes have the same one, so only rank 0 prints help and errors.
fn plan(rank: usize) -> Outcome<Plan> {
    let command = phalanx_host::usage::with_short_help(Cli::command()).after_help(EXAMPLES);
    let command = command.mut_subcommands(|of| of.after_help(EXAMPLES));
    let parse = if rank == 0 { phalanx_host::usage::parse_as } else { phalanx_host::usage::parse_silently_as };
    parse(&command).and_then(Cli::validate)
}

const EXAMPLES: &str = "Examples:
  mpirun -n 8 phalanx-mpi protect -k work survey.h5
                                protects a file with 8 processes
  srun phalanx-mpi protect -R -k work --resume --force results
                                protects a folder, and goes on where it ended";

/// This process's introduction to rank 0.
fn hello(world: &World, plan: &Outcome<Plan>) -> Hello {
    let args = plan.is_ok().then(|| env::args_os().skip(1).map(OsStringExt::into_vec).collect());
    Hello { version: env!("CARGO_PKG_VERSION").into(), host: world.host.clone(), machine: world::machine(), args }
}

/// The engines of this process.
fn engines(world: &World, plan: &Plan) -> Outcome<Engines> {
    let run = &plan.run;
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = run.threads.map_or((cores / world.sharers).max(1), NonZeroUsize::get);
    let mut ready = Ready::new(levels()?, threads);
    let kind = match run.engine {
        EngineName::Serial => Kind::Serial,
        EngineName::Auto | EngineName::Cpu => Kind::Cpu,
        EngineName::Gpu => Kind::Gpu,
        EngineName::Hybrid => Kind::Hybrid,
    };
    if matches!(kind, Kind::Gpu | Kind::Hybrid) {
        let device = survey(false, plan.verbosity).device().map_err(|why| no_gpu(&kind.to_string(), &why))?;
        ready.open(device, Duration::ZERO);
    }
    let mut crew = ready.crew(kind).expect("the device is open");
    let bufsize = run.bufsize.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let jobs = bufsize.min((MEMORY / threads).max(1 << 20));
    crew.roster = crew.roster.with_jobs_of(jobs).with_memory(MEMORY);
    let single = ready.members(Kind::Serial).expect("the CPU is always there");
    let threads = if kind == Kind::Serial { 1 } else { threads };
    Ok(Engines { threads, crew, single })
}

/// Runs a rank other than 0.
fn follow(world: &World, plan: Outcome<Plan>) -> Outcome {
    let send = |body, advanced, talked| world.send(0, &Message { advanced, talked, memory: 0, body });
    send(Body::Hello(hello(world, &plan)), 0, 0);
    let (Some(Answer::Welcome(welcome)), Ok(plan)) = (world.wait(), &plan) else { return Ok(()) };
    let (outbox, out) = Outbox::new();
    let fit = env::set_current_dir(message::name(&welcome.folder))
        .map_err(|e| Failure::at(Path::new(message::name(&welcome.folder)), Error::read(e)))
        .and_then(|()| engines(world, plan))
        .and_then(|engines| Worker::new(plan, engines, outbox.clone(), &welcome, None));
    let worker = match fit {
        Ok(worker) => worker,
        Err(failure) => {
            send(Body::Unfit(ReportedFailure::from(&failure)), 0, 0);
            world.wait::<Answer>();
            return Ok(());
        }
    };
    let (give, tasks) = sync_channel(2);
    thread::scope(|scope| {
        let worker = &worker;
        scope.spawn(move || worker.work(&tasks));
        let relayed = catch_unwind(AssertUnwindSafe(|| relay(world, &outbox, &out, give)));
        // The working thread may wait for ever, so the process cannot end by itself.
        relayed.unwrap_or_else(|_| give_up(world, &Failure::written(Code::Other)));
    });
    Ok(())
}

/// Passes messages between the working thread and rank 0, until rank 0 ends the work.
fn relay(world: &World, outbox: &Outbox, out: &Receiver<Outgoing>, give: SyncSender<Task>) {
    let mut message = None;
    loop {
        let next = message.take().or_else(|| outbox.message(out.recv_timeout(ALIVE).ok(), out));
        let Some(next) = next else {
            give_up(world, &Failure::new(Code::Other, format!("{} (rank {}): the job ends", world.host, world.rank)))
        };
        world.send(0, &next);
        match world.wait() {
            Some(Answer::Task { task, waited }) => {
                outbox.was_idle(waited);
                // The thread ends only when the channel does, so this does not fail.
                let _ = give.send(*task);
            }
            Some(Answer::Replies(replies)) => outbox.answer(replies),
            Some(Answer::Welcome(_) | Answer::GoOn) => {}
            Some(Answer::End) => return,
            None => give_up(world, &Failure::new(Code::Other, "rank 0 sent a message that cannot be read")),
        }
        // Asks for the next task while this one is worked on.
        message = matches!(next.body, Body::Ready(_)).then(|| outbox.with_body(Body::More));
    }
}

/// Runs rank 0.
fn lead(world: &World, plan: Outcome<Plan>) -> Outcome {
    let mine = hello(world, &plan);
    let peer = |hello: &Hello| Peer { host: hello.host.clone(), machine: hello.machine };
    let mut peers: Vec<Peer> = (0..world.size).map(|_| peer(&mine)).collect();
    let mut misfits = None;
    for _ in 1..world.size {
        let (rank, message) = wait_for_any(world);
        if let Some(Message { body: Body::Hello(other), .. }) = message {
            misfits = misfits.or_else(|| misfit(&mine, &other, rank));
            peers[rank] = peer(&other);
        } else {
            misfits = misfits.or_else(|| Some(Failure::usage(format!("rank {rank} is another program"))));
        }
    }
    let end = |_: &Failure| (1..world.size).for_each(|rank| world.send(rank, &Answer::End));
    let plan = &plan.inspect_err(end)?;
    let prepared = match misfits {
        Some(failure) => Err(failure),
        None => Keys::find(plan).and_then(|keys| Ok((prepare(plan)?, keys))),
    };
    let (prepared, keys) = prepared.map_or_else(|e| (Err(e), None), |(prepared, keys)| (Ok(prepared), keys));
    let (outbox, out) = Outbox::new();
    let prepared = prepared.and_then(|prepared| {
        let welcome = &prepared.welcome;
        let worker = Worker::new(plan, engines(world, plan)?, outbox.clone(), welcome, keys.as_ref())?;
        Ok((prepared, worker))
    });
    let (prepared, worker) = prepared.inspect_err(end)?;
    let Prepared { welcome, tasks, files, bytes, roots, marks, failed } = prepared;
    (1..world.size).for_each(|rank| world.send(rank, &Answer::Welcome(welcome.clone())));
    let (give, own_tasks) = sync_channel(2);
    if plan.verbosity.verbose {
        complain(format!("{}, in each process", worker.engines.crew.description));
    }
    let led = thread::scope(|scope| {
        let worker = &worker;
        scope.spawn(move || worker.work(&own_tasks));
        let led = catch_unwind(AssertUnwindSafe(|| {
            let mut leader = Leader::new(world, plan, keys.as_ref(), peers, outbox, give);
            leader.begin(tasks, files, bytes, roots);
            leader.lead(&out)
        }));
        led.unwrap_or_else(|_| give_up(world, &Failure::written(Code::Other)))
    });
    drop(marks);
    failure::worse(failed, led)
}

fn wait_for_any(world: &World) -> (usize, Option<Message>) {
    let mut pause = world::Pause::new();
    loop {
        match world.take() {
            Some(taken) => return taken,
            None => thread::sleep(pause.next()),
        }
    }
}

/// What rank 0 prepares before the work begins.
struct Prepared {
    welcome: Welcome,
    tasks: Vec<Task>,
    files: u64,
    bytes: u64,
    /// The roots of the trees, by their numbers.
    roots: BTreeMap<u32, Root>,
    marks: Vec<Mark>,
    /// The worst failure of paths that cannot be worked on.
    failed: Outcome,
}

fn prepare(plan: &Plan) -> Outcome<Prepared> {
    let folder = env::current_dir().map_err(|e| Failure::at(Path::new("."), Error::read(e)))?;
    let is_verifying = matches!(plan.what, What::Verify { .. });
    let (routes, named) = match is_verifying {
        true => (plan.paths.iter().cloned().map(nowhere).collect(), Ok(())),
        false => plan.destination.routes(&plan.paths, |name| plan.output_name(name))?,
    };
    let inputs: Vec<PathBuf> =
        routes.iter().map(|route| route.input.path().to_owned()).filter(|path| path.is_dir()).collect();
    let (mut trees, mut tasks, mut small, mut roots) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
    let (mut files, mut bytes) = (0, 0);
    let (made, key_files) = (Made::default(), worker::key_files(plan));
    let routes_failed = failure::each(&routes, |route| {
        let input = route.input.path();
        let output = (!is_verifying).then(|| route.output.path());
        let of = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let meta = std::fs::metadata(input).map_err(|e| Failure::at(input, Error::read(e)))?;
        if meta.is_dir() {
            if !plan.destination.recursive {
                return Err(Failure::folder(input));
            }
            let takes = plan.destination.force || plan.destination.resume;
            let existing = if takes { Existing::Replace(&made) } else { Existing::Keep };
            let tree = u32::try_from(trees.len()).map_err(|_| Failure::usage("too many folders"))?;
            let (mut mirror, inode) = (None, tree::root(input)?.0.1);
            if let Some(output) = output.filter(|_| !plan.run.dry_run) {
                let inode = tree::make_root(&inputs, input, output, existing, plan.destination.carry)?;
                mirror = Some((of(output), inode));
            }
            let root = Root { input: input.to_owned(), output: mirror.as_ref().and(output).map(Path::to_owned) };
            roots.insert(tree, root);
            trees.push(Tree { input: (of(input), inode), output: mirror });
            tasks.push(Task::Folder { tree, folder: Vec::new() });
            return Ok(());
        }
        output.filter(|_| !plan.run.dry_run).map_or(Ok(()), |output| key_files.check_output(output))?;
        let (name, output, len) = (of(input), output.map(of), meta.len());
        files += 1;
        bytes += len;
        match () {
            () if plan.run.dry_run && plan.verbosity.verbose => complain(shown(input)),
            () if plan.run.dry_run => {}
            () if len >= DIVIDED && meta.is_file() => {
                tasks
                    .push(Task::Begin { file: 0, location: Location { tree: None, folder: Vec::new(), name, output } });
            }
            () => small.push(Entry { name, output, len, mtime: (meta.mtime(), meta.mtime_nsec()) }),
        }
        Ok(())
    });
    tasks.extend(batches(small));
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let outputs = routes.iter().map(|route| (route.input.path(), route.output.path()));
    let folders: BTreeSet<PathBuf> = match is_verifying || plan.run.dry_run {
        true => BTreeSet::new(),
        false => outputs.map(|(input, output)| if input.is_dir() { output.into() } else { parent(output) }).collect(),
    };
    let marks: Vec<Mark> =
        folders.into_iter().take(MARKS).filter_map(|folder| mark(folder).transpose()).collect::<Outcome<_>>()?;
    let welcome = Welcome {
        folder: folder.into_os_string().into_vec(),
        trees,
        outputs: marks.iter().map(|(seen, _)| seen.clone()).collect(),
        umask: phalanx_host::file::umask(),
    };
    let failed = failure::worse(named, routes_failed);
    Ok(Prepared { welcome, tasks, files, bytes, roots, marks, failed })
}

/// A file in a folder of outputs, which shows all processes that they see the same folder: the folder, the file's name
/// and content, and the file. It is deleted when it is dropped.
type Mark = ((Vec<u8>, Vec<u8>, [u8; 32]), Output);

/// The most folders that are marked.
const MARKS: usize = 256;

/// Marks a folder. `None` if it does not exist: the process that writes to it reports that.
fn mark(folder: PathBuf) -> Outcome<Option<Mark>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let at = |e: Error| Failure::at(&folder, e);
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| at(CoreError::Random(e).into()))?;
    // The names are always the same, so that what a killed run has left is replaced. Other jobs may be using some of
    // them.
    let create = |number: u32| Output::create(&folder.join(format!("phalanx-mpi {number}")), Existing::Keep);
    let output = (1..64).find_map(|number| create(number).ok()).map_or_else(|| create(0), Ok).map_err(at)?;
    output.file().write_all_at(&bytes, 0).and_then(|()| output.file().sync_all()).map_err(|e| at(Error::write(e)))?;
    let name = output.temporary_name().as_bytes().to_vec();
    Ok(Some(((folder.into_os_string().into_vec(), name, bytes), output)))
}

/// Puts files on the command line into batches like those of a folder.
fn batches(files: Vec<Entry>) -> Vec<Task> {
    let mut batches: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for file in files {
        bytes += file.len;
        match batches.last_mut() {
            Some(batch) if batch.len() < tree::BATCH_FILES && bytes < tree::BATCH_BYTES => batch.push(file),
            _ => {
                bytes = file.len;
                batches.push(vec![file]);
            }
        }
    }
    batches.into_iter().map(|files| Task::Files { tree: None, folder: Vec::new(), files }).collect()
}

fn nowhere(path: PathBuf) -> Route {
    Route { input: End::from(path), output: End::Standard }
}
