//! Sources, cut into code and comments.

use std::path::{Path, PathBuf};

/// A file of Rust.
pub struct Source {
    /// Where it lies below the repository's root.
    pub path: PathBuf,
    pub text: String,
    /// The code with blanks for comments, and for what literals hold; lines stay where they are.
    pub code: String,
    /// The first lines of paragraphs of comments, without their slashes: where, and what they say.
    pub comments: Vec<(usize, String)>,
}

/// The files of a folder and its subfolders, in order; none of a folder that is not there.
pub fn sources(root: &Path, folder: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return found;
    };
    let mut names: Vec<PathBuf> = entries
        .map(|entry| folder.join(entry.expect("a readable folder").file_name()))
        .collect();
    names.sort();
    for path in names {
        if root.join(&path).is_dir() {
            found.extend(sources(root, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(root.join(&path)).expect("a readable file");
            found.push(Source::new(path, text));
        }
    }
    found
}

/// How many characters a literal or comment takes that `rest` begins with, and what it is.
fn token(rest: &str, after_name: bool) -> Option<(usize, Token)> {
    if rest.starts_with("//") {
        return Some((rest.find('\n').unwrap_or(rest.len()), Token::Comment));
    }
    if rest.starts_with("/*") {
        return Some((
            rest.find("*/").map_or(rest.len(), |end| end + 2),
            Token::Comment,
        ));
    }
    if rest.starts_with('"') {
        return Some((quoted(rest), Token::Literal));
    }
    if !after_name && rest.starts_with('r') {
        let hashes = rest[1..].bytes().take_while(|b| *b == b'#').count();
        if rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = 2 + hashes;
            let found = rest[start..].find(&end).expect("a literal ends");
            return Some((start + found + end.len(), Token::Literal));
        }
    }
    if let Some(quoted) = rest.strip_prefix('\'') {
        let mut letters = quoted.char_indices();
        let (_, first) = letters.next()?;
        if first == '\\' {
            return rest[3..].find('\'').map(|end| (end + 4, Token::Literal));
        }
        if let Some((at, '\'')) = letters.next() {
            return Some((at + 2, Token::Literal));
        }
    }
    None
}

enum Token {
    Comment,
    Literal,
}

/// Bytes of a literal in quotes.
fn quoted(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

impl Source {
    fn new(path: PathBuf, text: String) -> Source {
        let (mut code, mut comments) = (String::with_capacity(text.len()), Vec::new());
        let mut at = 0;
        let (mut line, mut last_comment) = (1, 0);
        while let Some(letter) = text[at..].chars().next() {
            let after_name = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let Some((bytes, token)) = token(&text[at..], after_name) else {
                code.push(letter);
                line += usize::from(letter == '\n');
                at += letter.len_utf8();
                continue;
            };
            let taken = &text[at..at + bytes];
            match token {
                Token::Literal => code.push_str("\"\""),
                Token::Comment => {
                    let says = taken.trim_start_matches(['/', '!', '*']).trim();
                    // A line of a comment that goes on is none of its own.
                    if line != last_comment + 1 || says.is_empty() {
                        comments.push((line, says.to_owned()));
                    }
                    // What stands below a heading, or an empty line, begins anew.
                    let ends = says.is_empty() || says.starts_with('#');
                    last_comment = if ends { 0 } else { line };
                }
            }
            let lines = taken.matches('\n').count();
            code.extend(std::iter::repeat_n('\n', lines));
            line += lines;
            at += bytes;
        }
        Source {
            path,
            text,
            code,
            comments,
        }
    }

    /// The names of functions with bodies, the lines they begin at, and how many lines they have, signature included.
    pub fn functions(&self) -> Vec<(String, usize, usize)> {
        let mut found = Vec::new();
        let (mut line, mut counted) = (1, 0);
        for (at, _) in self.code.match_indices("fn ") {
            line += self.code[counted..at].matches('\n').count();
            counted = at;
            let whole = self.code[..at].ends_with(|c: char| c.is_whitespace() || c == '(');
            let name: String = self.code[at + 3..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let Some(length) = body_end(&self.code[at..]).filter(|_| whole || at == 0) else {
                continue;
            };
            if name.is_empty() {
                continue;
            }
            let lines = 1 + self.code[at..at + length].matches('\n').count();
            found.push((name, line, lines));
        }
        found
    }
}

/// Bytes from the beginning to the end of the first block; none where a semicolon comes first.
pub fn body_end(code: &str) -> Option<usize> {
    let (mut depth, mut brackets) = (0usize, 0usize);
    for (at, letter) in code.char_indices() {
        match letter {
            '(' | '[' if depth == 0 => brackets += 1,
            ')' | ']' if depth == 0 => brackets = brackets.checked_sub(1)?,
            ';' if depth == 0 && brackets == 0 => return None,
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}
