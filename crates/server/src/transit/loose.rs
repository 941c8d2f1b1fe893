//! Values of a request's fields, converted as loosely as Vault does it: a number may come as a string, and so on. A value
//! is the text of its JSON as it stands in the body.

use super::text::{Raw, Text};
use crate::http::path::parse_bool;
use crate::refusal::Refusal;

type Converted<T> = Result<T, String>;

/// A string. Null is empty; a number is its literal; true and false are 1 and 0.
pub fn string(raw: Raw<'_>) -> Converted<Text<'_>> {
    match raw {
        Raw::String(_) => raw.string().ok_or_else(String::new),
        Raw::Number(literal) => Ok(Text::Plain(literal)),
        Raw::Bool(value) => Ok(Text::Plain(if value { "1" } else { "0" })),
        Raw::Null => Ok(Text::Plain("")),
        Raw::Array(_) | Raw::Object(_) => Err(unconvertible("string", raw)),
    }
}

/// A whole number. Null and the empty string are 0; a string may be in another base, as in Go.
pub fn int(raw: Raw<'_>) -> Converted<i64> {
    match raw {
        Raw::Number(literal) => {
            literal.parse().map_err(|_| format!("cannot parse '' as int: {} is not one", shown(literal)))
        }
        Raw::Bool(value) => Ok(i64::from(value)),
        Raw::Null => Ok(0),
        Raw::String(_) => {
            let text = string(raw)?;
            if text.is_empty() {
                Ok(0)
            } else {
                go_int(&text).ok_or_else(|| format!("cannot parse '' as int: invalid syntax: {}", shown(&text)))
            }
        }
        Raw::Array(_) | Raw::Object(_) => Err(unconvertible("int", raw)),
    }
}

/// Whether something is true. Null and the empty string are false.
pub fn bool(raw: Raw<'_>) -> Converted<bool> {
    match raw {
        Raw::Bool(value) => Ok(value),
        Raw::Null => Ok(false),
        Raw::String(_) | Raw::Number(_) => {
            let text = string(raw)?;
            if text.is_empty() { Ok(false) } else { parse_bool(&text).ok_or_else(|| not_bool(&text)) }
        }
        Raw::Array(_) | Raw::Object(_) => Err(unconvertible("bool", raw)),
    }
}

/// A duration in seconds: a number of seconds, or a text such as `1h30m` or `30d`. The empty string is 0.
pub fn duration(raw: Raw<'_>) -> Converted<u64> {
    let text = string(raw)?;
    if text.is_empty() {
        return Ok(0);
    }
    if text.starts_with('-') {
        return Err(format!("cannot provide negative value '{}'", shown(&text)));
    }
    text.parse()
        .ok()
        .or_else(|| go_duration(&text))
        .ok_or_else(|| format!("time: invalid duration \"{}\"", shown(&text)))
}

/// Texts: an array, or one string with commas.
pub fn list(raw: Raw<'_>) -> Converted<Vec<String>> {
    match raw {
        Raw::Null => Ok(Vec::new()),
        Raw::Array(_) => {
            let values = raw.elements().ok_or_else(|| unconvertible("slice", raw))?;
            values.into_iter().map(|value| Ok(string(value)?.to_owned())).collect()
        }
        Raw::Object(_) => Err(unconvertible("slice", raw)),
        _ => {
            let text = string(raw)?;
            Ok(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
        }
    }
}

/// The refusal of a field that cannot be converted.
pub fn refuse(field: &str, why: &str) -> Refusal {
    Refusal::invalid(format!("Field validation failed: error converting input for field \"{field}\": {why}"))
}

/// A number as Go reads it when its base is open: `255`, `0xff`, `0377`, `0b1`, `1_000`.
fn go_int(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let plain = digits.replace('_', "");
    if plain.is_empty() || plain.starts_with(['+', '-']) || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let sign = if is_negative { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{plain}"), base).ok()
}

/// A duration as Go writes it, in whole seconds, and days by themselves.
fn go_duration(text: &str) -> Option<u64> {
    if let Some(days) = text.strip_suffix('d') {
        return days.parse::<u64>().ok()?.checked_mul(24 * 3600);
    }
    let (mut rest, mut millis) = (text, 0_u64);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
        let (number, behind) = rest.split_at(end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let each = match unit {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "ms" => 1,
            _ => return None,
        };
        millis = millis.checked_add(number.parse::<u64>().ok()?.checked_mul(each)?)?;
        rest = behind;
    }
    Some(millis / 1000)
}

fn not_bool(text: &str) -> String {
    format!("cannot parse '' as bool: strconv.ParseBool: parsing \"{}\": invalid syntax", shown(text))
}

fn unconvertible(wanted: &str, raw: Raw<'_>) -> String {
    format!("'' expected type '{wanted}', got unconvertible type '{}'", raw.go_type())
}

/// The start of a client's text, for its own error.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        let cases = [
            ("256", Some(256)),
            ("\"256\"", Some(256)),
            ("\"0x10\"", Some(16)),
            ("\"010\"", Some(8)),
            ("\"1_0\"", Some(10)),
            ("\"\"", Some(0)),
            ("true", Some(1)),
            ("null", Some(0)),
            ("1.5", None),
            ("1e3", None),
            ("\"a\"", None),
            ("9223372036854775808", None),
            ("[]", None),
            ("\"-3\"", Some(-3)),
            ("\"--3\"", None),
            ("\"0x-3\"", None),
            ("\"_1\"", Some(1)),
            ("\"1_\"", None),
            ("-9223372036854775808", Some(i64::MIN)),
        ];
        for (text, wanted) in cases {
            assert_eq!(int(Raw::of(text)).ok(), wanted, "{text}");
        }
    }

    #[test]
    fn truths_and_durations_are_read_as_vault_reads_them() {
        let truths = [
            ("true", Some(true)),
            ("\"T\"", Some(true)),
            ("0", Some(false)),
            ("2", None),
            ("\"yes\"", None),
            ("\"\"", Some(false)),
            ("null", Some(false)),
        ];
        for (text, wanted) in truths {
            assert_eq!(bool(Raw::of(text)).ok(), wanted, "{text}");
        }
        let times = [
            ("60", Some(60)),
            ("\"60\"", Some(60)),
            ("\"1h30m\"", Some(5400)),
            ("\"30d\"", Some(30 * 86400)),
            ("\"1500ms\"", Some(1)),
            ("\"\"", Some(0)),
            ("\"-1\"", None),
            ("-1", None),
            ("1.5", None),
            ("\"1x\"", None),
            ("\"h\"", None),
            ("\"99999999999999999999d\"", None),
            ("{}", None),
        ];
        for (text, wanted) in times {
            assert_eq!(duration(Raw::of(text)).ok(), wanted, "{text}");
        }
        assert_eq!(list(Raw::of("\"a, b,\"")), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(list(Raw::of("[\"a\",1]")), Ok(vec!["a".into(), "1".into()]));
    }
}
