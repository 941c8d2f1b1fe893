//! The words for what was done: sizes, times, rates, counts.

use crate::file::Past;
use std::env;
use std::sync::OnceLock;
use std::time::Duration;

/// What happened to an interrupted run's output, in words.
pub fn past_words(past: Past) -> String {
    match past {
        Past::Continued { done, all } => format!("going on: {} of {} were done", size(done), size(all)),
        Past::Changed => "it has changed since the interrupted run: starting over".into(),
        Past::Unproven => "no record proves that an interrupted run has left the file in its place: starting over".into(),
        _ => {
            "what the interrupted run left is for other keys, another cipher or chunk size, or is damaged: starting over".into()
        }
    }
}

/// What was done in a time, and how fast: "2.0 GB in 1.3 s, 1.5 GB/s".
pub fn summary_of(bytes: u64, time: Duration) -> String {
    let brief = brief_of(bytes, time);
    // An empty file has no speed.
    if bytes == 0 { brief } else { format!("{brief}, {}", rate(bytes as f64 / time.as_secs_f64().max(1e-9))) }
}

/// What was done in a time, without the speed: "2.0 GB in 1.3 s".
pub fn brief_of(bytes: u64, time: Duration) -> String {
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

/// A size with the smallest unit, kB or larger, that leaves at most three digits before the point.
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

/// A number with at least two digits: 1.2, 12, 123.
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

/// What happened to the other files, for the end of a summary: "; 2 left out; 1 failed". Numbers that are 0 are left
/// out.
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
}
