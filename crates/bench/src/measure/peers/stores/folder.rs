//! A mirror of many small files in a store that takes some time for each request, beside `rclone sync` with its `crypt`.

use super::{CRYPT, OURS, Rclone, Sizes, Slow, Store, WHOLE};
use crate::measure::programs::finish;
use crate::measure::scratch::{self, Random};
use crate::measure::{Contestant, Error, Result, Row, Rows, Setup, in_turns, row_of, time};
use crate::names::peers::EXPERIMENT;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What each request takes more.
const DELAY: Duration = Duration::from_millis(2);
/// A file has 1 to 64 KB.
const LENGTHS: std::ops::Range<u64> = 1_000..64_000;
/// The files of each folder.
const TOGETHER: u64 = 100;

/// A new mirror, and a run that finds nothing to do.
pub fn mirrored(setup: &Setup, store: &Store<'_>, sizes: Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let rclone = match Rclone::find() {
        Ok(rclone) => rclone,
        Err(Error::NotRun(why)) => return rows.write(row(sizes, 0, "new", CRYPT).not_run(&why)),
        Err(error) => return Err(error),
    };
    let (tree, bytes) = made(store, sizes.files)?;
    let slow = Slow::start(store.address, DELAY).map_err(Error::at(&store.bucket))?;
    let url = Path::new("s3://bucket/tree.phx");
    let ours = || store.command(&store.phalanx, slow.address, "mirror -qk bench", &[&tree, url]);
    let theirs = || {
        // As many at a time as ours sends.
        let words = "--transfers 16 --checkers 16 sync";
        rclone.command(store, slow.address, words, &[&tree, Path::new("secret:tree")])
    };
    let contestants: Vec<Contestant<'_>> = vec![
        contestant(store, sizes, bytes, OURS, "tree.phx", &ours),
        contestant(store, sizes, bytes, CRYPT, "crypt", &theirs),
    ];
    let all = in_turns(contestants, 1, sizes.rounds)?.concat();
    for row in &all {
        rows.write(row.clone())?;
    }
    for ours in all.iter().filter(|row| row.scheme == OURS) {
        let other = all.iter().find(|row| row.operation == ours.operation && row.scheme == CRYPT);
        let ratio = other.and_then(|other| Some(other.median_s? / ours.median_s?));
        let asked = ratio.filter(|_| ours.operation == "new mirror");
        let bar = asked.and_then(|ratio| setup.bar(format!("at least 1.5 times as fast as {CRYPT}"), ratio >= 1.5));
        let measure = format!("{WHOLE}: times as fast as {CRYPT}");
        let row = row(sizes, bytes, &ours.operation, OURS);
        rows.write(Row { measure, speedup: ratio, over: Some(CRYPT.into()), bar, ..row })?;
    }
    fs::remove_dir_all(&tree).map_err(Error::at(&tree))
}

fn row(sizes: Sizes, bytes: u64, operation: &str, scheme: &str) -> Row {
    let case = format!("{} files of 1 to 64 KB, 2 ms for each request", sizes.files);
    row_of(EXPERIMENT, case, [operation, WHOLE, scheme, "command"], [bytes, sizes.files], 0)
}

fn contestant<'a>(
    store: &'a Store<'_>,
    sizes: Sizes,
    bytes: u64,
    scheme: &str,
    folder: &'static str,
    command: &'a dyn Fn() -> Command,
) -> Contestant<'a> {
    let both = ["new mirror", "unchanged mirror"].map(|operation| row(sizes, bytes, operation, scheme));
    Contestant::new(both.into(), move |_| {
        // Each round begins without a mirror, also in the memory of this machine.
        for place in [store.bucket.join(folder), store.own.path("names/bucket").join(folder), store.own.path("state")] {
            if place.exists() {
                fs::remove_dir_all(&place).map_err(Error::at(&place))?;
            }
        }
        let (new, done) = time(|| finish(command()));
        done?;
        let (unchanged, done) = time(|| finish(command()));
        done?;
        Ok(vec![Some(new), Some(unchanged)])
    })
}

/// The tree, and how many bytes its files have.
fn made(store: &Store<'_>, files: u64) -> Result<(PathBuf, u64)> {
    let tree = store.own.folder("tree")?;
    let (mut lengths, mut bytes) = (Random::new(7), 0);
    for file in 0..files {
        let folder = tree.join(format!("{:03}", file / TOGETHER));
        if file % TOGETHER == 0 {
            fs::create_dir(&folder).map_err(Error::at(&folder))?;
        }
        let len = LENGTHS.start + lengths.below(LENGTHS.end - LENGTHS.start);
        scratch::write(&folder.join(format!("{file:05}.dat")), len, file)?;
        bytes += len;
    }
    Ok((tree, bytes))
}
