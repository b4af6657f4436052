//! [`Input`]: one side of a comparison.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use striate_recording::Recording;

use super::CompareError;
use crate::aggregate::{Options, report};
use crate::model::{FORMAT, Model};

/// One side of a comparison.
#[derive(Debug)]
pub struct Input {
    pub(super) name: String,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Model(Box<Model>),
    Runs(Vec<Value>),
    Benchmarks(Vec<Value>),
}

impl Input {
    /// A recording (a file or a directory), a Darshan log, or a JSON document of this program.
    pub fn open(path: &Path) -> Result<Self, CompareError> {
        let name = path.to_string_lossy().into_owned();
        let failed = |error| CompareError::Read { path: name.clone(), error };
        if crate::darshan::is_log(path).map_err(failed)? {
            let (model, _) = crate::darshan::read(path, &Options::default())?;
            return Ok(Self { name, content: Content::Model(Box::new(model)) });
        }
        let mut first = [0; 8];
        let is_recording = path.is_dir() || {
            let mut file = File::open(path).map_err(failed)?;
            let mut taken = Vec::new();
            file.by_ref().take(8).read_to_end(&mut taken).map_err(failed)?;
            first[..taken.len()].copy_from_slice(&taken);
            first == *b"STRTRACE"
        };
        if is_recording {
            let model = report(&Recording::open(path)?, &Options::default());
            return Ok(Self { name, content: Content::Model(Box::new(model)) });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let unknown = || CompareError::Unknown { path: name.clone() };
        let document: Value = serde_json::from_str(&text).map_err(|_| unknown())?;
        let content = content(document).ok_or_else(unknown)?;
        Ok(Self { name, content })
    }

    pub(super) fn what(&self) -> &'static str {
        match self.content {
            Content::Model(_) => "a recording",
            Content::Runs(_) => "the summary of a run",
            Content::Benchmarks(_) => "the result of a benchmark",
        }
    }
}

/// What the rows of a document, or of a list of documents, are.
fn content(document: Value) -> Option<Content> {
    let documents = match document {
        Value::Array(list) => list,
        one => vec![one],
    };
    let mut rows = Vec::new();
    for document in documents {
        let Value::Object(mut document) = document else { return None };
        if document.get("format").and_then(Value::as_str) == Some(FORMAT) {
            return serde_json::from_value(Value::Object(document)).ok().map(Content::Model);
        }
        let Some(Value::Array(more)) = document.remove("rows") else { return None };
        rows.extend(more);
    }
    let first = rows.first()?;
    if first.get("format").and_then(Value::as_str) == Some(FORMAT) {
        return serde_json::from_value(rows.swap_remove(0)).ok().map(Content::Model);
    }
    if first.get("functions").is_some() {
        return Some(Content::Runs(rows));
    }
    rows.iter().any(|row| row.get("samples").is_some()).then_some(Content::Benchmarks(rows))
}
