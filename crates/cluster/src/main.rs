//! `phalanx-mpi`: protects files and folders with as many processes as MPI gives. See `docs/cluster.md`.
//!
//! Every process works in a thread of its own, while its main thread passes messages. Rank 0 is also the leader.
#![deny(unsafe_code)]

mod args;
mod division;
mod driver;
mod feed;
mod files;
mod keys;
mod large;
mod leader;
mod listed;
mod message;
mod opened;
mod prepare;
mod roots;
mod state;
mod tally;
mod tree;
mod worker;
mod world;

use args::{Cli, Plan};
use clap::CommandFactory;
use driver::{Begun, Driver, reported};
use keys::Keys;
use leader::{ALIVE, Leader};
use message::{Answer, Body, Hello, Message, ReportedFailure, Task};
use phalanx_host::Error;
use phalanx_host::ask;
use phalanx_host::engines::{Kind, Ready, levels, named};
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::remove_unfinished;
use phalanx_host::lines;
use phalanx_host::lines::complain;
use prepare::{Prepared, restore_times};
use state::{Peer, misfit};
use std::env;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tally::Failures;
use worker::{Engines, Outbox, Outgoing, Worker};
use world::World;
use zeroize::Zeroizing;

#[global_allocator]
static ALLOCATOR: phalanx_host::last_resort::Allocator = phalanx_host::last_resort::Allocator;

/// The most memory for the jobs of a process, in bytes.
const MEMORY: usize = 64 << 20;

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
                                protects a folder, and goes on where it ended
  mpirun -n 8 phalanx-mpi mirror -k work --delete results /backup/results
                                writes to a mirror what has changed";

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
    let kind = named(run.engine, &mut ready, plan.verbosity)?.unwrap_or(Kind::Cpu);
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
    let end = || (1..world.size).for_each(|rank| world.send(rank, &Answer::End));
    let plan = &plan.inspect_err(|_| end())?;
    let found = match misfits {
        Some(failure) => Err(failure),
        None => Keys::find(plan).and_then(|keys| Ok((keys, engines(world, plan)?))),
    };
    let (keys, engines) = found.inspect_err(|_| end())?;
    let (keys, tally) = (keys.as_ref(), Arc::new(Failures::default()));
    let roster = Arc::new(engines.single());
    let driver = Driver { plan, keys, roster, failures: tally.clone() };
    let (begin, begun) = sync_channel(1);
    let mut roots = Vec::new();
    let ended = thread::scope(|scope| {
        let driver = scope.spawn(|| driver.run(begin));
        let led = match begun.recv() {
            Ok(begun) => {
                roots = begun.prepared.mirrors();
                conduct(world, plan, keys, engines, peers, begun, &tally)
            }
            // There is nothing to do.
            Err(_) => {
                end();
                tally.outcome()
            }
        };
        let driven = driver.join().unwrap_or_else(|_| give_up(world, &Failure::written(Code::Other)));
        failure::worse(driven.map_err(reported), led.map_err(reported))
    });
    restore_times(&roots);
    ended
}

/// Leads all processes through the work that has begun.
fn conduct(
    world: &World,
    plan: &Plan,
    keys: Option<&Keys>,
    engines: Engines,
    peers: Vec<Peer>,
    Begun { prepared, feed }: Begun,
    tally: &Arc<Failures>,
) -> Outcome {
    let (outbox, out) = Outbox::new();
    let Prepared { welcome, tasks, files, bytes, roots, marks, .. } = prepared;
    let end = |_: &Failure| (1..world.size).for_each(|rank| world.send(rank, &Answer::End));
    let worker = Worker::new(plan, engines, outbox.clone(), &welcome, keys).inspect_err(end)?;
    (1..world.size).for_each(|rank| world.send(rank, &Answer::Welcome(welcome.clone())));
    let (give, own_tasks) = sync_channel(2);
    if plan.verbosity.verbose {
        complain(format!("{}, in each process", worker.engines.crew.description));
    }
    let led = thread::scope(|scope| {
        let worker = &worker;
        scope.spawn(move || worker.work(&own_tasks));
        let led = catch_unwind(AssertUnwindSafe(|| {
            let mut leader = Leader::new(world, plan, keys, peers, outbox, give, feed, tally.clone());
            leader.begin(tasks, files, bytes, roots);
            leader.lead(&out)
        }));
        led.unwrap_or_else(|_| give_up(world, &Failure::written(Code::Other)))
    });
    drop(marks);
    led
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
