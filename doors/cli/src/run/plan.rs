//! [`Plan`]: the stack of a run: the requested one, with count and trace above it.

use std::path::Path;
use toml::{Table, Value};

use crate::CommandError;
use crate::stack::{read_text, refused};

/// What is wanted of a run.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The stages: the name of a stack that comes along, or a file.
    pub(crate) stack: Option<&'a Path>,
    /// Where traces go.
    pub(crate) trace: Option<&'a Path>,
    /// Whether calls are counted.
    pub(crate) count: bool,
    /// The files that stages see if the stack does not say.
    pub(crate) source: Option<&'a Path>,
    /// Where stages leave what they counted or recorded if they do not say.
    pub(crate) directory: Option<&'a Path>,
}

impl Plan<'_> {
    /// The configuration as a text.
    pub(crate) fn text(&self) -> Result<String, CommandError> {
        let path = self.stack.unwrap_or(Path::new("the stack"));
        let document = match self.stack {
            None => Table::new(),
            Some(path) => {
                // Told of the stack as it is, not of what is made of it.
                let (_, text) = read_text(path)?;
                text.parse().map_err(|error| unwritable(&error))?
            }
        };
        let document = self.topped(document);
        let text = toml::to_string(&document).map_err(|error| unwritable(&error))?;
        striate_stages::parse_stack(&text).map_err(|error| refused(path, &error))?;
        Ok(text)
    }

    /// A document with more stages on top.
    fn topped(&self, mut document: Table) -> Table {
        let mut stages = match document.remove("stage") {
            Some(Value::Array(stages)) => stages,
            _ => Vec::new(),
        };
        let kind = |stage: &Value| stage.get("kind").and_then(Value::as_str).map(str::to_owned);
        // What sees all calls as the program made them has nothing but the like above it.
        let on_top = |wanted: &str| {
            let mut kinds = stages.iter().map(kind).map(Option::unwrap_or_default);
            kinds
                .by_ref()
                .take_while(|kind| kind == "count" || kind == "trace")
                .any(|kind| kind == wanted)
        };
        let mut more = Vec::new();
        if self.count && !on_top("count") {
            more.push(stage("count", None));
        }
        if let Some(directory) = self.trace {
            more.push(stage("trace", Some(directory)));
        }
        stages.splice(0..0, more);
        if let Some(directory) = self.directory {
            for stage in &mut stages {
                place(stage, directory);
            }
        }
        document.insert("stage".into(), Value::Array(stages));
        if let (Some(source), None) = (self.source, document.get("paths")) {
            let mut paths = Table::new();
            let source = source.to_string_lossy().into_owned();
            paths.insert("include".into(), Value::Array(vec![source.into()]));
            document.insert("paths".into(), paths.into());
        }
        document
    }
}

fn stage(kind: &str, directory: Option<&Path>) -> Value {
    let mut table = Table::new();
    table.insert("kind".into(), kind.into());
    if let Some(directory) = directory {
        table.insert("directory".into(), directory.to_string_lossy().into_owned().into());
    }
    Value::Table(table)
}

/// Says where a stage leaves what it counted or recorded, unless that is said.
fn place(stage: &mut Value, directory: &Path) {
    let Value::Table(stage) = stage else { return };
    let leaves = matches!(stage.get("kind").and_then(Value::as_str), Some("count" | "trace"));
    if leaves && !stage.contains_key("directory") {
        stage.insert("directory".into(), directory.to_string_lossy().into_owned().into());
    }
}

fn unwritable(error: &dyn std::error::Error) -> CommandError {
    CommandError::failed("cannot make the stack of the run", error.to_string(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(stack: &str, trace: bool, count: bool) -> Vec<String> {
        let trace = trace.then_some(Path::new("/t"));
        let plan = Plan { stack: None, trace, count, source: None, directory: None };
        let document = plan.topped(stack.parse().unwrap());
        let stages = document["stage"].as_array().unwrap();
        stages.iter().map(|stage| stage["kind"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn counts_and_traces_come_first() {
        assert_eq!(kinds("", false, true), ["count"]);
        assert_eq!(kinds("", true, true), ["count", "trace"]);
        assert_eq!(kinds("", true, false), ["trace"]);
        let throttled = "[[stage]]\nkind = 'throttle'\n";
        assert_eq!(kinds(throttled, false, true), ["count", "throttle"]);
        assert_eq!(kinds(throttled, false, false), ["throttle"]);
        let counted = "[[stage]]\nkind = 'count'\n";
        assert_eq!(kinds(&[counted, throttled].concat(), false, true), ["count", "throttle"]);
        let below = [throttled, counted].concat();
        assert_eq!(kinds(&below, false, true), ["count", "throttle", "count"]);
    }

    #[test]
    fn what_is_not_said_is_filled_in() {
        let [source, directory] = [Some(Path::new("/s")), Some(Path::new("/d"))];
        let plan = Plan { stack: None, trace: None, count: true, source, directory };
        let stages = "[[stage]]\nkind = 'trace'\ndirectory = '/t'\n[[stage]]\nkind = 'align'\n";
        let document = plan.topped(stages.parse().unwrap());
        let expected = "[[stage]]\nkind = 'count'\ndirectory = '/d'\n".to_owned() + stages;
        let expected: Table = format!("paths.include = ['/s']\n{expected}").parse().unwrap();
        assert_eq!(document, expected);
        let said = "[paths]\nexclude = ['*.o']\n";
        let document = plan.topped(said.parse().unwrap());
        assert!(document["paths"].get("include").is_none());
    }
}
