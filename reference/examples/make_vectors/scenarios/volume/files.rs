//! Configs that open, and whole files.

use super::*;

pub(super) fn add(cases: &mut Vec<Case>) {
    configs(cases);
    lengths(cases);
    holes(cases);
}

fn configs(cases: &mut Vec<Case>) {
    cases.push(Case::new("empty", "a volume without entries"));
    let ways = [key_slot(), password_slot(PASSWORD, CHEAP), padding(300)];
    let mut by_password = Case::of("ways-by-password", "a config with padding, opened by a password", 1, 20, &ways);
    (by_password.key, by_password.password) = (None, Some(PASSWORD.to_vec()));
    cases.push(by_password);
    let ways = [other_key_slot(), password_slot(b"another", CHEAP), key_slot()];
    cases.push(Case::of("ways-by-key", "a config with several ways in, opened by the last, a key", 1, 12, &ways));
}

fn lengths(cases: &mut Vec<Case>) {
    let whole = [0, 1, 4095, 4096, 4097, 12388];
    let some = [0, 1, 4097];
    for (suite, chunk_log2, lens) in
        [(1, 12, &whole[..]), (2, 12, &some), (3, 12, &some), (5, 12, &some), (1, 14, &[1, 16385]), (5, 13, &[8200])]
    {
        let name = format!("files-suite-{suite}-chunk-{chunk_log2}");
        let comment = format!("files of several lengths in suite {suite}, in chunks of 2^{chunk_log2}");
        let mut case = Case::of(&name, &comment, suite, chunk_log2, &[key_slot()]);
        for len in lens {
            let root = case.root();
            case.file(&root, format!("{len} bytes").as_bytes(), &painted(*len), &[]);
        }
        cases.push(case);
    }
}

fn holes(cases: &mut Vec<Case>) {
    let zeros = |chunks: usize| vec![0; 4096 * chunks];
    let mut add = |name: &str, comment: &str, content: Vec<u8>, holes: &[(u64, u64)], junk: &[usize]| {
        let mut case = Case::new(name, comment);
        let root = case.root();
        let file = case.file(&root, b"sparse", &content, holes);
        for at in junk {
            case.writer.bytes(&file.path)[*at] = 0xAA;
        }
        cases.push(case);
    };
    let content = [painted(4096), zeros(2), painted(100)].concat();
    add("hole", "chunks 1 and 2 are a hole", content.clone(), &[(1, 2)], &[]);
    let junk = [4096 + 4144, 4096 + 4144 + 60, 4096 + 3 * 4144 - 1];
    add("hole-junk", "what is stored in a hole means nothing", content, &[(1, 2)], &junk);
    let content = [zeros(2), painted(100)].concat();
    add("hole-at-start", "the first chunks are a hole", content, &[(0, 2)], &[]);
    let content = [zeros(1), painted(4096), zeros(1), painted(1)].concat();
    add("holes-one-chunk-between", "a chunk between two holes", content, &[(0, 1), (2, 1)], &[]);
    let content = [zeros(1000), painted(1)].concat();
    add("hole-nearly-all", "all but the last byte is a hole", content, &[(0, 1000)], &[]);

    // The chunks between the holes are not authentic: 239 whole chunks would be a megabyte.
    let mut case = Case::new(
        "holes-240",
        "as many holes as may be; of the chunks between them, only the first and the last are authentic",
    );
    let holes: Vec<(u64, u64)> = (0..240).map(|i| (2 * i + 1, 1)).collect();
    let content = [painted(4096), zeros(479), painted(7)].concat();
    let root = case.root();
    let file = case.file(&root, b"sparse", &content, &holes);
    let mut chunks = vec![Some(painted(4096))];
    for i in 1..480 {
        let start = 4096 + i * 4144;
        case.writer.bytes(&file.path)[start..start + 4144].fill(0);
        chunks.push((i % 2 == 1).then(|| zeros(1)));
    }
    chunks.push(Some(painted(7)));
    case.want(&file.path, Plain::File(Some(chunks)));
    cases.push(case);
}
