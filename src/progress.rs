//! The progress bar.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use phalanx_core::Progress;
use phalanx_host::file::Past;
use phalanx_host::lines::complain;
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::{brief_of, count, past_words, rate, size, summary_of, whole_seconds};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Shorter work shows no bar.
const LONG: Duration = Duration::from_millis(500);

/// Shows progress on a terminal if the work takes long, and afterwards says how long it took.
pub struct Bar {
    created: Instant,
    begun: OnceLock<Instant>,
    bar: ProgressBar,
    shown: AtomicBool,
    quiet: bool,
    files: Arc<Files>,
}

/// The files of a tree. The bytes are the bar's own position and length.
#[derive(Default)]
struct Files {
    done: AtomicU64,
    expected: AtomicU64,
    /// Whether the scan is finished. Until then the totals still grow.
    all: AtomicBool,
}

impl Bar {
    /// A meter for one file. `len` is its length in bytes, if it is known.
    pub fn file(what: String, len: Option<u64>, verbosity: Verbosity) -> Self {
        let template = match len {
            Some(_) => "{msg} {wide_bar} {percent}% {rate}, {left}",
            None => "{msg} {spinner} {done} {rate}",
        };
        Self::new(what, len, template, verbosity)
    }

    /// A meter for a recursive run.
    pub fn tree(what: String, verbosity: Verbosity) -> Self {
        Self::new(what, Some(0), TREE_SCANNING, verbosity)
    }

    fn new(what: String, len: Option<u64>, template: &str, verbosity: Verbosity) -> Self {
        let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::hidden());
        let files = Arc::new(Files::default());
        bar.set_style(style(template, &files));
        bar.set_message(what);
        let (begun, shown) = (OnceLock::new(), AtomicBool::new(false));
        Self { created: Instant::now(), begun, bar, shown, quiet: verbosity.quiet, files }
    }

    /// Says what was done: "2.0 GB in 1.3 s".
    pub fn brief(&self, bytes: u64) -> String {
        brief_of(bytes, self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.begun.get().unwrap_or(&self.created).elapsed()
    }
}

impl Meter for Bar {
    fn begin(&self) {
        self.begun.get_or_init(|| {
            self.bar.reset_elapsed();
            self.bar.reset_eta();
            Instant::now()
        });
    }

    fn expect(&self, files: u64, bytes: u64) {
        self.files.expected.fetch_add(files, Relaxed);
        self.bar.inc_length(bytes);
    }

    fn expected_all(&self) {
        self.files.all.store(true, Relaxed);
        self.bar.set_style(style(TREE_SCANNED, &self.files));
    }

    fn file_done(&self) {
        self.files.done.fetch_add(1, Relaxed);
        self.advance(0);
    }

    fn past(&self, past: Past) {
        let what = past_words(past);
        if !self.quiet {
            let line = format!("{}: {what}", self.bar.message());
            self.bar.suspend(|| complain(line));
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn summary(&self, bytes: u64) -> String {
        summary_of(bytes, self.elapsed())
    }
}

impl Progress for Bar {
    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
        if !self.quiet && self.elapsed() > LONG && !self.shown.swap(true, Relaxed) {
            // Draws nothing if stderr is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

const TREE_SCANNING: &str = "{msg} {spinner} {tree}, {rate}";
const TREE_SCANNED: &str = "{msg} {wide_bar} {tree}, {rate}, {left}";

/// A bar with figures in our own words.
fn style(template: &str, files: &Arc<Files>) -> ProgressStyle {
    let files = files.clone();
    ProgressStyle::with_template(template)
        .expect("a constant template")
        .progress_chars("=> ")
        .with_key("done", |state: &ProgressState, to: &mut dyn Write| {
            let _ = to.write_str(&size(state.pos()));
        })
        .with_key("rate", |state: &ProgressState, to: &mut dyn Write| {
            let _ = to.write_str(&rate(state.per_sec()));
        })
        .with_key("left", |state: &ProgressState, to: &mut dyn Write| {
            let _ = write!(to, "{} left", whole_seconds(state.eta()));
        })
        .with_key("tree", move |state: &ProgressState, to: &mut dyn Write| {
            let _ = to.write_str(&files.words(state.pos(), state.len()));
        })
}

impl Files {
    /// "12 of 345 files, 1.2 GB of 34 GB"; with a plus while the totals still grow.
    fn words(&self, bytes: u64, len: Option<u64>) -> String {
        let (done, expected) = (self.done.load(Relaxed), self.expected.load(Relaxed));
        if expected == 0 {
            return format!("{}, {}", count(done, "file"), size(bytes));
        }
        let more = if self.all.load(Relaxed) { "" } else { "+" };
        let (files, whole) = (if expected == 1 { "file" } else { "files" }, size(len.unwrap_or(0)));
        format!("{done} of {expected}{more} {files}, {} of {whole}{more}", size(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::Mutex;

    #[test]
    fn time_before_the_work_begins_is_not_counted() {
        let meter = Bar::file("f".into(), None, Verbosity { quiet: false, verbose: false });
        let hour = Duration::from_secs(3600);
        let meter = Bar { created: Instant::now().checked_sub(hour).unwrap(), ..meter };
        assert!(meter.summary(1).starts_with("1 byte in 1 h 0 min, "));
        meter.begin();
        let begun = *meter.begun.get().unwrap();
        assert!(!meter.brief(1).contains('h'));
        meter.begin();
        assert_eq!(*meter.begun.get().unwrap(), begun);
    }

    #[test]
    fn bars_appear_only_for_long_work_and_without_quiet() {
        for (hours, quiet, is_shown) in [(0, false, false), (1, false, true), (1, true, false)] {
            let meter = Bar::tree("t".into(), Verbosity { quiet, verbose: false });
            let created = Instant::now().checked_sub(Duration::from_secs(3600 * hours)).unwrap();
            let meter = Bar { created, ..meter };
            meter.file_done();
            assert_eq!(meter.shown.load(Relaxed), is_shown, "{hours} hours, quiet: {quiet}");
        }
    }

    #[test]
    fn a_tree_shows_files_and_bytes_done_and_found() {
        let meter = Bar::tree("t".into(), Verbosity { quiet: false, verbose: false });
        let words = || meter.files.words(meter.bar.position(), meter.bar.length());
        assert_eq!(words(), "0 files, 0 bytes");
        meter.expect(344, 33_000_000_000);
        meter.advance(1_200_000_000);
        meter.file_done();
        assert_eq!(words(), "1 of 344+ files, 1.2 GB of 33 GB+");
        meter.expect(1, 1_000_000_000);
        meter.expected_all();
        assert_eq!(words(), "1 of 345 files, 1.2 GB of 34 GB");
        meter.finish();
    }

    /// The other tests do not draw a template with indicatif.
    #[test]
    fn bars_are_drawn_with_our_units() {
        let files = Arc::new(Files::default());
        files.expected.store(2, Relaxed);
        files.all.store(true, Relaxed);
        for (template, len) in [(TREE_SCANNED, Some(2_000_000)), (TREE_SCANNING, None)] {
            let screen = Screen::default();
            let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::term_like(Box::new(screen.clone())));
            bar.set_style(style(template, &files));
            bar.set_message("photos");
            bar.inc(1_000_000);
            bar.tick();
            let shown = screen.0.lock().unwrap().last().unwrap().trim_end().to_owned();
            let whole = if len.is_some() { "2.0 MB, " } else { "0 bytes, " };
            assert!(shown.starts_with("photos ") && shown.contains("0 of 2 files, 1.0 MB of "), "{shown}");
            assert!(shown.contains(whole) && shown.contains("/s") && !shown.contains("iB"), "{shown}");
            assert_eq!(shown.ends_with(" left"), len.is_some(), "{shown}");
        }
    }

    /// A terminal that keeps what is written to it, and moves no cursor.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<Vec<String>>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            if !text.trim().is_empty() {
                self.0.lock().unwrap().push(text.to_owned());
            }
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }
}
