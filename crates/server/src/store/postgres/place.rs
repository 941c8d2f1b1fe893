//! Where the database is, and how it is spoken to.

use super::tls::Tls;
use crate::store::{Error, Result};
use std::ffi::OsString;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Where Debian's PostgreSQL listens.
const SOCKETS: &str = "/var/run/postgresql";

/// The longest that connecting to a host may take.
const CONNECTING: Duration = Duration::from_secs(3);
/// So long nothing may be acknowledged by the other machine.
const SILENCE: Duration = Duration::from_secs(8);

/// Where the database is.
#[derive(Clone)]
pub struct Place {
    config: Config,
    tls: Option<Tls>,
}

impl Place {
    /// Reads a URL such as `postgresql://user@host/database?sslrootcert=/etc/ssl/ca.pem`.
    ///
    /// The password is that of PGPASSWORD or of the password file. TLS is spoken if `sslrootcert` says who signs the
    /// certificate of the server, and other machines are spoken to only so.
    ///
    /// # Errors
    /// If it is no such URL, has a password in it, or would go to another machine without TLS.
    pub fn parse(url: &str) -> Result<Self> {
        let refuse = |text: &str| Err(Error::Failed(text.into()));
        if !url.starts_with("postgresql://") && !url.starts_with("postgres://") {
            return refuse("the store is a URL such as postgresql://user@host/database");
        }
        let (url, own) = split(url)?;
        // The error would show the URL.
        let mut config: Config =
            url.parse().map_err(|_| Error::Failed("the URL of the store cannot be read".into()))?;
        if config.get_password().is_some() {
            return refuse(
                "the URL of the store has a password in it: PGPASSWORD or a file that PGPASSFILE names may have it",
            );
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host_path(SOCKETS);
        }
        if own.roots.is_none() && (!own.may_be_plain || !is_near(&config)) {
            return refuse(
                "other machines are spoken to with TLS only: sslrootcert=FILE in the URL says who signs the server's certificate",
            );
        }
        let tls = own.roots.map(|path| Tls::new(&path)).transpose()?;
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        config.application_name("phalanx-server").connect_timeout(CONNECTING).tcp_user_timeout(SILENCE);
        config.keepalives_idle(SILENCE).keepalives_interval(SILENCE / 4).keepalives_retries(3);
        if let Some(password) = password(&config) {
            config.password(password);
        }
        Ok(Self { config, tls })
    }

    /// How to connect.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// TLS, if it is to be spoken.
    pub fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }
}

/// What the library does not know of a URL.
struct Own {
    roots: Option<PathBuf>,
    may_be_plain: bool,
}

/// Takes out of a URL what the library does not know.
fn split(url: &str) -> Result<(String, Own)> {
    let mut own = Own { roots: None, may_be_plain: true };
    let Some((start, query)) = url.split_once('?') else { return Ok((url.to_owned(), own)) };
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslrootcert", path)) if !path.is_empty() && !path.contains('%') => own.roots = Some(path.into()),
            Some(("sslrootcert", _)) => {
                return Err(Error::Failed("sslrootcert is the path of a file, without %".into()));
            }
            Some(("sslmode", "verify-full")) => own.may_be_plain = false,
            Some(("sslmode", "disable")) => {}
            Some(("sslmode", _)) => {
                return Err(Error::Failed("sslmode is verify-full, or disable on this machine".into()));
            }
            _ => others.push(pair),
        }
    }
    Ok((format!("{start}?{}", others.join("&")), own))
}

/// Whether all hosts are this machine.
fn is_near(config: &Config) -> bool {
    let is_own = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
    };
    // An address decides where it goes, whatever the host is called.
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(is_own),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

/// The password of PGPASSWORD, or of the password file.
fn password(config: &Config) -> Option<String> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(password) = named("PGPASSWORD").and_then(|password| password.into_string().ok()) {
        return Some(password);
    }
    let home = || Some(PathBuf::from(named("HOME")?).join(".pgpass"));
    let path = named("PGPASSFILE").map(|path: OsString| PathBuf::from(path)).or_else(home)?;
    // As PostgreSQL's own programs, this one does not use a file that others may read.
    let is_private = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o077 == 0);
    let text = if is_private { fs::read_to_string(&path).ok()? } else { return None };
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".into(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().map(str::to_owned).or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    let database = config.get_dbname().unwrap_or(&user);
    text.lines().find_map(|line| password_in(line, [&host, &port, database, &user]))
}

/// The password of a line `host:port:database:user:password` for these names. `*` is any, and `\` stands before a colon
/// or another `\`.
fn password_in(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => fields.last_mut()?.extend(letters.next()),
            ':' if fields.len() < 5 => fields.push(String::new()),
            _ => fields.last_mut()?.push(letter),
        }
    }
    let [names @ .., password] = fields.as_slice() else { return None };
    let fits = |(name, wanted): (&String, &str)| name == "*" || name == wanted;
    (names.len() == 4 && names.iter().zip(wanted).all(fits)).then(|| password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Place::parse(url).err().unwrap_or_else(|| panic!("{url}")).to_string()
    }

    #[test]
    fn only_this_machine_is_spoken_to_without_tls() {
        for url in [
            "postgresql:///phalanx",
            "postgresql://phalanx@localhost/phalanx",
            "postgresql://[::1]:5433/phalanx?sslmode=disable",
            "postgresql://%2Frun%2Fpostgresql/phalanx",
            "postgres:///phalanx?host=/run/postgresql&port=5433",
        ] {
            assert!(Place::parse(url).is_ok(), "{url}: {}", refused(url));
        }
        for url in [
            "postgresql://db.example/phalanx",
            "postgresql://db.example/phalanx?sslmode=disable",
            "postgresql://127.0.0.1,db.example/phalanx",
            "postgresql://localhost/phalanx?hostaddr=192.0.2.1",
            "postgresql://localhost/phalanx?sslmode=verify-full",
        ] {
            assert!(refused(url).contains("with TLS only"), "{}", refused(url));
        }
        assert!(refused("postgresql://db.example/x?sslmode=require").contains("sslmode is verify-full"));
        assert!(refused("postgresql://db.example/x?sslrootcert=/absent").contains("/absent"));
    }

    #[test]
    fn passwords_are_not_in_urls() {
        for url in ["postgresql://a:secret@localhost/x", "postgresql:///x?password=secret"] {
            let refused = refused(url);
            assert!(refused.contains("has a password in it") && !refused.contains("secret"), "{refused}");
        }
        let refused = refused("postgresql://a:secret@localhost:port/x");
        assert!(refused.contains("cannot be read") && !refused.contains("secret"), "{refused}");
    }

    #[test]
    fn password_files_are_read_as_by_psql() {
        let of = |line| password_in(line, ["localhost", "5432", "db", "me"]);
        assert_eq!(of("localhost:5432:db:me:secret"), Some("secret".into()));
        assert_eq!(of(r"*:*:*:me:a\:b\\:c"), Some(r"a:b\:c".into()));
        for line in ["", "#*:*:*:*:x", "other:*:*:*:x", "*:*:*:me", "*:*:db:you:x"] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
