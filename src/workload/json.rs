//! JSON as a tool printed it, with the name to which it gives two values.
//!
//! Most readers of JSON keep the last of several values of one name. Which one a tool means nobody
//! can tell, so whoever reads a number asks here whether there are two. The same value said twice
//! contradicts nothing.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt::{self, Formatter};

/// A value that was printed.
pub(super) struct Document {
    /// The value; of several of one name the last.
    pub(super) value: Value,
    /// The first name that one of its objects gives to two different values.
    pub(super) twice: Option<String>,
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self { value, twice: None }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

/// Builds a document from the inside out.
struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Document, E> {
        Ok(Value::Null.into())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Document, E> {
        Ok(Value::from(value).into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Document, E> {
        Ok(Value::from(value).into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Document, E> {
        Ok(Value::from(value).into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Document, E> {
        Ok(Value::from(value).into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Document, E> {
        Ok(Value::from(value).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Document, A::Error> {
        let (mut list, mut twice) = (Vec::new(), None);
        while let Some(item) = items.next_element::<Document>()? {
            twice = twice.or(item.twice);
            list.push(item.value);
        }
        Ok(Document { value: Value::Array(list), twice })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Document, A::Error> {
        let (mut object, mut twice) = (Map::new(), None);
        while let Some((name, item)) = entries.next_entry::<String, Document>()? {
            twice = twice.or(item.twice);
            if twice.is_none() && object.get(&name).is_some_and(|before| *before != item.value) {
                twice = Some(name.clone());
            }
            object.insert(name, item.value);
        }
        Ok(Document { value: Value::Object(object), twice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Document {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_document_is_what_any_reader_makes_of_it() {
        let text =
            r#" {"a": [null, true, -1, 18446744073709551615, 0.1, "é\n", [], {}], "b": 1e3} "#;
        let Document { value, twice } = read(text);
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(twice, None);
        assert!(serde_json::from_str::<Document>("{\"a\": }").is_err());
    }

    #[test]
    fn a_name_with_two_values_is_told_however_deep_it_stands() {
        for text in [
            r#"{"n": 1, "n": 2}"#,
            r#"[0, {"a": {"n": 1, "m": 1, "n": null}}]"#,
            r#"{"a": {"n": [1], "n": [2]}, "a": {"n": [2]}}"#,
            r#"{"n": 1, "\u006e": 2}"#,
        ] {
            assert_eq!(read(text).twice.as_deref(), Some("n"), "{text}");
        }
        assert_eq!(read(r#"{"n": 1, "a": {"n": 2}, "n": 1}"#).twice, None);
    }
}
