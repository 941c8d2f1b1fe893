//! What a caller may do: with which keys, and for which user.

use crate::refusal::Refusal;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// Something that a caller does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Seals texts.
    Seal,
    /// Opens ciphertexts.
    Open,
    /// Seals again what is sealed, under the newest version, and sees no text.
    Rewrap,
    /// Makes, changes and deletes the key, and deletes its users.
    Manage,
}

impl Action {
    const ALL: [(Action, &'static str); 4] =
        [(Action::Seal, "seal"), (Action::Open, "open"), (Action::Rewrap, "rewrap"), (Action::Manage, "manage")];

    /// The name in tokens and in the audit log.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(action, _)| *action == self).map_or("", |(_, name)| name)
    }
}

/// One right: `seal:orders`, `open:*` or `admin`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Everything, tokens included.
    Admin,
    /// An action with the keys of a pattern: a name, or the start of names before `*`.
    Key(Action, String),
}

impl Right {
    /// How the names of its keys begin.
    pub fn start(&self) -> Option<&str> {
        match self {
            Right::Admin => None,
            Right::Key(_, pattern) => Some(pattern.strip_suffix('*').unwrap_or(pattern)),
        }
    }

    fn covers(&self, action: Action, key: &str) -> bool {
        match self {
            Right::Admin => true,
            Right::Key(own, pattern) => {
                *own == action
                    && match pattern.strip_suffix('*') {
                        Some(start) => key.starts_with(start),
                        None => key == pattern,
                    }
            }
        }
    }

    /// Whether it gives nothing that the other does not give.
    fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Right::Admin) => true,
            (Right::Admin, Right::Key(..)) => false,
            (Right::Key(action, pattern), Right::Key(of, wider)) => {
                action == of
                    && match wider.strip_suffix('*') {
                        Some(start) => pattern.starts_with(start),
                        None => pattern == wider,
                    }
            }
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Right::Admin => f.write_str("admin"),
            Right::Key(action, pattern) => write!(f, "{}:{pattern}", action.name()),
        }
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The policy of Vault that gives everything.
        if text == "admin" || text == "root" {
            return Ok(Right::Admin);
        }
        // Who has mixed up two arguments would read a token in a message.
        let shown = if text.starts_with(crate::tokens::PREFIX) { "a token" } else { text };
        let rights = "seal:KEY, open:KEY, rewrap:KEY, manage:KEY and admin";
        let wanted = || format!("{shown:?} is not a right: rights are {rights}");
        let (name, pattern) = text.split_once(':').ok_or_else(wanted)?;
        let (action, _) = Action::ALL.iter().find(|(_, known)| *known == name).ok_or_else(wanted)?;
        let start = pattern.strip_suffix('*').unwrap_or(pattern);
        let is_name = start.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if pattern.is_empty() || !is_name {
            return Err(wanted());
        }
        Ok(Right::Key(*action, pattern.to_owned()))
    }
}

/// The rights of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// What the caller may do.
    pub list: Vec<Right>,
    /// The one user for whom the caller may seal, open and rewrap. `None` is every user.
    pub user: Option<Vec<u8>>,
}

/// Why the right to everything is not given for one user: it would be no right to manage anything.
pub const ALL_FOR_ONE: &str = "admin is for all users: leave out admin or user=";

impl Rights {
    /// The right to everything.
    pub fn all() -> Self {
        Self { list: vec![Right::Admin], user: None }
    }

    /// Rights that are given to somebody, from the texts of [`Right`].
    ///
    /// # Errors
    /// A line that names the text that is no right, or that of [`Rights::given`].
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>, user: Option<Vec<u8>>) -> Result<Self, String> {
        Self::given(texts.into_iter().map(str::parse).collect::<Result<_, _>>()?, user)
    }

    /// Rights that are given to somebody, each of them once.
    ///
    /// # Errors
    /// [`ALL_FOR_ONE`].
    pub fn given(mut list: Vec<Right>, user: Option<Vec<u8>>) -> Result<Self, String> {
        let mut seen = HashSet::new();
        list.retain(|right| seen.insert(right.clone()));
        if user.is_some() && list.contains(&Right::Admin) {
            return Err(ALL_FOR_ONE.into());
        }
        Ok(Self { list, user })
    }

    /// Whether the caller may do everything.
    pub fn is_admin(&self) -> bool {
        self.list.contains(&Right::Admin) && self.user.is_none()
    }

    /// Allows an action for a user, or refuses it. Whoever may seal and open may rewrap.
    ///
    /// # Errors
    /// A refusal that does not say whether the key exists.
    pub fn permit(&self, action: Action, key: &str, user: &[u8]) -> Result<(), Refusal> {
        let own_user = self.user.as_deref().is_none_or(|own| own == user);
        let has = |action| self.list.iter().any(|right| right.covers(action, key));
        let may = has(action) || action == Action::Rewrap && has(Action::Seal) && has(Action::Open);
        if may && own_user { Ok(()) } else { Err(Refusal::denied()) }
    }

    /// Allows the management of a key, which is for all users: whoever is bound to one of them may not do it, not even a
    /// caller who is bound to the user without a name.
    ///
    /// # Errors
    /// A refusal that does not say whether the key exists.
    pub fn permit_managing(&self, key: &str) -> Result<(), Refusal> {
        if self.user.is_some() { Err(Refusal::denied()) } else { self.permit(Action::Manage, key, b"") }
    }

    /// Whether the caller has any right on the key.
    pub fn knows(&self, key: &str) -> bool {
        Action::ALL.iter().any(|(action, _)| self.list.iter().any(|right| right.covers(*action, key)))
    }

    /// Whether these rights give nothing that the others do not give.
    pub fn are_within(&self, others: &Self) -> bool {
        let user = others.user.is_none() || self.user == others.user;
        user && self.list.iter().all(|right| others.list.iter().any(|other| right.is_within(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(texts: &[&str], user: Option<&str>) -> Rights {
        Rights::parse(texts.iter().copied(), user.map(|user| user.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn a_right_is_for_an_action_a_key_and_a_user() {
        let own = rights(&["seal:orders", "open:log-*"], None);
        assert!(own.permit(Action::Seal, "orders", b"ada").is_ok());
        assert!(own.permit(Action::Open, "orders", b"ada").is_err());
        assert!(own.permit(Action::Seal, "orders2", b"").is_err());
        assert!(own.permit(Action::Open, "log-7", b"").is_ok());
        assert!(own.permit(Action::Rewrap, "orders", b"").is_err());
        assert!(rights(&["seal:a", "open:*"], None).permit(Action::Rewrap, "a", b"").is_ok());
        assert!(rights(&["rewrap:a"], None).permit(Action::Open, "a", b"").is_err());
        let bound = Rights { list: vec![Right::Admin], user: Some(b"ada".to_vec()) };
        assert!(bound.permit(Action::Open, "a", b"ada").is_ok());
        assert!(bound.permit(Action::Open, "a", b"bob").is_err());
        assert!(!bound.is_admin() && bound.permit_managing("a").is_err() && rights(&["root"], None).is_admin());
        for user in ["ada", ""] {
            let bound = rights(&["manage:a"], Some(user));
            assert!(bound.permit(Action::Manage, "a", user.as_bytes()).is_ok(), "such as to shred oneself");
            assert!(bound.permit_managing("a").is_err());
        }
        assert!(rights(&["manage:a"], None).permit_managing("a").is_ok());
    }

    #[test]
    fn rights_are_given_on_only_within_ones_own() {
        let own = rights(&["seal:log-*", "open:orders"], None);
        assert!(rights(&["seal:log-1", "seal:log-a*"], Some("ada")).are_within(&own));
        assert!(!rights(&["seal:*"], None).are_within(&own));
        assert!(!rights(&["open:orders*"], None).are_within(&own));
        assert!(!rights(&["admin"], None).are_within(&own));
        let bound = rights(&["seal:*"], Some("ada"));
        assert!(!rights(&["seal:a"], None).are_within(&bound) && !rights(&["seal:a"], Some("bob")).are_within(&bound));
        assert!(rights(&["seal:a"], Some("ada")).are_within(&bound));
    }

    #[test]
    fn nobody_may_do_everything_for_one_user() {
        for texts in [&["admin"][..], &["seal:a", "root"]] {
            for user in ["ada", ""] {
                let parsed = Rights::parse(texts.iter().copied(), Some(user.as_bytes().to_vec()));
                assert_eq!(parsed, Err(ALL_FOR_ONE.to_owned()));
            }
            assert!(rights(texts, None).is_admin());
        }
    }

    #[test]
    fn what_is_no_right_is_refused() {
        for text in ["", "seal", "seal:", "sail:a", "seal:a b", "seal:*a*", "seal:../x", "admin:x"] {
            assert!(text.parse::<Right>().is_err(), "{text:?}");
        }
        assert_eq!("open:a*".parse::<Right>().unwrap().to_string(), "open:a*");
    }
}
