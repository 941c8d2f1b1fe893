//! Turns PTX into C: each entry into a function of one thread. Only the instructions that the committed kernels use are
//! known. Any other one is refused, with its line.
//!
//! Registers become variables of the same width. Shared and constant memory have addresses of their own, with unused
//! addresses between variables, so that an access beyond the end of one does not reach the next one.

mod lop3;
mod operands;

use crate::ptx::{self, Entry, Instruction, Operand, Result, Statement, Variable, refuse};
use operands::Names;
use std::collections::HashMap;
use std::fmt::Write;

/// Where shared and constant memory begin, and how far variables are apart.
const SHARED: u64 = 0x0100_0000;
const CONSTANT: u64 = 0x0800_0000;
const GAP: u64 = 256;

/// A variable at its address.
#[derive(Clone, Debug)]
pub struct Placed {
    pub address: u64,
    /// Its length. `None` if the launch gives it.
    pub len: Option<u64>,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct Kernel {
    pub name: String,
    /// The place of each parameter and its length in bytes.
    pub parameters: Vec<(usize, usize)>,
    pub shared: Vec<Placed>,
}

#[derive(Debug)]
pub struct Translated {
    /// The functions, for the text behind `runtime.c`.
    pub code: String,
    pub constants: Vec<Placed>,
    pub kernels: Vec<Kernel>,
}

/// The name of a kernel's function in C.
pub fn function(kernel: &str) -> String {
    format!("kernel_{kernel}")
}

/// Translates a module.
pub fn translate(module: &ptx::Module) -> Result<Translated> {
    let (constants, constant_names) = place(&module.constants, CONSTANT);
    let mut translated = Translated { code: String::new(), constants, kernels: Vec::new() };
    for entry in &module.entries {
        let variables = entry.shared.iter().chain(&module.dynamic);
        let (shared, mut names) = place(variables, SHARED);
        names.extend(constant_names.clone());
        let parameters = parameters(entry);
        let names = Names::new(entry, names, &parameters)?;
        translated.code += &function_of(entry, &names)?;
        let parameters = parameters.into_values().collect::<Vec<_>>();
        let mut parameters: Vec<(usize, usize)> = parameters;
        parameters.sort_unstable();
        translated.kernels.push(Kernel { name: entry.name.clone(), parameters, shared });
    }
    Ok(translated)
}

fn place<'a>(variables: impl IntoIterator<Item = &'a Variable>, from: u64) -> (Vec<Placed>, HashMap<String, u64>) {
    let (mut placed, mut names, mut at) = (Vec::new(), HashMap::new(), from);
    for variable in variables {
        at = at.next_multiple_of(variable.align.max(1));
        names.insert(variable.name.clone(), at);
        placed.push(Placed { address: at, len: variable.len, bytes: variable.bytes.clone() });
        // A variable without a length is the last one: there is at most one of these.
        at += variable.len.unwrap_or(0) + GAP;
    }
    (placed, names)
}

/// Each parameter's place and length.
fn parameters(entry: &Entry) -> HashMap<String, (usize, usize)> {
    let mut at = 0usize;
    let mut places = HashMap::new();
    for parameter in &entry.parameters {
        at = at.next_multiple_of(parameter.len);
        places.insert(parameter.name.clone(), (at, parameter.len));
        at += parameter.len;
    }
    places
}

fn function_of(entry: &Entry, names: &Names) -> Result<String> {
    let mut code = format!("\nvoid {}(void) {{\n", function(&entry.name));
    for (name, bits) in names.registers() {
        let kind = names.kind(bits);
        let _ = writeln!(code, "{kind} {name} = UNSET({kind});");
    }
    let labels: HashMap<&str, usize> = (0..)
        .zip(&entry.statements)
        .filter_map(|(at, statement)| if let Statement::Label(label) = statement { Some((&**label, at)) } else { None })
        .collect();
    for (at, statement) in entry.statements.iter().enumerate() {
        match statement {
            Statement::Label(label) => {
                let _ = writeln!(code, "{}:;", in_c(label));
            }
            Statement::Instruction(instruction) => {
                let to = |label: &str| labels.get(label).map(|to| *to < at);
                let done = translate_instruction(instruction, names, to)?;
                match &instruction.guard {
                    None => code += &done,
                    Some((predicate, negated)) => {
                        let predicate = names.register(instruction.line, predicate, 1)?;
                        let not = if *negated { "!" } else { "" };
                        let _ = write!(code, "if ({not}{predicate}) {{ {done} }}");
                    }
                }
                code.push('\n');
            }
        }
    }
    code += "}\n";
    Ok(code)
}

/// A label as C can have it.
fn in_c(label: &str) -> String {
    label.replace('$', "S_")
}

/// The C statement of an instruction. `jumps_back` says of a label whether it is above, or `None` if there is none.
fn translate_instruction(
    instruction: &Instruction,
    names: &Names,
    jumps_back: impl Fn(&str) -> Option<bool>,
) -> Result<String> {
    let line = instruction.line;
    let opcode: Vec<&str> = instruction.opcode.split('.').collect();
    let operands = &instruction.operands[..];
    match (&opcode[..], operands) {
        (["ret"], []) => Ok("return;".into()),
        (["bar", "sync"], [Operand::Number(0)]) => Ok(format!("barrier({line});")),
        (["bra"] | ["bra", "uni"], [Operand::Name(label)]) => match jumps_back(label) {
            None => refuse(line, format!("there is no label {label}")),
            Some(true) => Ok(format!("jump_back({line}); goto {};", in_c(label))),
            Some(false) => Ok(format!("goto {};", in_c(label))),
        },
        (["ld", "param", kind], [to, Operand::Address(name, 0)]) => {
            let bits = unsigned(line, kind)?;
            let at = names.parameter(line, name, bits)?;
            let to = names.target(line, to, bits)?;
            Ok(format!("{to} = PARAMETER(uint{bits}_t, {at});"))
        }
        (["ld", space, rest @ ..], [to, Operand::Address(base, offset)]) => {
            let space_in_c = if *space == "const" { "CONSTANT" } else { data_space(line, space)? };
            let address = names.address(line, base, *offset)?;
            load(line, names, space_in_c, rest, to, &address)
        }
        (["st", space, rest @ ..], [Operand::Address(base, offset), from]) => {
            let address = names.address(line, base, *offset)?;
            store(line, names, data_space(line, space)?, rest, from, &address)
        }
        (_, [to, from @ ..]) => match expression(line, &opcode, from, names)? {
            Some((bits, expression)) => {
                let Operand::Name(to) = to else { return refuse(line, "the result is not a register") };
                let to = names.register(line, to, bits)?;
                let check = divisor(line, &opcode, from, names)?;
                Ok(format!("{check}{to} = {expression};"))
            }
            None => refuse(line, format!("{} with {} operands is not simulated", instruction.opcode, operands.len())),
        },
        _ => refuse(line, format!("{} is not simulated", instruction.opcode)),
    }
}

/// The width of an unsigned type in memory.
fn unsigned(line: u32, kind: &str) -> Result<u32> {
    match kind {
        "u8" => Ok(8),
        "u32" => Ok(32),
        "u64" => Ok(64),
        _ => refuse(line, format!("accesses of type {kind} are not simulated")),
    }
}

fn data_space(line: u32, space: &str) -> Result<&'static str> {
    match space {
        "global" => Ok("GLOBAL"),
        "shared" => Ok("SHARED"),
        _ => refuse(line, format!("memory of kind {space} is not simulated")),
    }
}

fn load(line: u32, names: &Names, space: &str, kind: &[&str], to: &Operand, address: &str) -> Result<String> {
    match (kind, to) {
        (["v4", "u32"], Operand::Vector(to)) if to.len() == 4 => {
            let to: Vec<String> = to.iter().map(|to| names.register(line, to, 32)).collect::<Result<_>>()?;
            Ok(format!("LOAD_4(uint32_t, {space}, {line}, {address}, {});", to.join(", ")))
        }
        ([kind], Operand::Name(_)) => {
            let bits = unsigned(line, kind)?;
            let to = names.target(line, to, bits)?;
            Ok(format!("{to} = LOAD(uint{bits}_t, {space}, {line}, {address});"))
        }
        _ => refuse(line, format!("a load of type {} is not simulated", kind.join("."))),
    }
}

fn store(line: u32, names: &Names, space: &str, kind: &[&str], from: &Operand, address: &str) -> Result<String> {
    match (kind, from) {
        // Races are recorded for words, so threads that write the bytes of one word would be reported.
        (["u8"], _) if space == "SHARED" => refuse(line, "single bytes in shared memory are not simulated"),
        (["v4", "u32"], Operand::Vector(from)) if from.len() == 4 => {
            let from: Vec<String> = from.iter().map(|from| names.register(line, from, 32)).collect::<Result<_>>()?;
            Ok(format!("STORE_4(uint32_t, {space}, {line}, {address}, {});", from.join(", ")))
        }
        ([kind], Operand::Name(_) | Operand::Number(_)) => {
            let bits = unsigned(line, kind)?;
            let from = names.at_least(line, from, bits)?;
            Ok(format!("STORE(uint{bits}_t, {space}, {line}, {address}, {from});"))
        }
        _ => refuse(line, format!("a store of type {} is not simulated", kind.join("."))),
    }
}

/// What comes before a division, whose result PTX does not define if the divisor is zero.
fn divisor(line: u32, opcode: &[&str], from: &[Operand], names: &Names) -> Result<String> {
    match (opcode, from) {
        (["div" | "rem", ..], [_, by]) => Ok(format!("DIVISOR({line}, {}); ", names.value(line, by, 32)?)),
        _ => Ok(String::new()),
    }
}

/// The width and value of an instruction's result. `None` if the instruction is not known.
fn expression(line: u32, opcode: &[&str], from: &[Operand], names: &Names) -> Result<Option<(u32, String)>> {
    let value = |at: usize, bits: u32| names.value(line, &from[at], bits);
    let done = match (opcode, from.len()) {
        (["mov", "u32"], 1) => (32, names.special(&from[0]).map_or_else(|| value(0, 32), Ok)?),
        (["mov", "u64"], 1) => (64, names.place_of(&from[0]).map_or_else(|| value(0, 64), Ok)?),
        (["cvta", "to", "global", "u64"], 1) => (64, value(0, 64)?),
        (["cvt", "u64", "u32"], 1) => (64, value(0, 32)?),
        (["cvt", "u32", "u64"], 1) => (32, format!("(uint32_t){}", value(0, 64)?)),
        (["cvt", "u16", "u32"], 1) => (16, format!("(uint16_t){}", value(0, 32)?)),
        (["not", kind], 1) => {
            let bits = untyped(kind);
            (bits, if bits == 1 { format!("!{}", value(0, 1)?) } else { format!("~{}", value(0, bits)?) })
        }
        (["neg", "s32"], 1) => (32, format!("0u - {}", value(0, 32)?)),
        (["and" | "or" | "xor", kind], 2) => {
            let bits = untyped(kind);
            let sign = if opcode[0] == "and" {
                '&'
            } else if opcode[0] == "or" {
                '|'
            } else {
                '^'
            };
            (bits, format!("{} {sign} {}", value(0, bits)?, value(1, bits)?))
        }
        (["add" | "sub", "s32" | "s64"], 2) => {
            let bits = if opcode[1] == "s32" { 32 } else { 64 };
            let sign = if opcode[0] == "add" { '+' } else { '-' };
            (bits, format!("{} {sign} {}", value(0, bits)?, value(1, bits)?))
        }
        (["mul", "lo", "s32"], 2) => (32, format!("{} * {}", value(0, 32)?, value(1, 32)?)),
        (["mul", "wide", "u32"], 2) => (64, format!("(uint64_t){} * {}", value(0, 32)?, value(1, 32)?)),
        (["mad", "lo", "s32"], 3) => (32, format!("{} * {} + {}", value(0, 32)?, value(1, 32)?, value(2, 32)?)),
        (["div", "u32"], 2) => (32, format!("{} / {}", value(0, 32)?, value(1, 32)?)),
        (["rem", "u32"], 2) => (32, format!("{} % {}", value(0, 32)?, value(1, 32)?)),
        (["min", "u32"], 2) => {
            let (a, b) = (value(0, 32)?, value(1, 32)?);
            (32, format!("{a} < {b} ? {a} : {b}"))
        }
        (["shl", "b32"], 2) => (32, format!("shl_32({}, {})", value(0, 32)?, value(1, 32)?)),
        (["shl", "b64"], 2) => (64, format!("shl_64({}, {})", value(0, 64)?, value(1, 32)?)),
        (["shr", "u16"], 2) => (16, format!("shr_u16({}, {})", value(0, 16)?, value(1, 32)?)),
        (["shr", "u32"], 2) => (32, format!("shr_u32({}, {})", value(0, 32)?, value(1, 32)?)),
        (["shr", "s32"], 2) => (32, format!("shr_s32({}, {})", value(0, 32)?, value(1, 32)?)),
        (["shr", "u64"], 2) => (64, format!("shr_u64({}, {})", value(0, 64)?, value(1, 32)?)),
        (["shf", "l", "wrap", "b32"], 3) => {
            (32, format!("shf_l_wrap({}, {}, {})", value(0, 32)?, value(1, 32)?, value(2, 32)?))
        }
        (["prmt", "b32"], 3) => (32, format!("prmt({}, {}, {})", value(0, 32)?, value(1, 32)?, value(2, 32)?)),
        (["bfe", "u32" | "s32"], 3) => {
            (32, format!("bfe_{}({}, {}, {})", opcode[1], value(0, 32)?, value(1, 32)?, value(2, 32)?))
        }
        (["bfi", "b32" | "b64"], 4) => {
            let bits = untyped(opcode[1]);
            let all = [value(0, bits)?, value(1, bits)?, value(2, 32)?, value(3, 32)?];
            (bits, format!("bfi_{bits}({})", all.join(", ")))
        }
        (["lop3", "b32"], 4) => match from[3] {
            Operand::Number(table @ 0..=255) => {
                (32, lop3::expression(table as u8, [&value(0, 32)?, &value(1, 32)?, &value(2, 32)?]))
            }
            _ => return Ok(None),
        },
        (["setp", test, kind @ ("u32" | "s32")], 2) => {
            let Some(sign) = [("lt", "<"), ("ge", ">="), ("gt", ">"), ("eq", "=="), ("ne", "!=")]
                .iter()
                .find_map(|(name, sign)| (name == test).then_some(sign))
            else {
                return Ok(None);
            };
            let cast = if *kind == "s32" { "(int32_t)" } else { "" };
            (1, format!("{cast}{} {sign} {cast}{}", value(0, 32)?, value(1, 32)?))
        }
        (["selp", "b32" | "u32" | "b64"], 3) => {
            let bits = if opcode[1] == "b64" { 64 } else { 32 };
            (bits, format!("{} ? {} : {}", value(2, 1)?, value(0, bits)?, value(1, bits)?))
        }
        _ => return Ok(None),
    };
    // A register of another width cannot hold the result of an unknown type.
    Ok((done.0 != 0).then_some(done))
}

/// The width of an untyped operation. 0 if it is not simulated.
fn untyped(kind: &str) -> u32 {
    [("pred", 1), ("b16", 16), ("b32", 32), ("b64", 64)]
        .iter()
        .find_map(|(name, bits)| (*name == kind).then_some(*bits))
        .unwrap_or(0)
}
