//! Whole documents: every value kept.

use super::Json;
use std::collections::HashSet;

/// Lists and objects within each other that are followed.
const DEEPEST: usize = 256;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::io) enum Tree {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    /// Entries in their order, no name twice.
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// Reads a document, or says what is wrong.
    pub fn read(text: &str) -> Result<Tree, String> {
        Json::read(text, |json| json.tree(0))
    }

    /// The value of an object's name; `None` where it is `null` too.
    pub fn get(&self, name: &str) -> Option<&Tree> {
        let Tree::Object(entries) = self else {
            return None;
        };
        let found = entries.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value)
            .filter(|&value| *value != Tree::Null)
    }

    /// The value of a name that an object must have.
    pub fn field(&self, name: &str) -> Result<&Tree, String> {
        self.get(name).ok_or_else(|| format!("has no {name:?}"))
    }

    /// The entries of an object.
    pub fn entries(&self) -> Result<&[(String, Tree)], String> {
        match self {
            Tree::Object(entries) => Ok(entries),
            other => Err(other.is_no("an object")),
        }
    }

    /// The items of a list.
    pub fn items(&self) -> Result<&[Tree], String> {
        match self {
            Tree::List(items) => Ok(items),
            other => Err(other.is_no("a list")),
        }
    }

    /// A text.
    pub fn text(&self) -> Result<&str, String> {
        match self {
            Tree::Text(text) => Ok(text),
            other => Err(other.is_no("a text")),
        }
    }

    /// An integer.
    pub fn int(&self) -> Result<i64, String> {
        match self {
            Tree::Int(number) => Ok(*number),
            other => Err(other.is_no("an integer")),
        }
    }

    /// A number, or the name that Python gives to one that JSON has not.
    pub fn float(&self) -> Result<f64, String> {
        match self {
            Tree::Int(number) => Ok(*number as f64),
            Tree::Float(number) => Ok(*number),
            Tree::Text(text) => unusual(text).ok_or_else(|| self.is_no("a number")),
            other => Err(other.is_no("a number")),
        }
    }

    /// A truth value.
    pub fn bool(&self) -> Result<bool, String> {
        match self {
            Tree::Bool(value) => Ok(*value),
            other => Err(other.is_no("a truth value")),
        }
    }

    fn is_no(&self, what: &str) -> String {
        let is = match self {
            Tree::Null => "null",
            Tree::Bool(_) => "a truth value",
            Tree::Int(_) | Tree::Float(_) => "a number",
            Tree::Text(_) => "a text",
            Tree::List(_) => "a list",
            Tree::Object(_) => "an object",
        };
        format!("has {is} where {what} is expected")
    }
}

fn unusual(text: &str) -> Option<f64> {
    Some(match text {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ => return None,
    })
}

impl Json<'_> {
    fn tree(&mut self, depth: usize) -> Result<Tree, String> {
        if depth > DEEPEST {
            return Err(format!("its JSON is nested deeper than {DEEPEST}"));
        }
        match self.next() {
            Some(b'"') => self.string().map(Tree::Text),
            Some(b'[') => {
                let mut items = Vec::new();
                self.list(*b"[]", |json| {
                    items.push(json.tree(depth + 1)?);
                    Ok(())
                })?;
                Ok(Tree::List(items))
            }
            Some(b'{') => {
                let (mut entries, mut names) = (Vec::new(), HashSet::new());
                self.object(|json, name| {
                    if !names.insert(name.clone()) {
                        return Err(format!("its JSON has {name:?} twice"));
                    }
                    let value = json.tree(depth + 1)?;
                    entries.push((name, value));
                    Ok(())
                })?;
                Ok(Tree::Object(entries))
            }
            _ => self.word(),
        }
    }

    /// A number, `true`, `false`, `null`, or one of Python's names of numbers.
    fn word(&mut self) -> Result<Tree, String> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        let word = &rest[..end.unwrap_or(rest.len())];
        let tree = match word {
            "null" => Tree::Null,
            "true" => Tree::Bool(true),
            "false" => Tree::Bool(false),
            _ => match (word.parse(), unusual(word)) {
                (Ok(number), _) if !word.starts_with('+') => Tree::Int(number),
                (_, Some(number)) => Tree::Float(number),
                _ if word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                    let number = word.parse();
                    Tree::Float(number.map_err(|_| self.expected("a number"))?)
                }
                _ => return Err(self.expected("a value")),
            },
        };
        self.at += word.len();
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents() {
        let text =
            "{\"a\": [1, -2.5e1, true, null, NaN, -Infinity], \"b\": {\"c\": \"x\"}, \"d\": null}";
        let tree = Tree::read(text).expect("a document");
        let items = tree.get("a").expect("a").items().expect("a list");
        assert_eq!(items[0].int(), Ok(1));
        assert_eq!(items[1].float(), Ok(-25.0));
        assert_eq!(items[2].bool(), Ok(true));
        assert!(items[4].float().expect("a number").is_nan());
        assert_eq!(items[5].float(), Ok(f64::NEG_INFINITY));
        assert_eq!(tree.field("b").and_then(|b| b.field("c")?.text()), Ok("x"));
        assert!(tree.get("d").is_none() && tree.field("d").is_err());
        assert!(items[0].text().is_err() && items[3].float().is_err());
    }

    #[test]
    fn what_is_no_document() {
        for text in [
            "",
            "{",
            "[1,]",
            "nul",
            "1x",
            "--1",
            "{\"a\":1,\"a\":2}",
            "[1] 2",
            "inf",
            "+1",
        ] {
            assert!(Tree::read(text).is_err(), "{text}");
        }
        assert!(Tree::read(&"[".repeat(1 << 20)).is_err());
    }
}
