//! The sentences and conclusions of an answer as rules over figures that have names. `figures.json` has the rules.
//!
//! In a sentence `{a}` and `{a / b}` stand for figures, and `{a > b ? one : other}` for words that depend on them. A
//! name can also stand for words. A sentence is used if all its names are known. A conclusion is a condition, such as
//! `a > b & b > 1`. It counts as not run if a name in it is not known.

use super::{Claim, Reason, Said, shown};
use crate::report::text::filled;

/// What a name stands for: a figure, if it is known, or words, if they are to be used.
pub enum Fact {
    Figure(Option<f64>),
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
#[derive(Default)]
pub struct Facts(pub Vec<(&'static str, Fact)>);

/// A list of names, each with a figure, or with words in brackets.
macro_rules! facts {
    ($($name:literal: $fact:expr),* $(,)?) => {
        $crate::report::answer::rules::Facts(vec![$(($name, $fact.into())),*])
    };
}
pub(crate) use facts;

/// A rule is `say` and sentences, of which the first possible one is used. Or it is a reason, a conclusion of the paper
/// and its condition. The reason is given if the conclusion does not hold.
pub type Rule = Vec<String>;

impl Facts {
    /// The sentences and conclusions that rules make from these facts.
    pub fn by<'a>(&self, rules: impl IntoIterator<Item = &'a Rule>) -> (Vec<Said>, Vec<Claim>) {
        let (mut all, mut claims) = (Vec::new(), Vec::new());
        for rule in rules {
            match &rule[..] {
                [say, patterns @ ..] if say == "say" => all.extend(self.first(patterns)),
                [reason, text, condition] => claims.extend(self.said(text).map(|said| {
                    let (text, holds) = (said.text, self.holds(condition));
                    Claim { text, holds, reason: Reason::of(reason) }
                })),
                _ => panic!("{rule:?}"),
            }
        }
        (all, claims)
    }

    /// The first of these sentences whose names are all known.
    pub fn first(&self, patterns: &[String]) -> Option<Said> {
        patterns.iter().find_map(|pattern| self.said(pattern))
    }

    fn find(&self, name: &str) -> Option<&Fact> {
        Some(&self.0.iter().find(|(known, _)| *known == name)?.1)
    }

    fn said(&self, pattern: &str) -> Option<Said> {
        let mut figures = Vec::new();
        let text = filled(pattern, |gap| match (gap.split_once(" ? "), self.find(gap)) {
            (Some((condition, words)), _) => {
                let (one, other) = words.split_once(" : ").expect("one or the other");
                Some(if self.holds(condition)? { one } else { other }.to_owned())
            }
            (_, Some(Fact::Words(words))) => words.clone(),
            _ => {
                let figure = self.figure(gap)?;
                figures.push(figure);
                Some(shown(figure))
            }
        })?;
        Some(Said { text, figures })
    }

    /// Computes products and quotients from left to right.
    fn figure(&self, expression: &str) -> Option<f64> {
        let one = |word: &str| match (word.parse(), self.find(word)) {
            (Ok(number), _) => Some(number),
            (_, Some(Fact::Figure(figure))) => *figure,
            _ => panic!("there is no figure {word}"),
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

    fn rule<const N: usize>(words: [&str; N]) -> Rule {
        words.map(String::from).to_vec()
    }

    #[test]
    fn rules_make_sentences_and_conclusions_from_known_facts() {
        let facts = facts! { "a": Some(6.0), "b": Some(1.5), "none": None::<f64>, "n": [4], "silent": None::<&str> };
        let said = |pattern: &str| facts.said(pattern).map(|said| (said.text, said.figures));
        assert_eq!(said("{n} do {a / b * 2}, {a > b ? more : less}"), Some(("4 do 8, more".into(), vec![8.0])));
        assert_eq!((said("{a / none}"), said("{none}"), said("{silent}")), (None, None, None));
        let holds = ["a > b & b > 1", "a > b & none > 1", "b > a", "a", ""].map(|condition| facts.holds(condition));
        assert_eq!(holds, [Some(true), None, Some(false), Some(true), None]);
        let rules =
            [rule(["say", "{none}", "{a}"]), rule(["holds", "{n} win", "b > a"]), rule(["holds", "{silent}", ""])];
        let (said, claims) = facts.by(&rules);
        assert_eq!((said[0].text.as_str(), said.len(), claims.len()), ("6", 1, 1));
        assert_eq!((claims[0].text.as_str(), claims[0].holds), ("4 win", Some(false)));
    }

    #[test]
    #[should_panic(expected = "no figure c")]
    fn an_unknown_name_panics() {
        facts! { "a": Some(1.0) }.holds("c > 1");
    }
}
