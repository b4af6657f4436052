//! The drawing of the packages in `ARCHITECTURE.md`, compared with what the manifests say.
//!
//! The drawing is the first block of text with arrows in it. A line `file → comm, store` says what
//! the package `striate-file` uses; `→ none` stands for nothing. Lines without an arrow are
//! headings. Words behind two blanks are remarks. Arrows only point down: a package stands above
//! all that it uses.

use std::collections::BTreeMap;

use crate::Package;

/// A line of the drawing: a package, and what it uses.
type Row = (String, Vec<String>);

/// The rows of the drawing, from top to bottom.
pub fn rows(document: &str) -> Vec<Row> {
    let mut blocks = document.split("```").skip(1).step_by(2);
    let block = blocks.find(|block| block.lines().filter_map(row).count() > 1);
    block.map_or_else(Vec::new, |block| block.lines().filter_map(row).collect())
}

fn row(line: &str) -> Option<Row> {
    let (package, uses) = line.split_once('→')?;
    let package = package.trim();
    if package.is_empty() || !package.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return None;
    }
    let uses = uses.trim_start().split("  ").next().unwrap_or_default();
    let uses = uses.split(',').map(str::trim).filter(|used| !used.is_empty() && *used != "none");
    Some((package.to_owned(), uses.map(str::to_owned).collect()))
}

/// What is wrong with the drawing, a sentence each.
pub fn findings(document: &str, packages: &[Package]) -> Vec<String> {
    let rows = rows(document);
    let mut findings = Vec::new();
    let lines: BTreeMap<&str, usize> =
        rows.iter().enumerate().map(|(line, (package, _))| (package.as_str(), line)).collect();
    for package in packages {
        let name = short(&package.name);
        let mut real: Vec<&str> = package.uses.iter().map(|used| short(used)).collect();
        real.sort_unstable();
        let told = if real.is_empty() { "none".to_owned() } else { real.join(", ") };
        let Some(&line) = lines.get(name) else {
            findings.push(format!("add a line: {name} → {told}"));
            continue;
        };
        let mut drawn: Vec<&str> = rows[line].1.iter().map(String::as_str).collect();
        drawn.sort_unstable();
        if drawn != real {
            findings.push(format!("the manifests say: {name} → {told}"));
        }
        for used in real.into_iter().filter(|used| lines.get(used).is_some_and(|at| *at <= line)) {
            findings.push(format!("{name} uses {used}, which must stand below it"));
        }
    }
    let known: Vec<&str> = packages.iter().map(|package| short(&package.name)).collect();
    let gone = rows.iter().filter(|(package, _)| !known.contains(&package.as_str()));
    findings.extend(gone.map(|(package, _)| format!("remove {package}: there is no such package")));
    if lines.len() < rows.len() {
        findings.push("a package has two lines".to_owned());
    }
    findings
}

/// The name by which the drawing calls a package.
fn short(package: &str) -> &str {
    package.strip_prefix("striate-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{findings, rows};
    use crate::Package;

    const DRAWING: &str = "\
# A

```text
not → a → drawing
```

```text
doors                          programs come in
  cli   → file, comm           a command
crates
  file  → comm
  comm  → none
```
";

    fn package(name: &str, uses: &[&str]) -> Package {
        Package {
            name: format!("striate-{name}"),
            directory: String::new(),
            uses: uses.iter().map(|used| format!("striate-{used}")).collect(),
            manifest: Value::Null,
            sources: Vec::new(),
        }
    }

    #[test]
    fn lines_with_arrows_are_read() {
        let cli = ("cli".to_owned(), vec!["file".to_owned(), "comm".to_owned()]);
        let rows = rows(DRAWING);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0], cli);
        assert_eq!(rows[2], ("comm".to_owned(), Vec::new()));
    }

    #[test]
    fn a_true_drawing_has_no_findings() {
        let packages =
            [package("cli", &["comm", "file"]), package("comm", &[]), package("file", &["comm"])];
        assert_eq!(findings(DRAWING, &packages), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_told() {
        let packages =
            [package("cli", &["comm"]), package("comm", &["file"]), package("wire", &[])];
        assert_eq!(
            findings(DRAWING, &packages),
            [
                "the manifests say: cli → comm",
                "the manifests say: comm → file",
                "comm uses file, which must stand below it",
                "add a line: wire → none",
                "remove file: there is no such package",
            ]
        );
    }
}
