//! Writes all vectors but `primitives` and `age` into the folder given: `cargo run -p phalanx-reference --example make_vectors -- vectors`.
//!
//! Nothing here is random: each key, salt and nonce is the SHA3-256 of a label. A file that no scenario makes any more is not
//! deleted; the test `vectors` names it.

mod scenarios;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let Some(vectors) = std::env::args_os().nth(1) else {
        eprintln!("usage: make_vectors FOLDER");
        std::process::exit(2);
    };
    for (folder, files) in scenarios::folders() {
        let folder = Path::new(&vectors).join(folder);
        std::fs::create_dir_all(&folder)?;
        for (name, text) in files {
            std::fs::write(folder.join(format!("{name}.json")), text)?;
        }
        println!("{}: {} files", folder.display(), files.len());
    }
    Ok(())
}
