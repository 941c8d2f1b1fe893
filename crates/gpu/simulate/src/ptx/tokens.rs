//! The words, numbers and signs of PTX, with their lines.

use super::{Result, refuse};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name, a directive, an opcode, or a quoted text with its quotes.
    Word(String),
    Number(String),
    Sign(char),
}

pub struct Tokens {
    tokens: Vec<(Token, u32)>,
    at: usize,
}

fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || "._%$".contains(c)
}

impl Tokens {
    pub fn new(text: &str) -> Result<Self> {
        let mut tokens = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let mut rest = text.split("//").next().unwrap_or_default();
            loop {
                rest = rest.trim_start();
                let Some(first) = rest.chars().next() else { break };
                let end = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                let (token, len) = if begins_word(first) {
                    let len = end(|c| begins_word(c) || c.is_ascii_digit());
                    (Token::Word(rest[..len].into()), len)
                } else if first.is_ascii_digit() {
                    let len = end(|c| c.is_ascii_alphanumeric() || c == '.');
                    (Token::Number(rest[..len].into()), len)
                } else if first == '"' {
                    let Some(len) = rest[1..].find('"') else { return refuse(line, "a text without an end") };
                    (Token::Word(rest[..len + 2].into()), len + 2)
                } else if "()[]{}<>,;:=+-@!".contains(first) {
                    (Token::Sign(first), 1)
                } else {
                    return refuse(line, format!("unexpected {first:?}"));
                };
                tokens.push((token, line));
                rest = &rest[len..];
            }
        }
        Ok(Self { tokens, at: 0 })
    }

    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// The line of the next token.
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    /// Takes the next token, if it is this one.
    pub fn take(&mut self, text: &str) -> bool {
        let is_next = match self.peek() {
            Some(Token::Word(word)) => word == text,
            Some(Token::Sign(sign)) => text.chars().eq([*sign]),
            _ => false,
        };
        self.at += usize::from(is_next);
        is_next
    }

    pub fn expect(&mut self, text: &str) -> Result<()> {
        if self.take(text) {
            Ok(())
        } else {
            refuse(self.line(), format!("{text} is missing before {:?}", self.peek()))
        }
    }

    /// A name, directive or opcode, or a number as it is written.
    pub fn word(&mut self) -> Result<String> {
        match self.peek().cloned() {
            Some(Token::Word(word) | Token::Number(word)) => {
                self.at += 1;
                Ok(word)
            }
            other => refuse(self.line(), format!("a word is missing before {other:?}")),
        }
    }

    pub fn number(&mut self) -> Result<i128> {
        let negative = self.take("-");
        let Some(Token::Number(text)) = self.peek().cloned() else {
            return refuse(self.line(), format!("a number is missing before {:?}", self.peek()));
        };
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let Ok(number) = number else { return refuse(self.line(), format!("{text} is no number that is simulated")) };
        self.at += 1;
        Ok(if negative { -i128::from(number) } else { i128::from(number) })
    }

    pub fn unsigned(&mut self) -> Result<u64> {
        let number = self.number()?;
        u64::try_from(number).or_else(|_| refuse(self.line(), format!("{number} is negative")))
    }
}
