//! pgcrypto, in a PostgreSQL of its own: its folder is temporary, and it listens on a socket there only.

use super::Context;
use super::TEXT;
use super::processes::{Process, output};
use crate::measure::scratch::remove_folder;
use crate::measure::setup::ServiceOptions;
use crate::measure::{Error, Result, lock};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The user of Debian's package. The server refuses to run as root.
const USER: &str = "postgres";

pub struct Postgres {
    programs: PathBuf,
    // It ends before its folder is removed.
    process: Process,
    folder: Folder,
    /// Only one query runs at a time.
    turn: Mutex<()>,
}

/// A folder of that user, removed on drop.
struct Folder(PathBuf);

/// The folders of this process, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the folders of this process. It is called before a signal ends the process, after its servers were asked to stop.
pub fn remove_unfinished() {
    lock(&UNFINISHED).drain(..).for_each(|folder| remove_folder(&folder));
}

impl Folder {
    fn new() -> Result<Self> {
        let mut make = as_user(Path::new("mktemp"));
        make.arg("-d").arg(std::env::temp_dir().join("phalanx-bench-postgres.XXXXXX"));
        let folder = PathBuf::from(output("mktemp", make)?);
        lock(&UNFINISHED).push(folder.clone());
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        lock(&UNFINISHED).retain(|folder| *folder != self.0);
        remove_folder(&self.0);
    }
}

/// The newest PostgreSQL of Debian's packages.
pub fn find() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = folders.map(|entry| entry.path()).filter(|path| version(path).is_some()).max_by_key(version)?;
    Some(newest.join("bin")).filter(|bin| bin.join("initdb").is_file())
}

impl Postgres {
    /// Starts it on the core of servers, with a table of texts and keys.
    pub fn start(context: &Context<'_>) -> Result<Self> {
        let given = context.programs.options.postgres.as_ref();
        let programs = given.ok_or_else(|| Error::NotRun("no pgcrypto (measured with --postgres)".into()))?;
        let programs = match programs.as_os_str() == ServiceOptions::NEWEST {
            true => find().ok_or_else(|| Error::NotRun("no pgcrypto: no PostgreSQL in /usr/lib/postgresql".into()))?,
            false => programs.clone(),
        };
        // It belongs to the server's user, who may not enter the run's folder.
        let folder = Folder::new()?;
        let data = folder.0.join("data");
        let mut init = as_user(&programs.join("initdb"));
        init.args(["--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8", "--username=postgres", "-D"])
            .arg(&data);
        output("initdb", init)?;
        let mut run = as_user(&programs.join("postgres"));
        run.arg("-D").arg(&data).arg("-k").arg(&folder.0).args(["-c", "listen_addresses=", "-c", "autovacuum=off"]);
        let process = context.programs.place.as_server(|| Process::start("postgres", run))?;
        let mut started = Self { programs, process, folder, turn: Mutex::new(()) };
        let Self { programs, process, folder, .. } = &mut started;
        process.wait_until(|| query(programs, &folder.0, "SELECT 1").map(drop))?;
        let rows = context.sizes.rows;
        started.query("CREATE EXTENSION pgcrypto")?;
        started.query(&format!(
            "CREATE UNLOGGED TABLE texts AS SELECT decode(repeat(md5(i::text), {}), 'hex') AS data, \
             decode(md5(i::text) || md5('k' || i), 'hex') AS key FROM generate_series(1, {rows}) AS i",
            TEXT / 16
        ))?;
        let len = started.query("SELECT count(*) || ' ' || min(length(data)) || ' ' || min(length(key)) FROM texts")?;
        match len.trim() == format!("{rows} {TEXT} 32") {
            true => Ok(started),
            false => Err(Error::Program(format!("the table of PostgreSQL is another one: {len}"))),
        }
    }

    fn query(&self, sql: &str) -> Result<String> {
        let _turn = lock(&self.turn);
        query(&self.programs, &self.folder.0, sql)
    }

    /// The seconds of a function over all rows, by psql's clock. The session has called it before.
    pub fn time(&self, function: &str) -> Result<f64> {
        let warm = format!("SELECT sum(length({function})) FROM (SELECT * FROM texts LIMIT 10) AS t");
        let all = format!("SELECT sum(length({function})) FROM texts");
        let said = self.query(&format!("{warm};\n\\timing on\n{all};"))?;
        let ms = said.lines().find_map(|line| line.strip_prefix("Time: ")?.split(' ').next()?.parse::<f64>().ok());
        ms.map(|ms| ms / 1e3).ok_or_else(|| Error::Program(format!("psql tells no time: {said}")))
    }
}

/// A command of the server's user, if this one is root.
fn as_user(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--init-groups"]).arg(program).current_dir("/");
    command
}

/// Runs commands of psql, and returns what it prints.
fn query(programs: &Path, folder: &Path, commands: &str) -> Result<String> {
    let mut psql = as_user(&programs.join("psql"));
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"]).arg(folder);
    // Its own commands, which begin with a backslash, are on lines of their own.
    psql.args(commands.split('\n').flat_map(|line| ["-c", line]));
    psql.env("LC_ALL", "C");
    output("psql", psql)
}
