//! The imports between a crate's top-level modules.

use super::source::{Source, body_end};
use std::collections::{BTreeMap, BTreeSet};

/// Which top-level module imports which, and a file that does.
pub struct Graph {
    edges: BTreeMap<(String, String), String>,
}

/// A crate's top-level modules, and the modules of the names that its root exports.
struct Names {
    modules: BTreeSet<String>,
    exported: BTreeMap<String, String>,
}

/// The path of a file's module, from the crate's root.
fn module(source: &Source) -> Vec<String> {
    let parts = source.path.iter().map(|part| part.to_string_lossy());
    let mut path: Vec<String> = parts.skip(2).map(|part| part.replace(".rs", "")).collect();
    if path
        .last()
        .is_some_and(|last| last == "mod" || last == "lib")
    {
        path.pop();
    }
    path
}

/// The top-level modules in the order in which the root declares them.
pub fn declared(sources: &[&Source]) -> Vec<String> {
    let root = sources.iter().find(|source| module(source).is_empty());
    let code = root.map_or("", |source| &source.code);
    code.lines()
        .filter_map(|line| {
            let line = line
                .trim_start_matches("pub ")
                .trim_start_matches("pub(crate) ");
            let name = line.strip_prefix("mod ")?.strip_suffix(';')?;
            Some(name.to_owned())
        })
        .collect()
}

/// Code without what is compiled for tests alone.
fn without_tests(code: &str) -> String {
    let mut rest = code;
    let mut kept = String::new();
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        let item = &rest[at..];
        let end = body_end(item).or_else(|| item.find(';').map(|end| end + 1));
        rest = &item[end.unwrap_or(item.len())..];
    }
    kept + rest
}

/// The paths of a tree of imports, such as `a::{b, c::{d}}`.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, list)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or("");
        return vec![name.trim().to_owned()];
    };
    let list = list.trim_end().strip_suffix('}').unwrap_or(list);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in list.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match (letter, depth, parts.last_mut()) {
            (',', 0, _) => parts.push(String::new()),
            (_, _, Some(part)) => part.push(letter),
            _ => {}
        }
    }
    let full = |part: &String| -> Vec<String> {
        let ends = paths(part).into_iter();
        ends.map(|end| format!("{}{end}", prefix.trim())).collect()
    };
    parts
        .iter()
        .filter(|part| !part.trim().is_empty())
        .flat_map(full)
        .collect()
}

/// The trees of all `use` items, and the code without them.
fn imports(code: &str) -> (Vec<String>, String) {
    let (mut trees, mut kept) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        let at = statement.rfind("use ").filter(|&at| {
            let before = statement[..at].chars().next_back();
            before.is_none_or(|c| c.is_whitespace() || c == ')')
        });
        match at {
            Some(at) if !statement[at..].contains(['(', '=']) => {
                trees.push(statement[at + 4..].trim_end_matches(';').to_owned());
                kept.push_str(&statement[..at]);
            }
            _ => kept.push_str(statement),
        }
    }
    (trees, kept)
}

/// Paths within code that begin at the crate's root or above the module.
fn inline_paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let path: String = code[at..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
                .collect();
            found.push(path);
        }
    }
    found
}

impl Names {
    fn of(sources: &[&Source]) -> Names {
        let modules: BTreeSet<String> = sources
            .iter()
            .filter_map(|s| module(s).first().cloned())
            .collect();
        let root = sources.iter().find(|source| module(source).is_empty());
        let (trees, _) = imports(root.map_or("", |source| &source.code));
        let mut exported = BTreeMap::new();
        for path in trees.iter().flat_map(|tree| paths(tree)) {
            let parts: Vec<&str> = path.split("::").filter(|part| *part != "crate").collect();
            if let [first, .., last] = parts[..]
                && modules.contains(first)
            {
                exported.insert(last.to_owned(), first.to_owned());
            }
        }
        Names { modules, exported }
    }

    /// The top-level module that a path written in the module `from` leads to.
    fn lead(&self, from: &[String], path: &str) -> Option<String> {
        let mut parts = path.split("::").map(str::trim).peekable();
        let mut at: Vec<&str> = match parts.peek()? {
            &"crate" => Vec::new(),
            &"super" | &"self" => from.iter().map(String::as_str).collect(),
            // Another crate, or a module of this one.
            _ if from.is_empty() => Vec::new(),
            _ => return None,
        };
        for part in parts {
            match part {
                "crate" | "self" => {}
                "super" => {
                    at.pop();
                }
                name => at.push(name),
            }
        }
        let first = *at.first()?;
        match self.modules.contains(first) {
            true => Some(first.to_owned()),
            false => self.exported.get(first).cloned(),
        }
    }
}

impl Graph {
    pub fn of(sources: &[&Source]) -> Graph {
        let names = Names::of(sources);
        let mut edges = BTreeMap::new();
        for source in sources {
            let own = module(source);
            let Some(from) = own.first() else { continue };
            if own.iter().any(|part| part == "tests") {
                continue;
            }
            let (trees, rest) = imports(&without_tests(&source.code));
            let mut all: Vec<String> = trees.iter().flat_map(|tree| paths(tree)).collect();
            all.extend(inline_paths(&rest));
            for path in all {
                if let Some(to) = names.lead(&own, &path).filter(|to| to != from) {
                    let file = source.path.display().to_string();
                    edges.entry((from.clone(), to)).or_insert(file);
                }
            }
        }
        Graph { edges }
    }

    /// Every import: of which module, of which other, and a file that has it.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.edges
            .iter()
            .map(|((from, to), file)| (from.as_str(), to.as_str(), file.as_str()))
    }

    /// The imports between some modules, a line each.
    pub fn edges_within(&self, modules: &[String]) -> Vec<String> {
        let has = |module: &str| modules.iter().any(|other| other == module);
        self.edges()
            .filter(|(from, to, _)| has(from) && has(to))
            .map(|(from, to, file)| format!("    {from} -> {to} ({file})"))
            .collect()
    }

    /// The modules that one leads to, over any number of imports.
    fn reach(&self, from: &str) -> BTreeSet<String> {
        let mut met = BTreeSet::new();
        let mut stack = vec![from.to_owned()];
        while let Some(next) = stack.pop() {
            for (_, to, _) in self.edges().filter(|(from, _, _)| *from == next) {
                if met.insert(to.to_owned()) {
                    stack.push(to.to_owned());
                }
            }
        }
        met
    }
}

/// Sets of modules of which each leads to every other.
pub fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let modules: BTreeSet<&str> = graph.edges().map(|(from, _, _)| from).collect();
    let reach: BTreeMap<&str, BTreeSet<String>> =
        modules.iter().map(|m| (*m, graph.reach(m))).collect();
    let mut cycles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, all) in &reach {
        let back = |other: &&String| {
            reach
                .get(other.as_str())
                .is_some_and(|r| r.contains(*module))
        };
        let cycle: Vec<String> = all.iter().filter(back).cloned().collect();
        if !cycle.is_empty() {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}
