//! The sentences and conclusions of an answer as a table of rules over figures that have names.
//!
//! In a sentence `{a}` and `{a / b}` stand for figures, `{a > b ? one : other}` for words that depend on them, and a name can stand
//! for words too. A sentence is said if all its names are known. A conclusion is a condition, `a > b & b > 1`, and is not run if
//! a name in it is not known.

use super::{Claim, Reason, Said, shown};

/// What a name stands for.
pub enum Fact {
    /// A figure, if it is known.
    Figure(Option<f64>),
    /// Words, if they are to be said.
    Words(Option<String>),
}

impl From<Option<f64>> for Fact {
    fn from(figure: Option<f64>) -> Self {
        Fact::Figure(figure)
    }
}

impl From<Option<bool>> for Fact {
    fn from(holds: Option<bool>) -> Self {
        Fact::Figure(holds.map(f64::from))
    }
}

impl From<Option<&str>> for Fact {
    fn from(words: Option<&str>) -> Self {
        Fact::Words(words.map(String::from))
    }
}

impl<T: ToString> From<[T; 1]> for Fact {
    fn from([words]: [T; 1]) -> Self {
        Fact::Words(Some(words.to_string()))
    }
}

/// The named facts of an answer.
pub struct Facts(pub Vec<(&'static str, Fact)>);

/// A list of names, each with a figure, or with words in brackets.
macro_rules! facts {
    ($($name:literal: $fact:expr),* $(,)?) => {
        $crate::report::answer::rules::Facts(vec![$(($name, $fact.into())),*])
    };
}
pub(crate) use facts;

/// A sentence or a conclusion.
#[derive(Clone, Copy)]
pub enum Rule {
    /// The first of these sentences that can be said.
    Say(&'static [&'static str]),
    /// A conclusion of the paper, its condition, and why it does not hold, if so.
    Claim(&'static str, &'static str, Reason),
}

/// A conclusion that is refuted if it does not hold.
pub const fn holds(text: &'static str, condition: &'static str) -> Rule {
    Rule::Claim(text, condition, Reason::Refuted)
}

impl Facts {
    /// What the rules make of them.
    pub fn by(&self, rules: &[&[Rule]]) -> (Vec<Said>, Vec<Claim>) {
        let (mut all, mut claims) = (Vec::new(), Vec::new());
        for rule in rules.iter().copied().flatten() {
            match *rule {
                Rule::Say(patterns) => all.extend(patterns.iter().find_map(|pattern| self.said(pattern))),
                Rule::Claim(text, condition, reason) => {
                    let text = self.said(text).expect("its words are known").text;
                    claims.push(Claim { text, holds: self.holds(condition), reason });
                }
            }
        }
        (all, claims)
    }

    fn of(&self, name: &str) -> &Fact {
        let found = self.0.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("there is no fact {name}")).1
    }

    fn said(&self, pattern: &str) -> Option<Said> {
        let mut parts = pattern.split('{');
        let mut said = Said { text: parts.next()?.to_owned(), figures: Vec::new() };
        for (gap, rest) in parts.map(|part| part.split_once('}').expect("a gap has an end")) {
            if let Some((condition, words)) = gap.split_once(" ? ") {
                let (one, other) = words.split_once(" : ").expect("one or the other");
                said.text += if self.holds(condition)? { one } else { other };
            } else if let Some((_, Fact::Words(words))) = self.0.iter().find(|(known, _)| *known == gap) {
                said.text += words.as_ref()?;
            } else {
                let figure = self.figure(gap)?;
                said.text += &shown(figure);
                said.figures.push(figure);
            }
            said.text += rest;
        }
        Some(said)
    }

    /// Products and quotients, from the left to the right.
    fn figure(&self, expression: &str) -> Option<f64> {
        let one = |word: &str| match word.parse() {
            Ok(number) => Some(number),
            Err(_) => match self.of(word) {
                Fact::Figure(figure) => *figure,
                Fact::Words(_) => panic!("{word} is no figure"),
            },
        };
        let words: Vec<&str> = expression.split_whitespace().collect();
        words[1..].chunks(2).try_fold(one(words[0])?, |left, pair| match *pair {
            ["/", right] => Some(left / one(right)?),
            ["*", right] => Some(left * one(right)?),
            _ => panic!("{expression}"),
        })
    }

    /// Whether all of a condition holds. An empty one is never known.
    fn holds(&self, condition: &str) -> Option<bool> {
        let one = |condition: &str| match condition.split_once(" > ") {
            Some((left, right)) => Some(self.figure(left)? > self.figure(right)?),
            None => Some(self.figure(condition)? != 0.0),
        };
        if condition.is_empty() {
            return None;
        }
        condition.split(" & ").map(one).try_fold(true, |all, holds| Some(all && holds?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_make_sentences_and_conclusions_of_what_is_known() {
        let facts = facts! { "a": Some(6.0), "b": Some(1.5), "none": None::<f64>, "n": [4], "silent": None::<&str> };
        let said = |pattern: &str| facts.said(pattern).map(|said| (said.text, said.figures));
        assert_eq!(said("{n} do {a / b * 2}, {a > b ? more : less}"), Some(("4 do 8, more".into(), vec![8.0])));
        assert_eq!((said("{a / none}"), said("{none}"), said("{silent}")), (None, None, None));
        let holds = ["a > b & b > 1", "a > b & none > 1", "b > a", "a", ""].map(|condition| facts.holds(condition));
        assert_eq!(holds, [Some(true), None, Some(false), Some(true), None]);
        let (said, claims) = facts.by(&[&[Rule::Say(&["{none}", "{a}"]), super::holds("{n} win", "b > a")]]);
        assert_eq!((said[0].text.as_str(), claims[0].text.as_str(), claims[0].holds), ("6", "4 win", Some(false)));
    }

    #[test]
    #[should_panic(expected = "no fact c")]
    fn a_name_that_is_not_known_is_noticed() {
        facts! { "a": Some(1.0) }.holds("c > 1");
    }
}
