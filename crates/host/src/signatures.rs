//! Signatures of protected files and trees, which lie beside them: making them, and checking who has made them.
//! `docs/signatures.md`.

mod single;
mod watch;

pub use single::Single;
pub use watch::Watch;

use crate::age::Terminal;
use crate::failure::{Code, Failure, Outcome};
use crate::file::{
    Existing, Input, InputFile, NewObject, Obstacle, Output, OutputObject, Removal, Url, object_error, stores,
};
use crate::lines::{complain, shown};
use crate::mirror::listing::{Listing, UNKNOWN};
use crate::mirror::manifest::{First, root};
use crate::mirror::root::Root;
use crate::mirror::{MANIFEST, SIGNATURE};
use crate::paths::End;
use crate::secret_files::{check_private, damaged, open, read_whole};
use crate::{Error, Result};
use phalanx_age::signing::{Agent, LONGEST_SIGNATURE, Signature, SigningKey};
use phalanx_core::tree::{Contents, Signed, SignedText};
use phalanx_core::{Error as CoreError, ReadAt};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use zeroize::Zeroizing;

/// The ending of a signature's name.
const ENDING: &str = ".sig";
/// Longer files hold neither a key nor a list of signers.
const LONGEST: usize = 1 << 20;

/// What a run does about signatures.
#[derive(Clone, Debug, Default)]
pub enum Signing {
    /// Nothing.
    #[default]
    No,
    /// It signs what it protects.
    By(Arc<Signer>),
    /// It opens only what one of these has signed.
    Checked(Arc<Signers>),
}

impl Signing {
    /// Who signs, if somebody does.
    #[must_use]
    pub fn signer(&self) -> Option<&Arc<Signer>> {
        if let Signing::By(signer) = self { Some(signer) } else { None }
    }

    /// Which manifest decides about a folder.
    #[must_use]
    pub fn first(&self) -> First {
        if self.signers().is_some() { First::Above } else { First::Own }
    }

    /// Who must have signed, if somebody must.
    #[must_use]
    pub fn signers(&self) -> Option<&Signers> {
        if let Signing::Checked(signers) = self { Some(signers) } else { None }
    }
}

/// Where the signature of a file lies.
#[must_use]
pub fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ENDING);
    name.into()
}

/// What a file is to whoever names it: a manifest is known by its name. A signature of the one is none of the other.
#[must_use]
pub fn kind_of(file: &Path) -> Signed {
    if file.file_name().is_some_and(|name| name == MANIFEST) { Signed::Tree } else { Signed::File }
}

/// Why a file in suite 4 is neither signed nor taken as signed.
pub const NO_COMMITMENT: &str = "the tags of AES-256-GCM do not commit to the content, so no signature of them counts";

/// A key that signs.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    path: PathBuf,
}

impl Signer {
    /// Reads the key in a file: a private key of SSH, for which a passphrase is asked for if it has one, or a public one whose
    /// private half the user's agent holds.
    ///
    /// # Errors
    /// If the file cannot be read, or its key cannot sign.
    pub fn read(path: &Path) -> Outcome<Self> {
        let at = |e: Error| Failure::at(path, e);
        let mut file = open(path).map_err(at)?;
        let text = read(path, &mut file)?;
        if text.starts_with(b"-----BEGIN") {
            check_private(&file, path).map_err(at)?;
        }
        let key = SigningKey::read(&shown(path), &text, &Terminal, Agent::of_environment());
        let key = key.map_err(|e| damaged(path, &e.to_string()))?;
        Ok(Self { key, path: path.to_owned() })
    }

    /// Begins the signature of a file that is about to be written, so that it is known early if it cannot be.
    ///
    /// # Errors
    /// If a signature is there that may not be replaced, or none can be written.
    pub fn begin(&self, file: &End, existing: Existing) -> Outcome<SignatureFile> {
        let (end, file) = (file, file.path());
        if kind_of(file) == Signed::Tree {
            let line = format!(
                "{}: {MANIFEST} is the name of a manifest, which mirror and protect --recursive sign",
                shown(file)
            );
            return Err(Failure::usage(line));
        }
        let path = beside(file);
        let place = match end {
            End::Object(url) => Place::object(url, existing),
            _ => Output::create(&path, existing).map(Place::File),
        };
        Ok(SignatureFile { place: place.map_err(|e| Failure::at_output(&path, e))?, path })
    }

    /// Signs a text. `None` is that of a file in suite 4.
    ///
    /// # Errors
    /// If the key does not sign.
    pub fn sign(&self, file: &Path, text: Option<SignedText>) -> Outcome<Signature> {
        let text = text.ok_or_else(|| Failure::usage(format!("{}: {NO_COMMITMENT}", shown(file))))?;
        self.key.sign(&text.to_string()).map_err(|e| damaged(&self.path, &e.to_string()))
    }

    /// Whether a signature is one of a text by this key.
    pub(crate) fn has_signed(&self, armored: &[u8], text: &SignedText) -> bool {
        Signature::read(armored)
            .is_ok_and(|made| made.key() == self.key.public() && made.check(&text.to_string()).is_ok())
    }
}

/// A signature that is about to be written.
#[derive(Debug)]
pub struct SignatureFile {
    place: Place,
    path: PathBuf,
}

/// Where it is written.
#[derive(Debug)]
enum Place {
    File(Output),
    /// Beside an object in a store.
    Object {
        object: Box<dyn OutputObject>,
        url: Url,
        replaces: bool,
    },
}

impl Place {
    fn object(file: &Url, existing: Existing) -> Result<Self> {
        let url = file.with_ending(ENDING);
        let replaces = matches!(existing, Existing::Replace(_));
        let new = NewObject { replaces, len: Some(LONGEST_SIGNATURE as u64), resume: false };
        let object = stores()?.create(&url, new).map_err(object_error)?;
        Ok(Self::Object { object, url, replaces })
    }

    fn write(&self, armored: &[u8], mode: u32, existing: Existing) -> Result<()> {
        match self {
            Self::File(output) => {
                output.file().write_all(armored).map_err(Error::write)?;
                output.set_mode(mode)?;
                output.clear_name(existing)
            }
            Self::Object { object, url, replaces } => {
                object.write_all_at(armored, 0).map_err(Error::write)?;
                let (Some(name), Some((folder, _)), true) =
                    (url.name(), url.folders_above().into_iter().next(), replaces)
                else {
                    return Ok(());
                };
                let deleted = stores()?.folder(&folder).map_err(Error::write)?.delete(&[name.to_owned()]);
                deleted.into_iter().next().map_or(Ok(()), |(_, e)| Err(Error::write(e)))
            }
        }
    }
}

impl SignatureFile {
    /// Writes it under its temporary name, and removes the signature that it replaces: the file that this one belongs to comes next,
    /// and no run that is killed in between leaves a signature of another one.
    ///
    /// # Errors
    /// If it cannot be written, or the old one not be removed.
    pub fn write(&self, signature: &Signature, mode: u32, existing: Existing) -> Outcome {
        let written = self.place.write(signature.armored().as_bytes(), mode, existing);
        written.map_err(|e| Failure::at(&self.path, e))
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// Those of [`Output::commit`].
    pub fn commit(self, existing: Existing, sync: bool) -> Outcome {
        let Self { place, path } = self;
        let committed = match place {
            Place::File(output) => output.commit(existing, sync).map(drop),
            Place::Object { object, .. } => object.commit().map_err(object_error),
        };
        committed.map_err(|e| Failure::at(&path, e))
    }
}

/// Those whose signatures count.
#[derive(Debug)]
pub struct Signers {
    signers: phalanx_age::signing::Signers,
    path: PathBuf,
}

/// A signature by somebody whose signatures count. Of what it is one is not known yet.
#[derive(Debug)]
pub struct Claim {
    signature: Signature,
    name: String,
    file: PathBuf,
}

impl Signers {
    /// Reads a file of signers as `ssh-keygen` has it, and the keys that do not count any more.
    ///
    /// # Errors
    /// If a file cannot be read, or is none of that form.
    pub fn read(path: &Path, revoked: Option<&Path>) -> Outcome<Self> {
        let list = read(path, &mut open(path).map_err(|e| Failure::at(path, e))?)?;
        let text = str::from_utf8(&list).map_err(|_| damaged(path, "a file of signers is text, and this is not"))?;
        let listing = phalanx_age::signing::Signers::parse(text).map_err(|e| damaged(path, &e.to_string()))?;
        for (line, why) in listing.skipped {
            complain(format!("warning: {}: line {line}: {why}: left out", shown(path)));
        }
        let mut signers = listing.signers;
        if let Some(path) = revoked {
            let list = read(path, &mut open(path).map_err(|e| Failure::at(path, e))?)?;
            signers.revoke(&list).map_err(|e| damaged(path, &e.to_string()))?;
        }
        Ok(Self { signers, path: path.to_owned() })
    }

    /// The signature of a file, if it is one that counts.
    ///
    /// # Errors
    /// If there is none, or it is by nobody whose signatures count.
    pub fn claim(&self, file: &Path) -> Outcome<Claim> {
        let path = beside(file);
        self.claim_of(file, &path, armored(&path))
    }

    /// The signature of a mirror's manifest, if it is one that counts.
    ///
    /// # Errors
    /// As for [`Signers::claim`].
    pub fn claim_of_tree(&self, mirror: &Path) -> Outcome<Claim> {
        self.claim_in(&root(mirror)?, mirror)
    }

    /// As [`Signers::claim_of_tree`], in a mirror whose root is open.
    ///
    /// # Errors
    /// As for [`Signers::claim`].
    pub(crate) fn claim_in(&self, root: &Root, mirror: &Path) -> Outcome<Claim> {
        self.claim_of(&mirror.join(MANIFEST), &mirror.join(SIGNATURE), armored_in(root))
    }

    fn claim_of(&self, file: &Path, path: &Path, found: Result<Vec<u8>>) -> Outcome<Claim> {
        let refused = |line: String| Failure::new(Code::NotAuthentic, line).on(file);
        let armored = match found {
            Err(Error::Core(CoreError::Read(e))) if e.kind() == io::ErrorKind::NotFound => {
                return Err(refused(format!("{}: it is not signed: there is no {}", shown(file), shown(path))));
            }
            // Its own hint is for files that are protected.
            Err(Error::Core(CoreError::Read(e))) if Obstacle::of(&e).is_some() => {
                return Err(Failure::new(Code::InputOutput, format!("{}: {e}", shown(path))).on(path));
            }
            found => found.map_err(|e| Failure::at(path, e))?,
        };
        let signature = Signature::read(&armored).map_err(|e| refused(format!("{}: {e}", shown(path))))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        let name = self.signers.name(signature.key(), signature.was_touched(), now).map_err(|why| {
            let key = signature.key().fingerprint();
            refused(format!("{}: signed by {key}, and not allowed by {}: {why}", shown(file), shown(&self.path)))
        })?;
        let name = name.to_owned();
        Ok(Claim { signature, name, file: file.to_owned() })
    }

    /// Checks that a manifest's signature counts and is one of the manifest. Returns whose it is.
    ///
    /// # Errors
    /// If it is not, or files of the mirror are in suite 4.
    pub fn check_tree(&self, mirror: &Path, text: Option<SignedText>, listing: &Listing) -> Outcome<String> {
        let claim = self.claim_of_tree(mirror)?;
        claim.check(text)?;
        match of_gcm(listing) {
            0 => Ok(claim.name),
            files => {
                let line = format!("{}: {files} of its files cannot be signed for: {NO_COMMITMENT}", shown(mirror));
                Err(Failure::new(Code::NotAuthentic, line).on(mirror))
            }
        }
    }
}

impl Claim {
    /// Whose it is, as the file of signers says it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that it is one of this text. `None` is that of a file in suite 4.
    ///
    /// # Errors
    /// If it is one of something else.
    pub fn check(&self, text: Option<SignedText>) -> Outcome {
        let refused =
            |why: &str| Failure::new(Code::NotAuthentic, format!("{}: {why}", shown(&self.file))).on(&self.file);
        let text = text.ok_or_else(|| refused(NO_COMMITMENT))?;
        self.signature.check(&text.to_string()).map_err(|_| {
            let why = format!(
                "what {} has signed is something else: it was altered, or is older, newer or another file",
                self.name
            );
            refused(&why)
        })
    }
}

/// How many files of a mirror are in suite 4. A file that could not be written has no contents, and is not listed.
#[must_use]
pub fn of_gcm(listing: &Listing) -> usize {
    let is_of_gcm = |contents: &Contents| *contents != UNKNOWN && contents.last.is_of_gcm();
    listing.all().filter(|id| listing.file(*id).is_some_and(|file| is_of_gcm(&file.contents))).count()
}

/// The refusal to sign a mirror with files in suite 4.
pub(crate) fn refuse_gcm(mirror: &Path, listing: &Listing) -> Outcome {
    match of_gcm(listing) {
        0 => Ok(()),
        files => {
            let line = format!("{}: not signed, for {files} of its files: {NO_COMMITMENT}", shown(mirror));
            Err(Failure::usage(line).hint("rekey --fresh does not change the cipher: protect them again"))
        }
    }
}

/// The bytes of a signature, which may lie in a store.
fn armored(path: &Path) -> Result<Vec<u8>> {
    match End::from(path.to_owned()) {
        End::Object(url) => Input::open_object(&url).and_then(|input| bytes_of(&*input.read_at()?)),
        _ => Input::open(path).and_then(|input| bytes_of(&*input.read_at()?)),
    }
}

/// The bytes of the signature of a mirror's manifest.
pub(crate) fn armored_in(mirror: &Root) -> Result<Vec<u8>> {
    match mirror {
        Root::Folder(folder) => {
            InputFile::open_in(folder.clone(), OsStr::new(SIGNATURE)).and_then(|found| bytes_of(found.file()))
        }
        Root::Objects(objects) => objects.open(SIGNATURE).map_err(Error::read).and_then(|object| bytes_of(&object)),
    }
}

/// The removal of a protected file, and of the signature that lies beside it. What has that name and is no signature stays.
#[must_use]
pub fn removal(input: &Input) -> Option<Removal> {
    let Input::File(file) = input else { return None };
    let (folder, name) = file.entry()?;
    let found = InputFile::open_in(folder.clone(), beside(Path::new(name)).as_os_str());
    let is_signature = |found: &InputFile| bytes_of(found.file()).is_ok_and(|bytes| Signature::read(&bytes).is_ok());
    let signature = found.ok().filter(is_signature).and_then(|found| found.removal());
    Some(file.removal()?.with_signature(signature))
}

/// All bytes of something that is not long. What is longer than a signature is cut off, so that it is none.
fn bytes_of(stored: &(impl ReadAt + ?Sized)) -> Result<Vec<u8>> {
    let mut bytes = vec![0; LONGEST_SIGNATURE + 1];
    let mut len = 0;
    while len < bytes.len() {
        match stored.read_at(&mut bytes[len..], len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::read(e)),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// The bytes of a whole file that is not too long.
fn read(path: &Path, file: &mut File) -> Outcome<Zeroizing<Vec<u8>>> {
    read_whole(path, file, LONGEST)?.ok_or_else(|| damaged(path, "it is too long for a file of keys"))
}
