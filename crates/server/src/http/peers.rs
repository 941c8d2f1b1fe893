//! Rights without a token: those of users of this machine, and of owners of certificates.

use super::Peer;
use crate::rights::Rights;
use std::collections::HashMap;
use std::sync::Arc;

/// A rule of the command line: `1000=seal:orders,open:orders,user=SUB`, or `cert:FINGERPRINT=…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRights {
    who: Who,
    rights: Rights,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    User(u32),
    Certificate(String),
}

impl PeerRights {
    /// Reads a rule.
    ///
    /// # Errors
    /// A line that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = "it is not UID=RIGHTS or cert:FINGERPRINT=RIGHTS, such as 1000=seal:orders,open:orders";
        let (who, rights) = match text.strip_prefix("cert:") {
            Some(text) => {
                let (fingerprint, rights) = without_heading(text).split_once('=').ok_or(wanted)?;
                let unfit = "a fingerprint is 64 hexadecimal digits, as openssl x509 -fingerprint -sha256 prints it";
                (Who::Certificate(fingerprint_of(fingerprint).ok_or(unfit)?), rights)
            }
            None => {
                let (uid, rights) = text.split_once('=').ok_or(wanted)?;
                (Who::User(uid.parse().map_err(|_| wanted)?), rights)
            }
        };
        // The name of a user may have commas in it, so it is the rest of the text.
        let (rights, user) = match rights.split_once("user=") {
            Some((rights, user)) => (rights, Some(user.as_bytes().to_vec())),
            None => (rights, None),
        };
        if user.as_ref().is_some_and(Vec::is_empty) {
            return Err("user= needs a name".into());
        }
        let texts: Vec<&str> = rights.split(',').filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            return Err("it gives no rights".into());
        }
        Ok(Self { who, rights: Rights::parse(texts, user)? })
    }

    /// Whether it is about a certificate.
    pub fn is_of_certificate(&self) -> bool {
        matches!(self.who, Who::Certificate(_))
    }
}

/// A text without the words that openssl prints before a fingerprint. Not all of its versions write them alike.
fn without_heading(text: &str) -> &str {
    const HEADING: &str = "sha256 Fingerprint=";
    match text.split_at_checked(HEADING.len()) {
        Some((heading, rest)) if heading.eq_ignore_ascii_case(HEADING) => rest,
        _ => text,
    }
}

/// A fingerprint in small letters and without colons.
fn fingerprint_of(text: &str) -> Option<String> {
    let hex: String = text.chars().filter(|c| *c != ':').map(|c| c.to_ascii_lowercase()).collect();
    (hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())).then_some(hex)
}

/// All rules.
#[derive(Debug, Default)]
pub struct Peers(HashMap<Who, Arc<Rights>>);

impl Peers {
    /// The rules of the command line. Of several for the same, the last one counts.
    pub fn new(rules: Vec<PeerRights>) -> Self {
        Self(rules.into_iter().map(|rule| (rule.who, Arc::new(rule.rights))).collect())
    }

    /// What somebody may do without a token, and under which name.
    pub fn find(&self, peer: &Peer) -> Option<(String, Arc<Rights>)> {
        match peer {
            Peer::User(uid) if is_own(*uid) => Some((format!("uid:{uid}"), Arc::new(Rights::all()))),
            Peer::User(uid) => {
                let rights = self.0.get(&Who::User(*uid))?;
                Some((format!("uid:{uid}"), rights.clone()))
            }
            Peer::Address { certificate, .. } => {
                let fingerprint = certificate.as_ref()?;
                let rights = self.0.get(&Who::Certificate(fingerprint.clone()))?;
                Some((format!("cert:{fingerprint}"), rights.clone()))
            }
        }
    }
}

/// Whether a user is the server's own, or root, who both have all rights.
pub fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let rule = PeerRights::parse("1000=seal:orders,open:orders,user=a,b=c").unwrap();
        assert_eq!(rule.who, Who::User(1000));
        assert_eq!(rule.rights, Rights::parse(["seal:orders", "open:orders"], Some(b"a,b=c".to_vec())).unwrap());
        let fingerprint = "AB".repeat(32);
        let printed = vec!["AB"; 32].join(":");
        for fingerprint in [
            fingerprint,
            printed.clone(),
            format!("sha256 Fingerprint={printed}"),
            format!("SHA256 Fingerprint={printed}"),
        ] {
            let rule = PeerRights::parse(&format!("cert:{fingerprint}=seal:a,user=b=c")).unwrap();
            assert_eq!(rule.who, Who::Certificate("ab".repeat(32)));
            assert_eq!(rule.rights, Rights::parse(["seal:a"], Some(b"b=c".to_vec())).unwrap());
            assert!(rule.is_of_certificate());
        }
        for text in [
            "",
            "1000",
            "1000=",
            "1000=,",
            "1000=sail:x",
            "bob=admin",
            "1000=admin,user=",
            "1000=admin,user=ada",
            "1000=seal:a,root,user=ada",
            &format!("cert:{printed}=admin,user=ada"),
            "cert:ab=admin",
            "-1=admin",
            &format!("cert:sha256 Fingerprint={printed}"),
            &format!("cert:sha1 Fingerprint={printed}=admin"),
            &format!("sha256 Fingerprint={printed}=admin"),
            "cert:sha256 Fingerprint\u{e9}=admin",
        ] {
            assert!(PeerRights::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_those_named_have_rights() {
        let peers = Peers::new(vec![PeerRights::parse("123456=seal:a").unwrap()]);
        assert!(peers.find(&Peer::User(0)).unwrap().1.is_admin());
        assert!(!peers.find(&Peer::User(123_456)).unwrap().1.is_admin());
        assert!(peers.find(&Peer::User(123_457)).is_none());
        let address = "127.0.0.1:1".parse().unwrap();
        assert!(peers.find(&Peer::Address { address, certificate: None }).is_none());
        assert!(peers.find(&Peer::Address { address, certificate: Some("ab".repeat(32)) }).is_none());
    }
}
