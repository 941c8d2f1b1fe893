//! The dates of `valid-after` and `valid-before`: `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, perhaps with a `Z` for UTC.
//!
//! Without `Z`, `ssh-keygen` takes them in the time zone of whoever runs it. The answer should not depend on that, so such a date
//! is taken here in the zone in which it allows least. The difference is at most 14 hours.

/// The zones are up to so many seconds behind UTC.
const BEHIND: i64 = 12 * 3600;
/// And up to so many before it.
const BEFORE: i64 = 14 * 3600;

/// The first second, since 1970, from which on something is certainly valid that is valid after a date.
pub fn after(date: &str) -> Option<i64> {
    let (seconds, is_utc) = parse(date)?;
    Some(if is_utc { seconds } else { seconds + BEHIND })
}

/// The last second, since 1970, in which something is certainly valid that is valid before a date.
pub fn before(date: &str) -> Option<i64> {
    let (seconds, is_utc) = parse(date)?;
    Some(if is_utc { seconds } else { seconds - BEFORE })
}

/// A date in seconds since 1970, as if it were UTC, and whether it says that it is.
fn parse(date: &str) -> Option<(i64, bool)> {
    let digits = date.strip_suffix('Z').unwrap_or(date);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (hour, minute, second) = match digits.len() {
        8 => (0, 0, 0),
        12 => (number(8..10)?, number(10..12)?, 0),
        14 => (number(8..10)?, number(10..12)?, number(12..14)?),
        _ => return None,
    };
    let is_date = year >= 1970 && (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 60;
    let seconds = (days_before(year, month) + day - 1) * 86400 + hour * 3600 + minute * 60 + second;
    (is_date && is_time).then_some((seconds, digits.len() < date.len()))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days from 1970 to the beginning of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let years: i64 = (1970..year).map(|year| 365 + i64::from(is_leap(year))).sum();
    years + (1..month).map(|month| days_of(year, month)).sum::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds() {
        assert_eq!(parse("19700101Z"), Some((0, true)));
        assert_eq!(parse("20240229"), Some((1_709_164_800, false)));
        assert_eq!(parse("202402291230Z"), Some((1_709_209_800, true)));
        assert_eq!(parse("20991231235959Z"), Some((4_102_444_799, true)));
        for wrong in [
            "",
            "Z",
            "2024",
            "20230229",
            "20241301",
            "20240100",
            "2024010124",
            "202401012400",
            "2024010112006",
            "2024o101",
            "20240101z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_date_without_a_zone_allows_least() {
        assert_eq!(after("19700102"), Some(86400 + 12 * 3600));
        assert_eq!(before("19700102"), Some(86400 - 14 * 3600));
        assert_eq!((after("19700102Z"), before("19700102Z")), (Some(86400), Some(86400)));
    }
}
