//! Reads a part of a protected file with a password, and opens only the chunks that it needs: `cargo run -p
//! phalanx-core --example read_range -- FILE.phx PASSWORD_FILE OFFSET LENGTH >PART`.

use phalanx_core::{KdfLimit, Opener, Password, Reader};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, password, offset, len] = &args[..] else { return Err("FILE.phx PASSWORD_FILE OFFSET LENGTH".into()) };
    let (offset, len): (u64, u64) = (offset.parse()?, len.parse()?);
    let opener = Opener::new(Password::new(std::fs::read(password)?), KdfLimit::default());

    // Any type that implements `ReadAt` can be the source.
    let mut reader = Reader::open(File::open(path)?, &opener)?;
    let needed = reader.protected_range(offset..offset.saturating_add(len));
    eprintln!("{} bytes of plaintext; the range needs the bytes {needed:?} of the file", reader.len());

    // It is `Read` and `Seek`; `reader.read_at(&mut buf, offset)` needs no cursor, and many threads may call it at
    // once.
    reader.seek(SeekFrom::Start(offset))?;
    io::copy(&mut reader.take(len), &mut io::stdout())?;
    Ok(())
}
