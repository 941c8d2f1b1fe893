//! The machine code of the kernels that Valgrind cannot run: VAES and AVX-512.
//!
//! Secrets lie in memory, and these kernels load them into vector registers. A branch or an address depends on general
//! registers and flags only, except in gathers and scatters. So no branch and no address depends on a secret if
//!
//! 1. there are no gathers and no scatters,
//! 2. nothing goes from a vector or mask register to a general register or to flags, except where the list says why, and
//! 3. what general registers take from memory are lengths, pointers and the number of rounds.
//!
//! This program disassembles itself by `objdump` and writes down, for each function of these kernels, everything by which
//! 1 to 3 could be broken: such instructions, all loads into general registers, also by arithmetic, all conditional jumps, all
//! addresses with an index, all calls and computed jumps. The result must be the committed list, where each line was read by
//! a person and has its reason. A conditional jump is listed with the last instruction before it that set flags. Registers
//! have no names in the list, since each build may choose others: `r` is a general register, `v` a vector, `k` a mask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The modules whose functions are examined.
const KERNELS: [&str; 4] = [
    "phalanx_kernels::aes::vaes256::",
    "phalanx_kernels::aes::vaes512::",
    "phalanx_kernels::keccak::avx512::",
    "phalanx_kernels::keccak::avx512vl::",
];
const PLANTED: &str = "phalanx_constant_time::planted::vectors::";

/// What must be found in the planted leaks.
const FOUND: [(&str, &str); 3] =
    [("gather", "gather or scatter: "), ("branch", "from a vector: "), ("table", "load: ")];

/// How often each line stands in a function.
type Lines = BTreeMap<String, usize>;
/// The functions. A generic function is compiled for each number of rounds and in each crate that uses it, so a name can
/// have several codes. Equal codes are listed once.
type Functions = BTreeMap<String, BTreeSet<Lines>>;
/// Why the lines of functions are right.
type Reasons = BTreeMap<(String, String), String>;

/// Compares the list with the program, and checks that the planted leaks in this program are found.
pub fn check(list: &Path, program: &Path) -> Result<(), String> {
    let committed = std::fs::read_to_string(list).map_err(|e| format!("{}: {e}", list.display()))?;
    check_planted(&examine(&super::this())?)?;
    let functions = kernels(examine(program)?);
    let (now, then) = (written(&functions, &Reasons::new()), without_reasons(&committed));
    if now == then {
        println!("{} functions are as listed", functions.len());
        return Ok(());
    }
    let missing = then.lines().filter(|line| !now.contains(line)).map(|line| format!("- {line}\n"));
    let more = now.lines().filter(|line| !then.contains(line)).map(|line| format!("+ {line}\n"));
    let difference: String = missing.chain(more).collect();
    Err(format!("{difference}the machine code is not that of {}: read it, and renew the list", list.display()))
}

/// Writes the list anew. Reasons stay with their lines.
pub fn renew(list: &Path, program: &Path) -> Result<(), String> {
    let committed = std::fs::read_to_string(list).unwrap_or_default();
    let (mut reasons, mut function) = (Reasons::new(), "");
    for line in committed.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ").and_then(|line| line.split_once(" × ")) {
            Some((_, line)) => {
                let Some((line, reason)) = line.split_once("  # ") else { continue };
                reasons.insert((function.to_owned(), line.trim_end().to_owned()), reason.to_owned());
            }
            None => function = line,
        }
    }
    let preface: String =
        committed.lines().take_while(|line| line.starts_with('#')).map(|l| format!("{l}\n")).collect();
    let text = preface + &written(&kernels(examine(program)?), &reasons);
    std::fs::write(list, text).map_err(|e| format!("{}: {e}", list.display()))
}

fn kernels(functions: Functions) -> Functions {
    let is_kernel = |name: &str| KERNELS.iter().any(|module| name.starts_with(module));
    functions.into_iter().filter(|(name, _)| is_kernel(name)).collect()
}

fn check_planted(functions: &Functions) -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    std::hint::black_box(crate::planted::vectors::keep());
    for (name, kind) in FOUND {
        let mut codes = functions.get(&format!("{PLANTED}{name}")).into_iter().flatten();
        if !codes.any(|lines| lines.keys().any(|line| line.starts_with(kind))) {
            return Err(format!("the planted leak {name} was not found in the machine code"));
        }
        println!("the planted leak {name} is found");
    }
    Ok(())
}

fn written(functions: &Functions, reasons: &Reasons) -> String {
    let mut text = String::new();
    for (name, codes) in functions {
        for lines in codes {
            text += &format!("\n{name}\n");
            for (line, count) in lines {
                let reason = reasons
                    .get(&(name.clone(), line.clone()))
                    .map(|reason| format!("  # {reason}"))
                    .unwrap_or_default();
                text += &format!("  {count} × {line}{reason}\n");
            }
        }
    }
    text
}

fn without_reasons(list: &str) -> String {
    let lines = list.lines().skip_while(|line| line.starts_with('#'));
    lines.map(|line| line.split_once("  # ").map_or(line, |(line, _)| line).to_owned() + "\n").collect()
}

/// All remarkable instructions of the functions in question.
fn examine(program: &Path) -> Result<Functions, String> {
    let output = Command::new("objdump").args(["-d", "-C", "-M", "intel", "--no-show-raw-insn"]).arg(program).output();
    let output = output.map_err(|e| format!("objdump: {e}"))?;
    if !output.status.success() {
        return Err(format!("objdump: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut functions = Functions::new();
    let output = String::from_utf8_lossy(&output.stdout);
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        let name = line.strip_suffix(">:").and_then(|line| line.split_once(" <")).map_or("", |(_, name)| name);
        if !KERNELS.iter().chain([&PLANTED]).any(|module| name.starts_with(module)) {
            continue;
        }
        let (mut code, mut flags) = (Lines::new(), String::new());
        // An empty line ends a function.
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            let Some((_, instruction)) = line.split_once(":\t") else { continue };
            if let Some(line) = remark(instruction, &mut flags) {
                *code.entry(line).or_default() += 1;
            }
        }
        functions.entry(name.to_owned()).or_default().insert(code);
    }
    Ok(functions)
}

/// Instructions that set the flags for conditional jumps.
const FLAGS: [&str; 16] =
    ["cmp", "test", "add", "sub", "and", "or", "xor", "inc", "dec", "neg", "shl", "shr", "sar", "adc", "sbb", "bt"];

/// The line for an instruction in Intel's syntax, if it is remarkable. `flags` is the last instruction that set flags.
fn remark(instruction: &str, flags: &mut String) -> Option<String> {
    let instruction = instruction.split('#').next().unwrap_or_default().trim();
    if instruction.contains("nop") {
        return None;
    }
    let (name, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
    let operands = operands.trim();
    let text = || format!("{name} {}", nameless(operands));
    let kinds: Vec<char> = split(operands).iter().map(|operand| kind(operand)).collect();
    if FLAGS.contains(&name) {
        *flags = text();
    }
    if name.starts_with('j') && name != "jmp" {
        return Some(format!("jump: {name} after {flags}"));
    }
    if name.ends_with("div") && !name.starts_with('v') {
        return Some(format!("division: {}", text()));
    }
    if name == "call" || name == "jmp" && kinds != ['a'] {
        let callee =
            operands.split_once('<').map_or_else(|| nameless(operands), |(_, name)| name.trim_end_matches('>').into());
        return Some(format!("{name}: {callee}"));
    }
    if name.contains("gather") || name.contains("scatter") {
        return Some(format!("gather or scatter: {}", text()));
    }
    let sets_flags = ["ptest", "comis", "kortest", "ktest", "testps", "testpd"].iter().any(|test| name.contains(test));
    if sets_flags || kinds.first() == Some(&'r') && kinds[1..].iter().any(|kind| matches!(kind, 'v' | 'k')) {
        return Some(format!("from a vector: {}", text()));
    }
    // A comparison and a test read their first operand, too, and so does arithmetic in memory, which sets flags.
    let from_memory = kinds.contains(&'m') && !kinds.iter().any(|kind| matches!(kind, 'v' | 'k'));
    let only_stores = kinds.first() == Some(&'m') && name == "mov";
    if name == "lea" || name.starts_with("prefetch") {
        return None;
    }
    if from_memory && !only_stores {
        return Some(format!("load: {}", text()));
    }
    if operands.contains('*') {
        return Some(format!("index: {}", text()));
    }
    None
}

/// The operands. Commas within brackets do not separate them.
fn split(operands: &str) -> Vec<&str> {
    operands.split(',').map(str::trim).filter(|operand| !operand.is_empty()).collect()
}

/// `m` for memory, `v` for vector, `k` for mask and `r` for general registers, `a` for an address in the code, `i` for numbers.
fn kind(operand: &str) -> char {
    let plain = operand.split(['{', ' ']).next().unwrap_or_default();
    if operand.contains('<') {
        'a'
    } else if operand.contains('[') || operand.contains(':') {
        'm'
    } else if ["xmm", "ymm", "zmm"].iter().any(|register| plain.starts_with(register)) {
        'v'
    } else if plain.len() == 2 && plain.starts_with('k') {
        'k'
    } else if plain.starts_with("0x") || plain.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        'i'
    } else {
        'r'
    }
}

/// The operands with registers replaced by their kinds, and without distances within brackets.
fn nameless(operands: &str) -> String {
    let (mut text, mut word, mut within) = (String::new(), String::new(), false);
    for c in operands.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        text += match word.as_str() {
            w @ ("rsp" | "rip") => w,
            w if w.starts_with("xmm") || w.starts_with("ymm") || w.starts_with("zmm") => "v",
            w if w.len() == 2 && w.starts_with('k') => "k",
            w if is_general(w) => "r",
            w if within && w.starts_with("0x") => "…",
            w => w,
        };
        word.clear();
        within = c == '[' || within && c != ']';
        text.push(if within && c == '-' { '+' } else { c });
    }
    text.trim().to_owned()
}

fn is_general(word: &str) -> bool {
    const OLD: [&str; 8] = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
    const BYTES: [&str; 12] = ["al", "ah", "bl", "bh", "cl", "ch", "dl", "dh", "sil", "dil", "bpl", "spl"];
    let wide = word.strip_prefix(['r', 'e']).is_some_and(|rest| OLD.contains(&rest));
    let new = word.strip_prefix('r').is_some_and(|rest| rest.trim_end_matches(['d', 'w', 'b']).parse::<u8>().is_ok());
    wide || new || OLD.contains(&word) || BYTES.contains(&word)
}
