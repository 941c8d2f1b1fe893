//! The body of a request, parsed as a stream: only what an endpoint knows is kept, as slices of the body, and the items of
//! a batch are passed on one by one.

use super::loose;
use super::text::{Raw, Text};
use crate::refusal::Refusal;
use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::cell::Cell;
use std::fmt;

/// The most fields of a request that its endpoint does not know.
const UNKNOWN: usize = 100;

/// The name of the field that has the items of a batch.
const ITEMS: &str = "batch_input";

/// The fields of an item.
const ITEM: [&str; 8] =
    ["plaintext", "ciphertext", "context", "associated_data", "key_version", "reference", "nonce", "padding_scheme"];

/// An item of a batch.
pub struct Item<'a> {
    /// Its number, from 0.
    pub number: usize,
    values: [Option<Raw<'a>>; ITEM.len()],
}

impl<'a> Item<'a> {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<Raw<'a>> {
        ITEM.iter().position(|own| *own == name).and_then(|field| self.values[field])
    }

    /// A text. Null is none.
    ///
    /// # Errors
    /// If it is no string.
    pub fn string(&self, name: &str) -> Result<Option<Text<'a>>, Refusal> {
        match self.get(name) {
            None | Some(Raw::Null) => Ok(None),
            Some(value) => value.string().map(Some).ok_or_else(|| self.wrong(name, "string", value)),
        }
    }

    /// A number. Null is none, and unlike Vault's a string may have it.
    ///
    /// # Errors
    /// If it is none.
    pub fn int(&self, name: &str) -> Result<Option<i64>, Refusal> {
        match self.get(name) {
            None | Some(Raw::Null) => Ok(None),
            Some(value @ (Raw::Number(_) | Raw::String(_))) => {
                loose::int(value).map(Some).map_err(|_| self.wrong(name, "int", value))
            }
            Some(value) => Err(self.wrong(name, "int", value)),
        }
    }

    /// The refusal of the whole batch for a field of the wrong type.
    pub fn wrong(&self, name: &str, wanted: &str, value: Raw<'_>) -> Refusal {
        let got = value.go_type();
        self.refuse(&format!("'[{}].{name}' expected type '{wanted}', got unconvertible type '{got}'", self.number))
    }

    /// The refusal of the whole batch for something that this item lacks.
    pub fn missing(&self, name: &str, why: &str) -> Refusal {
        self.refuse(&format!("'[{}].{name}' {why}", self.number))
    }

    fn refuse(&self, why: &str) -> Refusal {
        no_batch(format!("1 error(s) decoding:\n\n* {why}"))
    }
}

fn no_batch(why: String) -> Refusal {
    Refusal::invalid(format!("failed to parse batch input: {why}"))
}

/// The fields of a request.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    known: Vec<(&'static str, Raw<'a>)>,
    unknown: Vec<String>,
    /// How many items its batch has, if it has one.
    pub items: Option<usize>,
}

impl<'a> Fields<'a> {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.known.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// A text.
    ///
    /// # Errors
    /// If it cannot be one.
    pub fn string(&self, name: &str) -> Result<Option<Text<'a>>, Refusal> {
        self.convert(name, loose::string)
    }

    /// A whole number.
    ///
    /// # Errors
    /// If it cannot be one.
    pub fn int(&self, name: &str) -> Result<Option<i64>, Refusal> {
        self.convert(name, loose::int)
    }

    /// A field that is true or false.
    ///
    /// # Errors
    /// If it is neither.
    pub fn bool(&self, name: &str) -> Result<Option<bool>, Refusal> {
        self.convert(name, loose::bool)
    }

    /// A duration in seconds. Null is none.
    ///
    /// # Errors
    /// If it cannot be one.
    pub fn duration(&self, name: &str) -> Result<Option<u64>, Refusal> {
        if matches!(self.get(name), Some(Raw::Null)) { Ok(None) } else { self.convert(name, loose::duration) }
    }

    /// Texts.
    ///
    /// # Errors
    /// If they cannot be.
    pub fn list(&self, name: &str) -> Result<Option<Vec<String>>, Refusal> {
        self.convert(name, loose::list)
    }

    fn convert<T>(&self, name: &str, by: fn(Raw<'a>) -> Result<T, String>) -> Result<Option<T>, Refusal> {
        self.get(name).map(|value| by(value).map_err(|why| loose::refuse(name, &why))).transpose()
    }

    /// What Vault says of fields that the endpoint does not know, and of those that its path has.
    pub fn warnings(&self, in_path: &[&str]) -> Vec<String> {
        let (mut replaced, mut ignored): (Vec<&str>, Vec<&str>) =
            self.unknown.iter().map(String::as_str).partition(|name| in_path.contains(name));
        ignored.sort_unstable();
        replaced.sort_unstable();
        let mut warnings = Vec::new();
        if !ignored.is_empty() {
            warnings.push(format!("Endpoint ignored these unrecognized parameters: [{}]", ignored.join(" ")));
        }
        if !replaced.is_empty() {
            let path =
                "Endpoint replaced the value of these parameters with the values captured from the endpoint's path";
            warnings.push(format!("{path}: [{}]", replaced.join(" ")));
        }
        warnings
    }
}

/// Reads a body without a batch.
///
/// # Errors
/// If it is no JSON, no object, or has a field twice.
pub fn read<'a>(body: &'a [u8], known: &'static [&'static str]) -> Result<Fields<'a>, Refusal> {
    parse(body, known, None)
}

/// Reads a body that may have a batch, and passes on each of its items.
///
/// # Errors
/// If it is no JSON, no object, or has a field twice; if there are more than `most` items; if `each` refuses.
pub fn read_batch<'a>(
    body: &'a [u8],
    known: &'static [&'static str],
    most: usize,
    mut each: impl FnMut(Item<'a>) -> Result<(), Refusal>,
) -> Result<Fields<'a>, Refusal> {
    parse(body, known, Some(Batch { most, each: &mut each }))
}

struct Batch<'e, 'a> {
    most: usize,
    each: &'e mut dyn FnMut(Item<'a>) -> Result<(), Refusal>,
}

fn parse<'a>(
    body: &'a [u8],
    known: &'static [&'static str],
    batch: Option<Batch<'_, 'a>>,
) -> Result<Fields<'a>, Refusal> {
    let text = str::from_utf8(body).map_err(|_| malformed("invalid UTF-8"))?;
    if text.trim_ascii().is_empty() {
        return Ok(Fields::default());
    }
    let why = Cell::new(None);
    let mut parser = serde_json::Deserializer::from_str(text);
    let request = Request { known, batch, why: &why, fields: Fields::default() };
    let parsed = parser.deserialize_any(request).and_then(|fields| parser.end().map(|()| fields));
    parsed.map_err(|error| why.take().unwrap_or_else(|| malformed(&error.to_string())))
}

/// The refusal of what is no JSON. The parser's own lines have nothing of the body in them.
fn malformed(why: &str) -> Refusal {
    Refusal::invalid(format!("error parsing JSON: {why}"))
}

/// Ends the parser, and says why beside it.
fn stop<E: serde::de::Error>(why: &Cell<Option<Refusal>>, refusal: Refusal) -> E {
    why.set(Some(refusal));
    E::custom("refused")
}

/// Visits what is not wanted there.
macro_rules! others {
    ($($name:ident($value:ty) => $what:literal),*) => {
        $(fn $name<E: serde::de::Error>(self, _: $value) -> Result<Self::Value, E> {
            Err(self.other($what))
        })*
    };
}

/// The whole body.
struct Request<'w, 'e, 'a> {
    known: &'static [&'static str],
    batch: Option<Batch<'e, 'a>>,
    why: &'w Cell<Option<Refusal>>,
    fields: Fields<'a>,
}

impl Request<'_, '_, '_> {
    fn other<E: serde::de::Error>(&self, what: &str) -> E {
        let go = "failed to parse JSON input: json: cannot unmarshal";
        stop(self.why, malformed(&format!("{go} {what} into Go value of type map[string]interface {{}}")))
    }

    /// Reads the value of a field.
    fn value<'a, A: MapAccess<'a>>(request: &mut Request<'_, '_, 'a>, name: Name, map: &mut A) -> Result<(), A::Error> {
        let twice = |name: &str| stop(request.why, malformed(&format!("duplicate key '{}' in object", short(name))));
        match name {
            Name::Known(ITEMS) if request.fields.items.is_some() => return Err(twice(ITEMS)),
            Name::Known(ITEMS) => {
                if let Some(batch) = request.batch.as_mut() {
                    request.fields.items = map.next_value_seed(Items { batch, why: request.why })?;
                }
            }
            Name::Known(name) => {
                let value = Raw::of(map.next_value::<&RawValue>()?.get());
                if request.fields.get(name).is_some() {
                    return Err(twice(name));
                }
                request.fields.known.push((name, value));
            }
            Name::Unknown(name) => {
                if request.fields.unknown.contains(&name) {
                    return Err(twice(&name));
                }
                if request.fields.unknown.len() == UNKNOWN {
                    return Err(stop(request.why, Refusal::invalid("the request has too many unknown fields")));
                }
                request.fields.unknown.push(name);
                map.next_value_seed(Skip)?;
            }
        }
        Ok(())
    }
}

impl<'a> Visitor<'a> for Request<'_, '_, 'a> {
    type Value = Fields<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<Fields<'a>, A::Error> {
        let has_batch = self.batch.is_some();
        let known = self.known;
        while let Some(name) = map.next_key_seed(Names { known, has_batch })? {
            Self::value(&mut self, name, &mut map)?;
        }
        Ok(self.fields)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Fields<'a>, E> {
        Ok(self.fields)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, _: A) -> Result<Fields<'a>, A::Error> {
        Err(self.other("array"))
    }

    others!(visit_str(&str) => "string", visit_bool(bool) => "bool", visit_u64(u64) => "number", visit_i64(i64) => "number", visit_f64(f64) => "number");
}

/// The name of a field.
enum Name {
    Known(&'static str),
    Unknown(String),
}

struct Names {
    known: &'static [&'static str],
    has_batch: bool,
}

impl<'a> DeserializeSeed<'a> for Names {
    type Value = Name;

    fn deserialize<D: Deserializer<'a>>(self, parser: D) -> Result<Name, D::Error> {
        parser.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Names {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Name, E> {
        if self.has_batch && name == ITEMS {
            return Ok(Name::Known(ITEMS));
        }
        Ok(match self.known.iter().find(|known| **known == name) {
            Some(known) => Name::Known(known),
            None => Name::Unknown(short(name)),
        })
    }
}

/// The start of a name that a client has made up.
fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// The items of a batch.
struct Items<'r, 'e, 'a> {
    batch: &'r mut Batch<'e, 'a>,
    why: &'r Cell<Option<Refusal>>,
}

impl Items<'_, '_, '_> {
    fn other<E: serde::de::Error>(&self, what: &str) -> E {
        stop(self.why, no_batch(format!("source data must be an array or slice, got {what}")))
    }
}

impl<'a> DeserializeSeed<'a> for Items<'_, '_, 'a> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, parser: D) -> Result<Option<usize>, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Items<'_, '_, 'a> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Option<usize>, A::Error> {
        let mut number = 0;
        while seq.next_element_seed(OneItem { number, batch: self.batch, why: self.why })?.is_some() {
            number += 1;
        }
        Ok(Some(number))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Option<usize>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'a>>(self, _: A) -> Result<Option<usize>, A::Error> {
        Err(self.other("map"))
    }

    others!(visit_str(&str) => "string", visit_bool(bool) => "bool", visit_u64(u64) => "json.Number", visit_i64(i64) => "json.Number", visit_f64(f64) => "json.Number");
}

/// One item.
struct OneItem<'r, 'e, 'a> {
    number: usize,
    batch: &'r mut Batch<'e, 'a>,
    why: &'r Cell<Option<Refusal>>,
}

impl OneItem<'_, '_, '_> {
    fn other<E: serde::de::Error>(&self, what: &str) -> E {
        stop(self.why, no_batch(format!("[{}] expected a map, got '{what}'", self.number)))
    }
}

impl<'a> DeserializeSeed<'a> for OneItem<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, parser: D) -> Result<(), D::Error> {
        if self.number == self.batch.most {
            return Err(stop(self.why, Refusal::invalid("JSON array exceeds allowed element count")));
        }
        parser.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for OneItem<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut values = [None; ITEM.len()];
        while let Some(field) = map.next_key_seed(ItemNames)? {
            let Some(field) = field else {
                map.next_value_seed(Skip)?;
                continue;
            };
            let value = Raw::of(map.next_value::<&RawValue>()?.get());
            if values[field].replace(value).is_some() {
                return Err(stop(self.why, malformed(&format!("duplicate key '{}' in object", ITEM[field]))));
            }
        }
        (self.batch.each)(Item { number: self.number, values }).map_err(|refusal| stop(self.why, refusal))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, _: A) -> Result<(), A::Error> {
        Err(self.other("slice"))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Err(self.other("nil"))
    }

    others!(visit_str(&str) => "string", visit_bool(bool) => "bool", visit_u64(u64) => "json.Number", visit_i64(i64) => "json.Number", visit_f64(f64) => "json.Number");
}

struct ItemNames;

impl<'a> DeserializeSeed<'a> for ItemNames {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, parser: D) -> Result<Option<usize>, D::Error> {
        parser.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for ItemNames {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(ITEM.iter().position(|known| *known == name))
    }
}

/// A value that nobody reads. Its depth is bounded by the parser.
struct Skip;

impl<'a> DeserializeSeed<'a> for Skip {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Skip {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Skip)?.is_some() {
            map.next_value_seed(Skip)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Skip)?.is_some() {}
        Ok(())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
}
