//! Numbers and texts in the form in which the page has them.

/// Escapes a text for an element or an attribute. Texts of rows can contain anything.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A name that is safe as an `id`.
pub fn id(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().take(120).map(allowed).collect()
}

/// The number with three significant digits.
pub fn digits(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        n if n >= 1.0 => format!("{number:.2}"),
        n if n >= 0.1 => format!("{number:.3}"),
        n if n >= 0.01 => format!("{number:.4}"),
        0.0 => "0".into(),
        _ => format!("{number:.2e}"),
    }
}

/// A part of 1 in percent.
pub fn percent(part: f64) -> String {
    format!("{} %", digits(part * 100.0))
}

/// The pattern with its gaps in braces filled. `None` if one is not known.
pub fn filled(pattern: &str, mut gap: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let mut parts = pattern.split('{');
    let mut text = parts.next()?.to_owned();
    for (name, rest) in parts.map(|part| part.split_once('}').expect("a gap has an end")) {
        text += &gap(name)?;
        text += rest;
    }
    Some(text)
}

/// Each item once, in the order in which they come.
pub fn unique<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_rows_stays_text() {
        assert_eq!(escaped(r#"<b a="1">&"#), "&lt;b a=&quot;1&quot;&gt;&amp;");
        assert_eq!(id("Fig. 5.12 <x>"), "fig--5-12--x-");
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [(123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.1234, "0.123"), (0.01234, "0.0123")];
        for (number, text) in cases {
            assert_eq!(digits(number), text);
        }
        assert_eq!(digits(0.0), "0");
        assert_eq!(digits(0.000123), "1.23e-4");
    }
}
