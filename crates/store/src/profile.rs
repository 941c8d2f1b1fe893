//! The files in which the AWS tools keep credentials, regions and addresses: `~/.aws/config` and `~/.aws/credentials`.

use crate::environment::Environment;
use crate::error::refusal;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fs, io};

/// What a profile says.
#[derive(Default)]
pub struct Profile {
    /// The region.
    pub region: Option<String>,
    /// The address of the server.
    pub endpoint_url: Option<String>,
    /// The credentials.
    pub credentials: Option<Credentials>,
}

/// Credentials. They are never shown.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Credentials {
    /// The id of the key.
    pub access_key_id: String,
    /// The key.
    pub secret_access_key: String,
    /// The token of a session.
    pub session_token: Option<String>,
}

type Section = HashMap<String, String>;

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, or the default one. `with_credentials` asks for credentials too, which
    /// may run the program that the profile names.
    ///
    /// # Errors
    /// If there is no profile of that name, or if its credentials are of a kind that only the AWS tools can get.
    pub fn read(environment: &Environment, with_credentials: bool) -> io::Result<Self> {
        let named = environment.text("AWS_PROFILE").or_else(|| environment.text("AWS_DEFAULT_PROFILE"));
        let name = named.as_deref().unwrap_or("default");
        let mut section = Section::new();
        let mut is_known = named.is_none();
        for (variable, file, prefix) in
            [("AWS_CONFIG_FILE", "config", "profile "), ("AWS_SHARED_CREDENTIALS_FILE", "credentials", "")]
        {
            let path = path(environment, variable, file);
            let Some(text) = path.and_then(|path| fs::read_to_string(path).ok()) else { continue };
            if let Some(found) = sections(&text, prefix).remove(name) {
                section.extend(found);
                is_known = true;
            }
        }
        if !is_known {
            return Err(refusal(format!("there is no AWS profile {name}")));
        }
        let credentials = if with_credentials { credentials(environment, &section, name)? } else { None };
        let mut take = |key: &str| section.remove(key).filter(|value| !value.is_empty());
        Ok(Self { region: take("region"), endpoint_url: take("endpoint_url"), credentials })
    }
}

fn path(environment: &Environment, variable: &str, file: &str) -> Option<PathBuf> {
    let named = environment.get(variable).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(environment.get("HOME")?).join(".aws").join(file)))
}

/// The sections of a file. Those of `config` have a prefix, except the default one. Indented lines belong to the line
/// before them, and none of those is needed here.
fn sections(text: &str, prefix: &str) -> HashMap<String, Section> {
    let mut sections: HashMap<String, Section> = HashMap::new();
    let mut name = None;
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t', '#', ';'])) {
        if let Some(header) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let header = header.trim();
            name = match header.strip_prefix(prefix) {
                Some(rest) => Some(rest.trim().to_owned()),
                None if header == "default" => Some(header.to_owned()),
                None => None,
            };
        } else if let (Some(name), Some((key, value))) = (&name, line.split_once('=')) {
            sections.entry(name.clone()).or_default().insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    sections
}

/// The credentials of a profile: those that stand there, or those that its program prints.
fn credentials(environment: &Environment, section: &Section, name: &str) -> io::Result<Option<Credentials>> {
    const OF_TOOLS: [&str; 5] = ["role_arn", "sso_session", "sso_start_url", "credential_source", "login_session"];
    if OF_TOOLS.iter().any(|key| section.contains_key(*key)) {
        let ask = format!("eval \"$(aws configure export-credentials --profile {name} --format env)\"");
        return Err(refusal(format!("the AWS profile {name} needs the AWS tools; first run: {ask}")));
    }
    if let (Some(id), Some(key)) = (section.get("aws_access_key_id"), section.get("aws_secret_access_key")) {
        let session_token = section.get("aws_session_token").cloned();
        return Ok(Some(Credentials { access_key_id: id.clone(), secret_access_key: key.clone(), session_token }));
    }
    if let Some(command) = section.get("credential_process") {
        return printed_by(environment, command).map(Some);
    }
    Ok(None)
}

/// The credentials that a program prints, as the AWS tools describe it for `credential_process`.
fn printed_by(environment: &Environment, command: &str) -> io::Result<Credentials> {
    let mut shell = Command::new("sh");
    shell.env_clear().envs(environment.all());
    shell.arg("-c").arg(command).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = shell.output().map_err(|e| refusal(format!("credential_process of the AWS profile: {e}")))?;
    let printed: Option<Credentials> = serde_json::from_slice(&output.stdout).ok();
    let printed = printed.filter(|_| output.status.success());
    printed.ok_or_else(|| refusal("credential_process of the AWS profile gave no credentials"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found() {
        let config = "[default]\nregion = eu-north-1\ns3 =\n  region = no\n# x = y\n[profile work]\nendpoint_url=https://h\n\
                      [sso-session s]\nregion = no\n";
        let found = sections(config, "profile ");
        assert_eq!(found["default"]["region"], "eu-north-1");
        assert_eq!(found["work"]["endpoint_url"], "https://h");
        assert_eq!(found.len(), 2);
        let found = sections("[work]\naws_access_key_id = a\nAWS_SECRET_ACCESS_KEY = b=c\n", "");
        assert_eq!(found["work"]["aws_secret_access_key"], "b=c");
    }

    #[test]
    fn credentials_stand_there_or_are_printed() {
        let section = |pairs: &[(&str, &str)]| -> Section {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let environment = Environment::now();
        let credentials = |section: &Section, name: &str| super::credentials(&environment, section, name);
        let found = credentials(&section(&[("aws_access_key_id", "a"), ("aws_secret_access_key", "b")]), "x");
        assert_eq!(found.unwrap().unwrap().secret_access_key, "b");
        let json = r#"{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b","SessionToken":"c"}"#;
        let found = credentials(&section(&[("credential_process", &format!("echo '{json}'"))]), "x");
        assert_eq!(found.unwrap().unwrap().session_token.as_deref(), Some("c"));
        for bad in ["false", "echo {}", "exit 1"] {
            assert!(credentials(&section(&[("credential_process", bad)]), "x").is_err(), "{bad}");
        }
        let why = credentials(&section(&[("role_arn", "arn:x")]), "x").err().unwrap().to_string();
        assert!(why.contains("export-credentials --profile x"), "{why}");
        assert!(credentials(&section(&[]), "x").unwrap().is_none());
    }
}
