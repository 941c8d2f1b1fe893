//! Dates for people.

use serde_json::Value;
use time::OffsetDateTime;

/// The date and time of seconds since 1970, in UTC, such as `2026-11-25 14:30 UTC`.
pub fn date(seconds: &Value) -> String {
    let time = seconds.as_i64().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let shown = |time: OffsetDateTime| format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute());
    time.map_or_else(|| "unknown".to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_readable() {
        assert_eq!(date(&1_764_081_000.into()), "2025-11-25 14:30 UTC");
        assert_eq!(date(&Value::Null), "unknown");
    }
}
