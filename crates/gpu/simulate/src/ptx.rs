//! Reads PTX: declarations, and instructions as they stand, with their lines. What an instruction means is for
//! `translate.rs`. Everything unknown is an error.

mod tokens;

use std::fmt;
use tokens::{Token, Tokens};

/// Why PTX is refused, and the line.
#[derive(Debug)]
pub struct Refused {
    pub line: u32,
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

pub type Result<T> = std::result::Result<T, Refused>;

pub fn refuse<T>(line: u32, why: impl Into<String>) -> Result<T> {
    Err(Refused { line, why: why.into() })
}

/// A variable in shared or constant memory.
#[derive(Debug)]
pub struct Variable {
    pub name: String,
    pub align: u64,
    /// Its length in bytes. `None` if the launch gives it.
    pub len: Option<u64>,
    /// The initial bytes, of a constant.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    /// Its length in bytes: 4 or 8.
    pub len: usize,
}

/// A register, or `%name<count>` of them.
#[derive(Debug)]
pub struct Registers {
    pub prefix: String,
    /// The width in bits. 1 for a predicate.
    pub bits: u32,
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, a special register, or the name of a variable or parameter.
    Name(String),
    Number(i128),
    /// `[base + offset]`
    Address(String, i64),
    /// `{a, b, c, d}`
    Vector(Vec<String>),
}

#[derive(Debug)]
pub enum Statement {
    Label(String),
    Instruction(Instruction),
}

#[derive(Debug)]
pub struct Instruction {
    pub line: u32,
    /// The predicate, and whether it must be false.
    pub guard: Option<(String, bool)>,
    pub opcode: String,
    pub operands: Vec<Operand>,
}

#[derive(Debug)]
pub struct Entry {
    pub name: String,
    pub line: u32,
    pub parameters: Vec<Parameter>,
    pub registers: Vec<Registers>,
    pub shared: Vec<Variable>,
    pub statements: Vec<Statement>,
}

#[derive(Debug, Default)]
pub struct Module {
    pub constants: Vec<Variable>,
    /// Shared memory whose length the launch gives.
    pub dynamic: Vec<Variable>,
    pub entries: Vec<Entry>,
}

/// The newest PTX and device that are simulated.
const VERSION: &str = "8.0";
const TARGET: &str = "sm_52";

/// Reads a module.
pub fn parse(text: &str) -> Result<Module> {
    let mut tokens = Tokens::new(text)?;
    let mut module = Module::default();
    let header = [(".version", VERSION), (".target", TARGET), (".address_size", "64")];
    for (directive, value) in header {
        tokens.expect(directive)?;
        let (line, found) = (tokens.line(), tokens.word()?);
        if found != value {
            return refuse(line, format!("{directive} {found}: only {value} is simulated"));
        }
    }
    while !tokens.is_at_end() {
        let (line, word) = (tokens.line(), tokens.word()?);
        match word.as_str() {
            ".const" => module.constants.push(variable(&mut tokens)?),
            // Programs for several devices have constants of this kind, which nothing uses. An instruction that names one is
            // refused.
            ".global" => drop(variable(&mut tokens)?),
            ".extern" => {
                tokens.expect(".shared")?;
                module.dynamic.push(variable(&mut tokens)?);
            }
            ".visible" => {
                tokens.expect(".entry")?;
                module.entries.push(entry(&mut tokens)?);
            }
            _ => return refuse(line, format!("{word} is not simulated")),
        }
    }
    Ok(module)
}

/// `.align 4 .b8 name[16] = {1, 2};`, after the state space.
fn variable(tokens: &mut Tokens) -> Result<Variable> {
    let line = tokens.line();
    let align = if tokens.take(".align") { tokens.unsigned()? } else { 1 };
    let kind = tokens.word()?;
    let Some(size) =
        [(".b8", 1), (".b32", 4), (".u32", 4), (".b64", 8), (".u64", 8)].iter().find(|(name, _)| *name == kind)
    else {
        return refuse(line, format!("a variable of type {kind} is not simulated"));
    };
    let size: u64 = size.1;
    let name = tokens.word()?;
    let mut len = Some(size);
    if tokens.take("[") {
        len = if tokens.take("]") {
            None
        } else {
            let count = tokens.unsigned()?;
            tokens.expect("]")?;
            count.checked_mul(size)
        };
    }
    let mut bytes = Vec::new();
    if tokens.take("=") {
        let mut value = |tokens: &mut Tokens| -> Result<()> {
            let number = tokens.number()?;
            bytes.extend_from_slice(&number.to_le_bytes()[..size as usize]);
            Ok(())
        };
        if tokens.take("{") {
            loop {
                value(tokens)?;
                if tokens.take("}") {
                    break;
                }
                tokens.expect(",")?;
            }
        } else {
            value(tokens)?;
        }
    }
    tokens.expect(";")?;
    if len.is_some_and(|len| len < bytes.len() as u64) {
        return refuse(line, format!("{name} has more values than room"));
    }
    Ok(Variable { name, align, len, bytes })
}

fn entry(tokens: &mut Tokens) -> Result<Entry> {
    let line = tokens.line();
    let name = tokens.word()?;
    let mut entry =
        Entry { name, line, parameters: Vec::new(), registers: Vec::new(), shared: Vec::new(), statements: Vec::new() };
    tokens.expect("(")?;
    while !tokens.take(")") {
        tokens.expect(".param")?;
        let line = tokens.line();
        let len = match tokens.word()?.as_str() {
            ".u32" => 4,
            ".u64" => 8,
            other => return refuse(line, format!("a parameter of type {other} is not simulated")),
        };
        entry.parameters.push(Parameter { name: tokens.word()?, len });
        let _ = tokens.take(",");
    }
    tokens.expect("{")?;
    while !tokens.take("}") {
        if tokens.take(".reg") {
            entry.registers.push(registers(tokens)?);
        } else if tokens.take(".shared") {
            entry.shared.push(variable(tokens)?);
        } else if tokens.take(".pragma") {
            // How a loop is compiled.
            tokens.expect("\"nounroll\"")?;
            tokens.expect(";")?;
        } else {
            entry.statements.push(statement(tokens)?);
        }
    }
    Ok(entry)
}

fn registers(tokens: &mut Tokens) -> Result<Registers> {
    let line = tokens.line();
    let bits = match tokens.word()?.as_str() {
        ".pred" => 1,
        ".b16" => 16,
        ".b32" => 32,
        ".b64" => 64,
        other => return refuse(line, format!("a register of type {other} is not simulated")),
    };
    let prefix = tokens.word()?;
    tokens.expect("<")?;
    let count = tokens.unsigned()?;
    tokens.expect(">")?;
    tokens.expect(";")?;
    let Ok(count) = u32::try_from(count) else { return refuse(line, "too many registers") };
    Ok(Registers { prefix, bits, count })
}

fn statement(tokens: &mut Tokens) -> Result<Statement> {
    let line = tokens.line();
    let mut guard = None;
    if tokens.take("@") {
        let negated = tokens.take("!");
        guard = Some((tokens.word()?, negated));
    }
    let opcode = tokens.word()?;
    if guard.is_none() && tokens.take(":") {
        return Ok(Statement::Label(opcode));
    }
    let mut operands = Vec::new();
    while !tokens.take(";") {
        if !operands.is_empty() {
            tokens.expect(",")?;
        }
        operands.push(operand(tokens)?);
    }
    Ok(Statement::Instruction(Instruction { line, guard, opcode, operands }))
}

fn operand(tokens: &mut Tokens) -> Result<Operand> {
    if tokens.take("[") {
        let base = tokens.word()?;
        let offset = if tokens.take("+") { tokens.number()? } else { 0 };
        tokens.expect("]")?;
        let Ok(offset) = i64::try_from(offset) else { return refuse(tokens.line(), "an offset is too large") };
        return Ok(Operand::Address(base, offset));
    }
    if tokens.take("{") {
        let mut names = vec![tokens.word()?];
        while !tokens.take("}") {
            tokens.expect(",")?;
            names.push(tokens.word()?);
        }
        return Ok(Operand::Vector(names));
    }
    match tokens.peek() {
        Some(Token::Word(_)) => Ok(Operand::Name(tokens.word()?)),
        _ => Ok(Operand::Number(tokens.number()?)),
    }
}
