//! `encrypt`, `decrypt` and `rewrap`: one text, or a batch of them.

use super::base64;
use super::envelope::{Mount, Writer};
use super::json::{self, Fields, Item};
use super::request;
use super::text::{Raw, Text};
use crate::audit::Names;
use crate::batch::{Batch, New, not_authentic};
use crate::http::Call;
use crate::http::body::{Body, Room, Whole};
use crate::in_flight::Share;
use crate::keys::{Key, ciphertext};
use crate::limits::Limits;
use crate::refusal::{Kind, Refusal};
use crate::rights::{Action, Rights};
use crate::server::Server;
use hyper::Response;
use phalanx_core::engine::Op;
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

/// So much memory an item takes beside its texts: its places in the batch and in the answer, and its context.
const ITEM: usize = 640;

/// Memory is reserved for so many items at a time.
const TOGETHER: usize = 128;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    Encrypt,
    Decrypt,
    Rewrap,
}

use Kinds::{Decrypt, Encrypt, Rewrap};

impl Kinds {
    pub fn action(self) -> Action {
        match self {
            Encrypt => Action::Seal,
            Decrypt => Action::Open,
            Rewrap => Action::Rewrap,
        }
    }

    fn op(self) -> Op {
        if self == Encrypt { Op::Seal } else { Op::Open }
    }

    /// The field that has the text.
    fn field(self) -> &'static str {
        if self == Encrypt { "plaintext" } else { "ciphertext" }
    }

    fn known(self) -> &'static [&'static str] {
        match self {
            Encrypt => &[
                "plaintext",
                "context",
                "associated_data",
                "key_version",
                "nonce",
                "padding_scheme",
                "type",
                "convergent_encryption",
                "partial_failure_response_code",
            ],
            Decrypt => &[
                "ciphertext",
                "context",
                "associated_data",
                "nonce",
                "padding_scheme",
                "partial_failure_response_code",
            ],
            Rewrap => &[
                "ciphertext",
                "context",
                "associated_data",
                "key_version",
                "nonce",
                "encrypt_padding_scheme",
                "decrypt_padding_scheme",
            ],
        }
    }
}

/// Answers a request for the key of this name.
///
/// # Errors
/// Why it is refused.
pub async fn answer(call: &mut Call, kind: Kinds, name: &str) -> Result<Response<Body>, Refusal> {
    super::permit_any_user(call, kind.action(), name)?;
    let server = call.server.clone();
    let mut body = request::whole(call, server.limits.json_bytes).await?;
    let key = match server.find_key(name).await {
        Ok(key) => key,
        Err(refusal) if kind == Encrypt && refusal.kind == Kind::NotFound => {
            super::keys::create_to_encrypt(&server, &call.caller, name, &body.bytes).await?
        }
        Err(refusal) => return Err(super::or_no_key(refusal)),
    };
    let room = std::mem::take(&mut body.room);
    let (rights, share) = (call.caller.rights.clone(), call.share.clone());
    let job = Job { kind, key, rights, server, id: call.id.clone(), share, room };
    let filled = request::off_thread(body.bytes.len(), move || fill(job, body)).await??;
    call.note.users = filled.users;
    call.note.items = filled.batch.len() as u64;
    call.note.bytes = filled.bytes as u64;
    let batch = run(&call.server, kind, filled.batch).await?;
    call.note.refused = batch.refused() as u64;
    let asked = filled.asked;
    request::off_thread(batch.bytes(), move || write(&batch, asked)).await?
}

async fn run(server: &Server, kind: Kinds, batch: Batch) -> Result<Batch, Refusal> {
    if kind == Rewrap { server.rewrap(batch).await } else { server.run(batch).await }
}

/// A request, when its texts are in the batch.
struct Filled {
    batch: Batch,
    /// Whose texts they are, for the audit log.
    users: Names,
    /// The bytes of the texts or ciphertexts.
    bytes: usize,
    asked: Asked,
}

/// What the answer needs of a request.
struct Asked {
    job: Job,
    body: Whole,
    /// Where the `reference` of each item stands in the body, as JSON. `None` if it is no batch.
    references: Option<Vec<Range<usize>>>,
    /// The status of a batch that fails in part.
    partial: Option<u16>,
    warnings: Vec<String>,
}

/// What is to be done.
struct Job {
    kind: Kinds,
    key: Arc<Key>,
    rights: Arc<Rights>,
    server: Arc<Server>,
    id: String,
    /// What the caller may have in flight.
    share: Share,
    /// What this request has of it.
    room: Room,
}

impl Job {
    /// Takes a share for more items: many short ones take far more memory than their texts.
    fn reserve_items(&mut self) -> Result<(), Refusal> {
        self.room.more(&self.share, TOGETHER * ITEM)
    }
}

/// Parses a body and decodes its texts.
fn fill(mut job: Job, body: Whole) -> Result<Filled, Refusal> {
    let server = job.server.clone();
    let limits = &server.limits;
    let (key, rights) = (job.key.clone(), job.rights.clone());
    let mut filler = Filler {
        kind: job.kind,
        key: &key,
        rights: &rights,
        limits,
        batch: Batch::new(job.kind.op(), body.bytes.len()),
        user: Zeroizing::default(),
        ad: Zeroizing::default(),
        users: server.audit.names_users().then(Names::default),
        bytes: 0,
    };
    let mut references = Vec::new();
    let start = body.bytes.as_ptr().addr();
    let fields = json::read_batch(&body.bytes, job.kind.known(), limits.json_items, |item| {
        if item.number % TOGETHER == 0 {
            job.reserve_items()?;
        }
        references.push(reference(&item, start)?);
        filler.item(&item)
    })?;
    let mut warnings = fields.warnings(&["name"]);
    let partial = partial(&fields, &mut warnings)?;
    let references = match fields.items {
        Some(0) => return Err(Refusal::invalid("missing batch input to process")),
        Some(_) => Some(references),
        None => {
            filler.single(&fields)?;
            None
        }
    };
    let (batch, bytes, users) = (filler.batch, filler.bytes, filler.users.unwrap_or_default());
    Ok(Filled { batch, users, bytes, asked: Asked { job, body, references, partial, warnings } })
}

/// Where an item's reference stands in the body, with its quotes.
fn reference(item: &Item<'_>, body: usize) -> Result<Range<usize>, Refusal> {
    match item.get("reference") {
        None | Some(Raw::Null) => Ok(0..0),
        Some(Raw::String(inner)) => {
            let start = inner.as_ptr().addr() - body;
            Ok(start - 1..start + inner.len() + 1)
        }
        Some(value) => Err(item.wrong("reference", "string", value)),
    }
}

/// The status that the client wants for a batch that fails in part.
fn partial(fields: &Fields<'_>, warnings: &mut Vec<String>) -> Result<Option<u16>, Refusal> {
    let Some(code) = fields.int("partial_failure_response_code")?.filter(|code| *code != 0) else { return Ok(None) };
    // With these there would be no answer, or none with a body.
    let fits = u16::try_from(code).ok().filter(|code| (200..600).contains(code) && ![204, 205, 304].contains(code));
    if fits.is_none() {
        warnings
            .push("invalid HTTP response code override from partial_failure_response_code, reverting to 400".into());
    }
    Ok(fits)
}

struct Filler<'a> {
    kind: Kinds,
    key: &'a Arc<Key>,
    rights: &'a Rights,
    limits: &'a Limits,
    batch: Batch,
    user: Zeroizing<Vec<u8>>,
    ad: Zeroizing<Vec<u8>>,
    /// The users of all items so far, if they are to be written.
    users: Option<Names>,
    bytes: usize,
}

/// The values of an item, or of a request without a batch.
struct Values<'a> {
    text: Text<'a>,
    context: Option<Text<'a>>,
    ad: Option<Text<'a>>,
    version: i64,
    nonce: bool,
    padding: bool,
}

impl Filler<'_> {
    /// Adds an item of a batch.
    fn item(&mut self, item: &Item<'_>) -> Result<(), Refusal> {
        let field = self.kind.field();
        let text = match (item.get(field), self.kind) {
            (None, Encrypt) => return Err(item.missing(field, "missing plaintext to encrypt")),
            (None, _) => return Err(item.missing(field, "missing ciphertext to decrypt")),
            (Some(Raw::Null), Encrypt) => return Err(item.wrong(field, "string", Raw::Null)),
            (Some(_), _) => item.string(field)?.unwrap_or(Text::Plain("")),
        };
        let given = |name| Ok::<_, Refusal>(item.string(name)?.is_some_and(|text| !text.is_empty()));
        self.add(Values {
            text,
            context: item.string("context")?,
            ad: item.string("associated_data")?,
            version: item.int("key_version")?.unwrap_or(0),
            nonce: given("nonce")?,
            padding: given("padding_scheme")?,
        });
        Ok(())
    }

    /// Adds the only text of a request without a batch.
    fn single(&mut self, fields: &Fields<'_>) -> Result<(), Refusal> {
        let text = match (fields.string(self.kind.field())?, self.kind) {
            (Some(text), _) => text,
            (None, Encrypt) => return Err(Refusal::invalid("missing plaintext to encrypt")),
            (None, _) => Text::Plain(""),
        };
        if fields.bool("convergent_encryption")? == Some(true) {
            return Err(super::unsupported("convergent encryption"));
        }
        let given = |name| Ok::<_, Refusal>(fields.string(name)?.is_some_and(|text| !text.is_empty()));
        let padding = given("padding_scheme")? || given("encrypt_padding_scheme")? || given("decrypt_padding_scheme")?;
        self.add(Values {
            text,
            context: fields.string("context")?,
            ad: fields.string("associated_data")?,
            version: fields.int("key_version")?.unwrap_or(0),
            nonce: given("nonce")?,
            padding,
        });
        Ok(())
    }

    /// Adds a text. What is wrong with it becomes its refusal.
    fn add(&mut self, values: Values<'_>) {
        if let Err(refusal) = self.try_add(values) {
            self.batch.refuse(refusal);
        }
    }

    fn try_add(&mut self, values: Values<'_>) -> Result<(), Refusal> {
        if values.text.is_empty() && self.kind != Encrypt {
            return Err(Refusal::invalid("missing ciphertext to decrypt"));
        }
        if values.nonce {
            return Err(Refusal::invalid("provided nonce not allowed for this key"));
        }
        if values.padding {
            return Err(Refusal::invalid("padding_scheme is for RSA keys only"));
        }
        let empty = || Text::Plain("");
        base64::decode_into(
            values.context.unwrap_or_else(empty),
            &mut self.user,
            self.limits.user_bytes,
            "the context",
        )?;
        base64::decode_into(
            values.ad.unwrap_or_else(empty),
            &mut self.ad,
            self.limits.record_bytes,
            "associated_data",
        )?;
        if let Some(users) = self.users.as_mut().filter(|_| !self.user.is_empty()) {
            users.add(&self.user);
        }
        self.rights.permit(self.kind.action(), &self.key.record.name, &self.user)?;
        let version = sealing_version(values.version)?;
        match self.kind {
            Encrypt => self.seal(&values.text.without_lines(), version),
            Decrypt => self.open(&values.text.without_lines()),
            Rewrap => {
                // The version must be one that may seal before anything is opened.
                self.key.to_seal(version)?;
                self.open(&values.text.without_lines())?;
                self.batch.seal_under(version);
                Ok(())
            }
        }
    }

    fn seal(&mut self, text: &str, version: Option<u32>) -> Result<(), Refusal> {
        self.check_len(base64::len(text))?;
        let new = New { key: self.key, user: &self.user, ad: &self.ad, most: base64::most(text) };
        self.batch.to_seal(new, version, |place| base64::decode(text, place));
        Ok(())
    }

    fn open(&mut self, text: &str) -> Result<(), Refusal> {
        let (version, text) = ciphertext::parse(text)?;
        let overhead = 1 + self.key.suite.overhead();
        // Vault looks only for its nonce, and calls everything longer not authentic.
        const NONCE: usize = 12;
        self.check_len(base64::len(text).saturating_sub(overhead))?;
        let new = New { key: self.key, user: &self.user, ad: &self.ad, most: base64::most(text) };
        self.batch.to_open(new, version, |place| {
            let len = base64::decode(text, place)
                .map_err(|_| Refusal::invalid("invalid ciphertext: could not decode base64"))?;
            if len < NONCE { Err(Refusal::invalid("invalid ciphertext length")) } else { Ok(len) }
        });
        Ok(())
    }

    fn check_len(&mut self, len: usize) -> Result<(), Refusal> {
        let most = self.limits.record_bytes;
        if len > most {
            return Err(Refusal::new(Kind::TooLarge, format!("the text is longer than {most} bytes")));
        }
        self.bytes += len;
        Ok(())
    }
}

/// The version that a client wants to seal with; none is the newest.
pub fn sealing_version(version: i64) -> Result<Option<u32>, Refusal> {
    match u32::try_from(version) {
        Ok(0) => Ok(None),
        Ok(version) => Ok(Some(version)),
        Err(_) if version < 0 => Err(Refusal::invalid("requested version for encryption is negative")),
        Err(_) => Err(Refusal::invalid("requested version for encryption is higher than the latest key version")),
    }
}

/// Writes the answer.
fn write(batch: &Batch, asked: Asked) -> Result<Response<Body>, Refusal> {
    let Asked { job, body, references, partial, warnings } = asked;
    let kind = job.kind;
    let Some(references) = &references else {
        if let Some(refusal) = batch.refusal(0) {
            return Err(refusal.clone());
        }
        let mut writer = Writer::begin(&job.id, 128 + base64::encoded(batch.bytes()), &warnings);
        writer.raw("{");
        result(&mut writer, kind, batch, 0);
        writer.raw("}");
        return Ok(writer.end(200, None, Mount::Transit, job.room));
    };
    let status = status(kind, batch, partial)?;
    let mut writer = Writer::begin(&job.id, room(kind, batch, references), &warnings);
    writer.raw("{\"batch_results\":[");
    for (i, place) in references.iter().enumerate() {
        writer.raw(if i == 0 { "{" } else { ",{" });
        result(&mut writer, kind, batch, i);
        writer.raw(",\"reference\":");
        let reference = body.bytes.get(place.clone()).and_then(|bytes| str::from_utf8(bytes).ok());
        writer.raw(reference.filter(|text| !text.is_empty()).unwrap_or("\"\""));
        writer.raw("}");
    }
    writer.raw("]}");
    let mount = if status == 200 { Mount::Transit } else { Mount::None };
    Ok(writer.end(status, None, mount, job.room))
}

/// The most bytes of the results.
fn room(kind: Kinds, batch: &Batch, references: &[Range<usize>]) -> usize {
    let result = |i: usize| match kind {
        Decrypt => batch.opened(i).map(<[u8]>::len),
        Encrypt | Rewrap => batch.sealed(i).map(|sealed| sealed.ciphertext.len()),
    };
    let one = |(i, place): (usize, &Range<usize>)| {
        80 + place.len() + result(i).map_or_else(|refusal| 64 + 6 * refusal.text.len(), base64::encoded)
    };
    64 + references.iter().enumerate().map(one).sum::<usize>()
}

/// Writes the fields of a result.
fn result(writer: &mut Writer<'_>, kind: Kinds, batch: &Batch, i: usize) {
    let refused = match kind {
        Decrypt => batch.opened(i).map(|text| {
            writer.raw("\"plaintext\":\"");
            writer.base64(text);
            writer.raw("\"");
        }),
        Encrypt | Rewrap => batch.sealed(i).map(|sealed| {
            writer.raw("\"ciphertext\":\"vault:v");
            writer.value(&sealed.version);
            writer.raw(":");
            writer.base64(sealed.ciphertext);
            writer.raw("\",\"key_version\":");
            writer.value(&sealed.version);
        }),
    };
    if let Err(refusal) = refused {
        writer.raw(if kind == Decrypt { "\"plaintext\":\"\",\"error\":" } else { "\"error\":" });
        writer.value(&*refusal.text);
    }
}

/// The status of a batch. What the server itself could not do counts only if the client did nothing wrong.
fn status(kind: Kinds, batch: &Batch, partial: Option<u16>) -> Result<u16, Refusal> {
    let refusals = || (0..batch.len()).filter_map(|i| batch.refusal(i));
    let Some(first) = refusals().next() else { return Ok(200) };
    let is_ours = |refusal: &Refusal| matches!(refusal.kind, Kind::Failed | Kind::Unavailable | Kind::Busy);
    if kind == Rewrap {
        return refusals().find(|refusal| is_ours(refusal)).map_or(Ok(200), |refusal| Err(refusal.clone()));
    }
    match partial.filter(|_| batch.refused() < batch.len()) {
        Some(code) => Ok(code),
        None if refusals().all(is_ours) => Ok(first.kind.status()),
        None => Ok(400),
    }
}

/// Seals one text that the server has made, for `datakey`.
///
/// # Errors
/// Why it is refused.
pub async fn seal_one(server: &Server, new: New<'_>, version: Option<u32>, text: &[u8]) -> Result<Batch, Refusal> {
    let mut batch = Batch::new(Op::Seal, 1024);
    batch.to_seal(new, version, |place| {
        let place = place.get_mut(..text.len()).ok_or_else(not_authentic)?;
        place.copy_from_slice(text);
        Ok(text.len())
    });
    let batch = server.run(batch).await?;
    batch.refusal(0).cloned().map_or(Ok(batch), Err)
}
