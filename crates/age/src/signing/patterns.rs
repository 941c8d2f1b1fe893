//! Lists of patterns, as OpenSSH has them: `*` and `?` are wildcards, `!` excludes, and commas separate.

/// Whether a list of patterns matches a word. A pattern that excludes it outweighs all others.
pub fn list_matches(list: &str, word: &str) -> bool {
    let mut found = false;
    for pattern in list.split(',') {
        match pattern.strip_prefix('!') {
            Some(excluded) if matches(excluded.as_bytes(), word.as_bytes()) => return false,
            Some(_) => {}
            None => found |= matches(pattern.as_bytes(), word.as_bytes()),
        }
    }
    found
}

/// Whether one pattern matches. It goes back at most once for each byte of the word, so no pattern takes long.
fn matches(pattern: &[u8], word: &[u8]) -> bool {
    let (mut at, mut from, mut back) = (0, 0, None);
    while from < word.len() {
        match pattern.get(at) {
            Some(b'*') => {
                back = Some((at + 1, from));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || *wanted == word[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((star, taken)) = back else { return false };
                back = Some((star, taken + 1));
                (at, from) = (star, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_openssh() {
        for (list, is_matched) in [
            ("phalanx", true),
            ("phalan", false),
            ("phalanxx", false),
            ("", false),
            ("*", true),
            ("ph*x", true),
            ("*a*a*", true),
            ("*a*a*a*", false),
            ("phala???", false),
            ("phala??", true),
            ("git,file", false),
            ("git,phalanx", true),
            ("*,!phalanx", false),
            ("!phalanx,*", false),
            ("!git", false),
            ("!git,*", true),
        ] {
            assert_eq!(list_matches(list, "phalanx"), is_matched, "{list}");
        }
        assert!(!matches(&b"*a".repeat(2000), &b"a".repeat(1999)));
        assert!(matches(b"**", b"") && !matches(b"?", b""));
    }
}
