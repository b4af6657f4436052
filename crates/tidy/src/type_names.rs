//! One name, one meaning: a type name is defined once in a package, tests included.
//!
//! Associated types and types that a macro names are not seen.

use std::collections::BTreeMap;

use crate::Source;

/// The names that are defined more than once, with the places of their definitions (`path:line`).
pub fn repeated(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(name) = defined(line) {
                let place = format!("{}:{}", source.path, number + 1);
                found.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    found.retain(|_, places| places.len() > 1);
    found
}

/// The name of the type whose definition begins on a line.
fn defined(line: &str) -> Option<&str> {
    let code = without_visibility(line.trim_start());
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    let (keyword, rest) = code.split_once(' ')?;
    let known = match keyword {
        "struct" | "enum" | "union" | "trait" => true,
        // An associated type has an indent; an alias within a module has one, too, and is not seen.
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    (known && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

fn without_visibility(code: &str) -> &str {
    let Some(rest) = code.strip_prefix("pub") else { return code };
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    };
    rest.strip_prefix(' ').unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::{defined, repeated};
    use crate::Source;

    #[test]
    fn definitions_are_found() {
        for (line, name) in [
            ("struct Plain;", Some("Plain")),
            ("    pub(crate) struct Inner<'a, T> {", Some("Inner")),
            ("pub(in crate::a) enum Scoped {", Some("Scoped")),
            ("pub unsafe trait Marker: Send {}", Some("Marker")),
            ("pub type Alias = u8;", Some("Alias")),
            ("    type Output = u8;", None),
            ("/// struct Told", None),
            ("// struct Told", None),
            ("let struct_like = 1;", None),
            ("struct stat {", None),
            ("        struct $name {", None),
            ("publish(struct);", None),
            ("impl Trait for Plain {", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
    }

    #[test]
    fn a_name_in_two_files_is_told_with_both_places() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source("src/a.rs", "struct Place;\nenum Other {}\n"),
            source("tests/b.rs", "//! B\n\nstruct Place(u8);\n"),
        ];
        let found = repeated(&sources);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["Place"]);
        assert_eq!(found["Place"], ["src/a.rs:1", "tests/b.rs:3"]);
    }
}
