//! Operands in C: registers, numbers, special registers and addresses.

use crate::ptx::{Entry, Operand, Result, refuse};
use std::collections::HashMap;

/// The names of an entry.
pub struct Names {
    registers: HashMap<String, u32>,
    /// The order in which they were declared.
    order: Vec<String>,
    variables: HashMap<String, u64>,
    parameters: HashMap<String, (usize, usize)>,
}

impl Names {
    pub fn new(
        entry: &Entry,
        variables: HashMap<String, u64>,
        parameters: &HashMap<String, (usize, usize)>,
    ) -> Result<Self> {
        let (mut registers, mut order) = (HashMap::new(), Vec::new());
        for group in &entry.registers {
            for number in 0..group.count {
                let name = format!("{}{number}", group.prefix);
                order.push(name.clone());
                if registers.insert(name, group.bits).is_some() {
                    return refuse(entry.line, format!("{} is declared twice", group.prefix));
                }
            }
        }
        Ok(Self { registers, order, variables, parameters: parameters.clone() })
    }

    /// All registers in C, with their widths.
    pub fn registers(&self) -> impl Iterator<Item = (&str, u32)> {
        self.order.iter().map(|name| (&name[1..], self.registers[name]))
    }

    /// The type of a width in C.
    pub fn kind(&self, bits: u32) -> &'static str {
        match bits {
            1 => "_Bool",
            16 => "uint16_t",
            32 => "uint32_t",
            _ => "uint64_t",
        }
    }

    /// A register of this width.
    pub fn register(&self, line: u32, name: &str, bits: u32) -> Result<String> {
        match self.registers.get(name) {
            Some(found) if *found == bits => Ok(name[1..].into()),
            Some(found) => refuse(line, format!("{name} has {found} bits where {bits} are needed")),
            None => refuse(line, format!("{name} is not a register")),
        }
    }

    /// A register, or a number, of this width.
    pub fn value(&self, line: u32, operand: &Operand, bits: u32) -> Result<String> {
        match operand {
            Operand::Name(name) => self.register(line, name, bits),
            Operand::Number(number) if bits > 1 && *number >= -(1 << (bits - 1)) && *number < 1 << bits => {
                let wrapped = *number & ((1 << bits) - 1);
                Ok(if bits == 64 { format!("UINT64_C({wrapped})") } else { format!("{wrapped}u") })
            }
            _ => refuse(line, format!("{operand:?} does not fit {bits} bits")),
        }
    }

    /// A register that takes a value of this width from memory, and may be wider.
    pub fn target(&self, line: u32, operand: &Operand, bits: u32) -> Result<String> {
        match operand {
            Operand::Name(name) if self.registers.get(name).is_some_and(|has| *has >= bits) => Ok(name[1..].into()),
            _ => refuse(line, format!("{operand:?} does not take {bits} bits")),
        }
    }

    /// A register whose lowest bits go to memory, or a number.
    pub fn at_least(&self, line: u32, operand: &Operand, bits: u32) -> Result<String> {
        match operand {
            Operand::Number(_) => self.value(line, operand, bits),
            Operand::Name(_) | Operand::Address(..) | Operand::Vector(_) => self.target(line, operand, bits),
        }
    }

    /// The place of a parameter of this width.
    pub fn parameter(&self, line: u32, name: &str, bits: u32) -> Result<usize> {
        match self.parameters.get(name) {
            Some((at, len)) if *len * 8 == bits as usize => Ok(*at),
            Some(_) => refuse(line, format!("{name} has another width")),
            None => refuse(line, format!("{name} is not a parameter")),
        }
    }

    /// A special register.
    pub fn special(&self, operand: &Operand) -> Option<String> {
        let Operand::Name(name) = operand else { return None };
        let special = [("%tid.x", "TID"), ("%ctaid.x", "CTAID"), ("%ntid.x", "NTID")];
        special.iter().find_map(|(ptx, c)| (ptx == name).then(|| (*c).into()))
    }

    /// The address of a variable.
    pub fn place_of(&self, operand: &Operand) -> Option<String> {
        let Operand::Name(name) = operand else { return None };
        self.variables.get(name).map(|at| format!("UINT64_C({at})"))
    }

    /// `base + offset`, where the base is a register of 64 bits or a variable.
    pub fn address(&self, line: u32, base: &str, offset: i64) -> Result<String> {
        let base = match self.variables.get(base) {
            Some(at) => format!("UINT64_C({at})"),
            None => self.register(line, base, 64)?,
        };
        Ok(format!("{base} + UINT64_C({})", offset as u64))
    }
}
