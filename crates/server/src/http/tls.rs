//! TLS: the certificate, which can be replaced while the server runs, and the certificates of clients.

use super::stream::TlsStream;
use ::aws_lc_rs::digest::{SHA256, digest};
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{Error as TlsError, InconsistentKeys, RootCertStore, ServerConfig};
use zeroize::Zeroizing;

/// The longest file of certificates or keys.
const LONGEST: u64 = 1 << 20;

/// So much is read of a connection at once. TLS itself would ask the system for 4 KiB at a time.
const AT_ONCE: usize = 32 << 10;

/// The files that the command line names.
#[derive(Clone, Debug)]
pub struct Files {
    /// The chain of certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Who signs the certificates of clients, if these need one.
    pub client_ca: Option<PathBuf>,
}

/// TLS as it is now.
pub struct Tls {
    files: Files,
    now: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// If one of them cannot be read, or they do not fit together.
    pub fn new(files: Files) -> Outcome<Self> {
        let now = RwLock::new(read(&files)?);
        Ok(Self { files, now })
    }

    /// Reads the files again. Connections that exist stay as they are.
    ///
    /// # Errors
    /// As for the first time. What was read before then stays.
    pub fn reload(&self) -> Outcome {
        let new = read(&self.files)?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Shakes hands with a client.
    ///
    /// # Errors
    /// If the client does not speak TLS, or has no certificate that is accepted.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        TlsAcceptor::from(now).accept(BufReader::with_capacity(AT_ONCE, stream)).await
    }
}

/// The SHA-256 fingerprint of the client's certificate, in hexadecimal.
pub fn fingerprint(stream: &TlsStream) -> Option<String> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    let hash = digest(&SHA256, certificate);
    Some(hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read(files: &Files) -> Outcome<Arc<ServerConfig>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let chain = certificates(&files.certificate)?;
    let pem = file(&files.key)?;
    let bad_key = |_| Failure::new(Code::InputOutput, format!("{}: it holds no private key", shown(&files.key)));
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(bad_key)?;
    let config = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13, &TLS12]);
    let config = config.map_err(|e| Failure::new(Code::Other, format!("TLS cannot be set up: {e}")))?;
    let config = match &files.client_ca {
        Some(ca) => config.with_client_cert_verifier(verifier(ca, provider)?),
        None => config.with_no_client_auth(),
    };
    let unfit = |error| {
        let certificate = shown(&files.certificate);
        let line = match error {
            TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("{} is not the key of {certificate}", shown(&files.key))
            }
            error => format!("{certificate}: {error}"),
        };
        Failure::new(Code::InputOutput, line)
    };
    let mut config = config.with_single_cert(chain, key).map_err(unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if files.client_ca.is_some() {
        // A resumed session would have the client's certificate without looking at it again, also after it has expired.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn verifier(ca: &Path, provider: Arc<CryptoProvider>) -> Outcome<Arc<dyn ClientCertVerifier>> {
    let bad = |e: String| Failure::new(Code::InputOutput, format!("{}: {e}", shown(ca)));
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|e| bad(e.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|e| bad(e.to_string()))
}

fn certificates(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let pem = file(path)?;
    let bad = |e: String| Failure::new(Code::InputOutput, format!("{}: {e}", shown(path)));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|e| bad(e.to_string()))?;
    if chain.is_empty() { Err(bad("it holds no certificate".into())) } else { Ok(chain) }
}

/// A whole file, which is wiped on drop.
fn file(path: &Path) -> Outcome<Zeroizing<Vec<u8>>> {
    use std::io::Read;
    let at = |error: io::Error| Failure::at(path, Error::read(error));
    let file = std::fs::File::open(path).map_err(at)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(16 << 10));
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(at)?;
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::new(Code::InputOutput, format!("{}: it is too long", shown(path))));
    }
    Ok(bytes)
}
