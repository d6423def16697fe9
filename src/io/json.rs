//! The little JSON that headers of files are made of. The crates for it are no choice: what `serde_json` implements for
//! numbers keeps programs that use this library from comparing shapes with `[]`.

mod tree;

pub(super) use tree::Tree;

/// What is left of a text.
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Json<'a> {
    /// Reads a whole text as one value, or says what is wrong.
    pub fn read<T>(
        text: &'a str,
        value: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut json = Json { text, at: 0 };
        let value = value(&mut json)?;
        match json.next() {
            None => Ok(value),
            Some(_) => Err(json.expected("the end")),
        }
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is = self.next() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn expected(&self, what: &str) -> String {
        format!("{what} is expected at byte {} of its JSON", self.at)
    }

    fn list(
        &mut self,
        [open, close]: [u8; 2],
        mut item: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        if !self.eat(open) {
            return Err(self.expected(if open == b'{' { "an object" } else { "a list" }));
        }
        if self.eat(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.eat(close) {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.expected("a comma"));
            }
        }
    }

    /// An object, whose entries are read by a function.
    pub fn object(
        &mut self,
        mut entry: impl FnMut(&mut Self, String) -> Result<(), String>,
    ) -> Result<(), String> {
        self.list(*b"{}", |json| {
            let name = json.string()?;
            match json.eat(b':') {
                true => entry(json, name),
                false => Err(json.expected("a colon")),
            }
        })
    }

    /// A list of integers that are not negative.
    pub fn sizes(&mut self) -> Result<Vec<usize>, String> {
        let mut sizes = Vec::new();
        self.list(*b"[]", |json| {
            sizes.push(json.size()?);
            Ok(())
        })?;
        Ok(sizes)
    }

    fn size(&mut self) -> Result<usize, String> {
        self.next();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let digits = &rest[..end.unwrap_or(rest.len())];
        let size = digits.parse().map_err(|_| self.expected("a size"))?;
        self.at += digits.len();
        Ok(size)
    }

    /// A text.
    pub fn string(&mut self) -> Result<String, String> {
        if !self.eat(b'"') {
            return Err(self.expected("a text"));
        }
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .find(['"', '\\'])
                .ok_or("a text of its JSON does not end")?;
            text.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Ok(text);
            }
            text.push(self.escaped()?);
        }
    }

    /// The character that stands behind a backslash.
    fn escaped(&mut self) -> Result<char, String> {
        let byte = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        Ok(match byte {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => byte.into(),
            Some(b'u') => self.unicode()?,
            _ => {
                self.at -= 1;
                return Err(self.expected("an escaped character"));
            }
        })
    }

    /// A character as four hexadecimal digits, or as two surrogates of four.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.unit()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            units.push(self.unit()?);
        }
        let mut read = char::decode_utf16(units);
        match (read.next(), read.next()) {
            (Some(Ok(c)), None) => Ok(c),
            _ => Err("an escaped character of its JSON is half of one".to_owned()),
        }
    }

    fn unit(&mut self) -> Result<u16, String> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.expected("a character in four digits"))?;
        self.at += 4;
        Ok(unit)
    }

    /// Passes over a value of any kind, of which only brackets and texts are looked at. Nesting costs nothing.
    pub fn skip(&mut self) -> Result<(), String> {
        let mut depth = 0usize;
        loop {
            match self.next() {
                None => return Err(self.expected("a value")),
                Some(b'"') => drop(self.string()?),
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b':') if depth > 0 => self.at += 1,
                Some(_) => {
                    let rest = &self.text[self.at..];
                    let end = rest.find(|c: char| !c.is_alphanumeric() && !"+-.".contains(c));
                    match end.unwrap_or(rest.len()) {
                        0 => return Err(self.expected("a value")),
                        len => self.at += len,
                    }
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

/// A text in quotation marks.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Result<String, String> {
        Json::read(text, Json::string)
    }

    #[test]
    fn texts() {
        assert_eq!(
            string(" \"a\\n\\u00e9\\/\\ud83e\\udd80\" ").as_deref(),
            Ok("a\n\u{e9}/\u{1f980}")
        );
        for text in [
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12\u{e9}\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\u+123\"",
            "\"a\"b",
            "a",
            "",
        ] {
            assert!(string(text).is_err(), "{text}");
        }
        for text in ["", "\"\\\u{1}\u{1f980}\n", "plain"] {
            assert_eq!(string(&quoted(text)).as_deref(), Ok(text));
        }
    }

    #[test]
    fn objects_and_sizes() {
        let read = |text: &str| {
            let mut found = Vec::new();
            Json::read(text, |json| {
                json.object(|json, name| match &*name {
                    "other" => json.skip(),
                    _ => {
                        found.push((name, json.sizes()?));
                        Ok(())
                    }
                })
            })?;
            Ok::<_, String>(found)
        };
        let text =
            "{\"a\": [1, 2 ],\"other\":{\"x\":[-1.5e+3,{},[true,null]],\"y\":\"]}\"} , \"b\":[]}";
        assert_eq!(
            read(text),
            Ok(vec![("a".to_owned(), vec![1, 2]), ("b".to_owned(), vec![])])
        );
        assert_eq!(read(" {} "), Ok(vec![]));
        for text in [
            "",
            "{",
            "[]",
            "{\"a\"}",
            "{\"a\":[1,]}",
            "{\"a\":[-1]}",
            "{\"a\":[1.5]}",
            "{\"a\":[1 2]}",
            "{,}",
            "{\"a\":[99999999999999999999]}",
            "{\"a\":[1]}}",
            "{\"other\":}",
            "{\"other\":[1,2}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let deep = format!("{{\"other\":{}", "[".repeat(1 << 20));
        assert!(read(&deep).is_err());
    }
}
