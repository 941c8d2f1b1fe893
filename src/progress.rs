//! The progress bar, and the words for what was done: sizes, times, rates, counts.

use crate::failure::complain;
use crate::verbosity::Verbosity;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use phalanx_core::Progress;
use phalanx_host::file::Past;
use std::env;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Shorter work shows no bar.
const LONG: Duration = Duration::from_millis(500);

/// Shows progress on a terminal if the work takes long, and afterwards says how long it took.
pub struct Meter {
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

impl Meter {
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

    /// Starts the clock, so that time spent at a prompt is not counted. Only the first call counts. Without a call, the
    /// clock started when the meter was made.
    pub fn begin(&self) {
        self.begun.get_or_init(|| {
            self.bar.reset_elapsed();
            self.bar.reset_eta();
            Instant::now()
        });
    }

    /// Notes that more files and bytes of a tree were found.
    pub fn expect(&self, files: u64, bytes: u64) {
        self.files.expected.fetch_add(files, Relaxed);
        self.bar.inc_length(bytes);
    }

    /// Notes that all files of a tree were found. From now on the time left can be estimated.
    pub fn expected_all(&self) {
        self.files.all.store(true, Relaxed);
        self.bar.set_style(style(TREE_SCANNED, &self.files));
    }

    /// Notes that a file of a tree is done.
    pub fn file_done(&self) {
        self.files.done.fetch_add(1, Relaxed);
        self.advance(0);
    }

    /// Says what became of an interrupted run's output.
    pub fn past(&self, past: Past) {
        let what = past_words(past);
        if !self.quiet {
            let line = format!("{}: {what}", self.bar.message());
            self.bar.suspend(|| complain(line));
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Says what was done, and how fast: "2.0 GB in 1.3 s, 1.5 GB/s".
    pub fn summary(&self, bytes: u64) -> String {
        summary_of(bytes, self.elapsed())
    }

    /// Says what was done: "2.0 GB in 1.3 s".
    pub fn brief(&self, bytes: u64) -> String {
        brief_of(bytes, self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.begun.get().unwrap_or(&self.created).elapsed()
    }
}

impl Progress for Meter {
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

/// Says what became of an interrupted run's output.
pub fn past_words(past: Past) -> String {
    match past {
        Past::Continued { done, all } => format!("going on: {} of {} were done", size(done), size(all)),
        Past::Changed => "it has changed since the interrupted run: starting anew".into(),
        Past::Unproven => "no record proves that an interrupted run has left the file in its place: starting anew".into(),
        _ => {
            "what the interrupted run left is for other keys, another cipher or chunk size, or is damaged: starting anew".into()
        }
    }
}

/// Says what was done in a time, and how fast: "2.0 GB in 1.3 s, 1.5 GB/s".
pub fn summary_of(bytes: u64, time: Duration) -> String {
    let brief = brief_of(bytes, time);
    // An empty file has no speed.
    if bytes == 0 { brief } else { format!("{brief}, {}", rate(bytes as f64 / time.as_secs_f64().max(1e-9))) }
}

fn brief_of(bytes: u64, time: Duration) -> String {
    format!("{} in {}", size(bytes), duration(time))
}

/// A size in decimal units, with two or three digits: "16 bytes", "900 kB", "1.2 GB".
pub fn size(bytes: u64) -> String {
    if bytes < 1000 { count(bytes, "byte") } else { scaled(bytes as f64) }
}

/// A speed: "35 MB/s".
pub fn rate(bytes_per_second: f64) -> String {
    if bytes_per_second < 999.5 {
        format!("{bytes_per_second:.0} B/s")
    } else {
        format!("{}/s", scaled(bytes_per_second))
    }
}

/// With the smallest unit, from kB on, that leaves at most three digits before the point.
fn scaled(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes / 1e3, "kB");
    for larger in ["MB", "GB", "TB", "PB", "EB"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1e3, larger);
    }
    format!("{} {unit}", two_digits(value))
}

/// At least two digits: 1.2, 12, 123.
fn two_digits(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A measured time: "0.4 ms", "35 ms", "1.3 s", "2 min 5 s".
pub fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.9995 => format!("{} ms", two_digits(seconds * 1e3)),
        seconds if seconds < 59.5 => format!("{} s", two_digits(seconds)),
        _ => whole_seconds(time),
    }
}

/// "5 s", "2 min 5 s", "3 h 20 min".
pub fn whole_seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        (..) => format!("{hours} h {} min", minutes % 60),
    }
}

/// A number of things, in the plural if necessary: "1 file", "2 files", "0 entries".
pub fn count(n: u64, thing: &str) -> String {
    if n == 1 {
        return format!("{n} {thing}");
    }
    match thing.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{n} {stem}ies"),
        _ if thing.ends_with(['s', 'x', 'z']) => format!("{n} {thing}es"),
        _ => format!("{n} {thing}s"),
    }
}

/// What happened to the others, for the end of a summary: "; 2 left out; 1 failed", without those that are none.
pub fn others<const N: usize>(counts: [(u64, &str); N]) -> String {
    counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("; {n} {what}")).collect()
}

/// The arrow between an input and its output, in a form that the user's locale can show.
pub fn arrow() -> &'static str {
    static ARROW: OnceLock<&str> = OnceLock::new();
    ARROW.get_or_init(|| {
        let variable = |name| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        arrow_in(["LC_ALL", "LC_CTYPE", "LANG"].map(variable))
    })
}

/// The first variable that is set and not empty counts, as usual.
fn arrow_in(variables: [Option<String>; 3]) -> &'static str {
    let locale = variables.into_iter().flatten().find(|value| !value.is_empty()).unwrap_or_default();
    let codeset = locale.split_once('.').map_or("", |(_, rest)| rest.split('@').next().unwrap_or(""));
    if codeset.eq_ignore_ascii_case("utf-8") || codeset.eq_ignore_ascii_case("utf8") { "→" } else { "->" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::Mutex;

    #[test]
    fn sizes_are_decimal_with_two_or_three_digits() {
        let sizes = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (1024, "1.0 kB"),
            (9_949, "9.9 kB"),
            (9_950, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (35_000_000, "35 MB"),
            (2_000_000_000, "2.0 GB"),
            (u64::MAX, "18 EB"),
        ];
        for (bytes, words) in sizes {
            assert_eq!(size(bytes), words, "{bytes}");
        }
    }

    #[test]
    fn rates_are_never_zero_of_a_large_unit() {
        let rates = [(0.2, "0 B/s"), (512.0, "512 B/s"), (999.6, "1.0 kB/s"), (3.5e7, "35 MB/s"), (1.54e9, "1.5 GB/s")];
        for (speed, words) in rates {
            assert_eq!(rate(speed), words, "{speed}");
        }
    }

    #[test]
    fn a_summary_has_a_size_a_time_and_a_speed() {
        let ms = Duration::from_millis;
        assert_eq!(summary_of(2_000_000_000, ms(1_300)), "2.0 GB in 1.3 s, 1.5 GB/s");
        assert_eq!(summary_of(70_000, ms(2)), "70 kB in 2.0 ms, 35 MB/s");
        assert_eq!(summary_of(0, ms(2)), "0 bytes in 2.0 ms");
        assert_eq!(summary_of(1, Duration::ZERO), "1 byte in 0.0 ms, 1.0 GB/s");
        assert_eq!(brief_of(2_000_000_000, ms(1_300)), "2.0 GB in 1.3 s");
        let times = [
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (42_400, "42 s"),
            (59_600, "1 min 0 s"),
            (125_000, "2 min 5 s"),
            (12_000_000, "3 h 20 min"),
        ];
        for (time, words) in times {
            assert_eq!(duration(ms(time)), words, "{time}");
        }
    }

    #[test]
    fn time_before_the_beginning_is_not_counted() {
        let meter = Meter::file("f".into(), None, Verbosity { quiet: false, verbose: false });
        let hour = Duration::from_secs(3600);
        let meter = Meter { created: Instant::now().checked_sub(hour).unwrap(), ..meter };
        assert!(meter.summary(1).starts_with("1 byte in 1 h 0 min, "));
        meter.begin();
        let begun = *meter.begun.get().unwrap();
        assert!(!meter.brief(1).contains('h'));
        meter.begin();
        assert_eq!(*meter.begun.get().unwrap(), begun);
    }

    #[test]
    fn bars_appear_only_when_it_takes_long_and_nobody_wants_quiet() {
        for (hours, quiet, is_shown) in [(0, false, false), (1, false, true), (1, true, false)] {
            let meter = Meter::tree("t".into(), Verbosity { quiet, verbose: false });
            let created = Instant::now().checked_sub(Duration::from_secs(3600 * hours)).unwrap();
            let meter = Meter { created, ..meter };
            meter.file_done();
            assert_eq!(meter.shown.load(Relaxed), is_shown, "{hours} hours, quiet: {quiet}");
        }
    }

    #[test]
    fn plural_forms_are_right() {
        let counts = [
            (0, "file", "0 files"),
            (1, "file", "1 file"),
            (2, "file", "2 files"),
            (1, "entry", "1 entry"),
            (2, "entry", "2 entries"),
            (2, "key", "2 keys"),
            (3, "pass", "3 passes"),
        ];
        for (n, thing, words) in counts {
            assert_eq!(count(n, thing), words);
        }
    }

    #[test]
    fn a_summary_ends_with_what_happened_to_others() {
        assert_eq!(others([(2, "left out"), (1, "failed")]), "; 2 left out; 1 failed");
        assert_eq!(others([(0, "left out"), (1, "failed")]), "; 1 failed");
        assert_eq!(others([(0, "left out"), (0, "failed")]), "");
    }

    #[test]
    fn the_arrow_follows_the_locale() {
        let arrow = |all: &str, ctype: &str, lang: &str| {
            arrow_in([all, ctype, lang].map(|value| Some(value.to_owned()).filter(|value| value != "unset")))
        };
        assert_eq!(arrow("unset", "unset", "unset"), "->");
        assert_eq!(arrow("unset", "unset", "de_DE.UTF-8"), "→");
        assert_eq!(arrow("unset", "unset", "C.utf8@euro"), "→");
        assert_eq!(arrow("C", "unset", "de_DE.UTF-8"), "->");
        assert_eq!(arrow("", "de_DE.ISO-8859-1", "de_DE.UTF-8"), "->");
        assert_eq!(arrow("", "", "C.UTF-8"), "→");
    }

    #[test]
    fn a_tree_shows_what_is_done_and_what_is_known() {
        let meter = Meter::tree("t".into(), Verbosity { quiet: false, verbose: false });
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

    /// The other tests do not draw what indicatif makes of a template.
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
