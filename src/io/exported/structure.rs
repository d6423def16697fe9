//! Where inputs and outputs stand in the nested structures of the Python program.

use super::schema::Structure;
use crate::io::json::Tree;

/// The paths of the leaves below a node of PyTorch's description of a structure (`treespec_dumps`): `[0]` is an entry of
/// a sequence, `["a"]` one of a dictionary.
fn leaves(tree: &Tree, at: String, found: &mut Vec<String>) -> Option<()> {
    // `null` is the kind of a leaf.
    if tree.get("type").is_none() {
        found.push(at);
        return Some(());
    }
    let children = tree.get("children_spec")?.items().ok()?;
    let keys = keys(tree).filter(|keys| keys.len() == children.len());
    for (i, child) in children.iter().enumerate() {
        let key = match &keys {
            Some(keys) => keys[i].clone(),
            None => i.to_string(),
        };
        leaves(child, format!("{at}[{key}]"), found)?;
    }
    Some(())
}

/// The keys of a dictionary, as Python writes them.
fn keys(tree: &Tree) -> Option<Vec<String>> {
    if !tree
        .get("type")?
        .text()
        .ok()?
        .to_lowercase()
        .ends_with("dict")
    {
        return None;
    }
    let keys = Tree::read(tree.get("context")?.text().ok()?).ok()?;
    let key = |key: &Tree| match (key.text(), key.int()) {
        (Ok(text), _) => Some(format!("{text:?}")),
        (_, Ok(number)) => Some(number.to_string()),
        _ => None,
    };
    keys.items().ok()?.iter().map(key).collect()
}

/// The structure that a text describes, of the protocol that is known.
fn read(text: &str) -> Option<Tree> {
    let whole = Tree::read(text).ok()?;
    match whole.items().ok()? {
        [version, tree] if version.int() == Ok(1) => Some(tree.clone()),
        _ => None,
    }
}

/// The path of each input: `x`, `options["scale"]`, `pair[0]`. Arguments by position have their names in `forward`.
pub(super) fn inputs(structure: &Structure) -> Option<Vec<String>> {
    let whole = read(&structure.inputs)?;
    let [positional, named] = whole.get("children_spec")?.items().ok()? else {
        return None;
    };
    let mut found = Vec::new();
    let children = positional.get("children_spec")?.items().ok()?;
    for (i, child) in children.iter().enumerate() {
        let name = structure.names.get(i).cloned();
        leaves(
            child,
            name.unwrap_or_else(|| format!("args[{i}]")),
            &mut found,
        )?;
    }
    let children = named.get("children_spec")?.items().ok()?;
    let names = Tree::read(named.get("context")?.text().ok()?).ok()?;
    for (child, name) in children.iter().zip(names.items().ok()?) {
        leaves(child, name.text().ok()?.to_owned(), &mut found)?;
    }
    Some(found)
}

/// The path of each output: empty for the only one, `[0]`, `["logits"]`.
pub(super) fn outputs(structure: &Structure) -> Option<Vec<String>> {
    let mut found = Vec::new();
    leaves(&read(&structure.outputs)?, String::new(), &mut found)?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: &str = r#"{"type": null, "context": null, "children_spec": []}"#;

    fn node(kind: &str, context: &str, children: &[&str]) -> String {
        let children = children.join(", ");
        let context = context.replace('"', "\\\"");
        format!(r#"{{"type": "{kind}", "context": "{context}", "children_spec": [{children}]}}"#)
    }

    #[test]
    fn entries_are_named_as_python_writes_them() {
        let pair = node("builtins.list", "null", &[LEAF, LEAF]);
        let map = node("builtins.dict", r#"["a", 3]"#, &[LEAF, &pair]);
        let given = node("builtins.tuple", "null", &[LEAF, &map]);
        let named = node("builtins.dict", r#"["flag"]"#, &[LEAF]);
        let whole = node("builtins.tuple", "null", &[&given, &named]);
        let of = |names: &[&str]| Structure {
            inputs: format!("[1, {whole}]"),
            outputs: format!("[1, {map}]"),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        let expected = ["x", "d[\"a\"]", "d[3][0]", "d[3][1]", "flag"];
        assert_eq!(
            inputs(&of(&["x", "d", "flag"])),
            Some(expected.map(str::to_owned).to_vec())
        );
        assert_eq!(
            inputs(&of(&[])).map(|paths| paths[0].clone()),
            Some("args[0]".to_owned())
        );
        let expected = ["[\"a\"]", "[3][0]", "[3][1]"];
        assert_eq!(
            outputs(&of(&[])),
            Some(expected.map(str::to_owned).to_vec())
        );
        let other = Structure {
            outputs: format!("[2, {LEAF}]"),
            ..of(&[])
        };
        assert_eq!(outputs(&other), None);
    }
}
