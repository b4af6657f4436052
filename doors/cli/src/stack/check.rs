//! `striate stack check`: the stages of a stack, explained one by one; or what is wrong with it.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use striate_stack::configuration::SYSTEM_PATHS;
use striate_stack::{Kind, Kinds, PlannedPaths, PlannedStage, Stage};

use super::{read, refused};
use crate::document::Document;
use crate::terminal::heading;
use crate::{CommandError, terminal};

/// Explain the chain of stages of a stack, or what is wrong with it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack check write-back
  striate stack check --json my-stack.toml

Fails if programs could not be run with this stack.")]
pub(crate) struct CheckArgs {
    /// A name that 'striate stack list' shows, or a file
    #[arg(value_name = "STACK")]
    file: PathBuf,
}

/// A stage; a row of the JSON document.
#[derive(Debug, Serialize)]
struct CheckedStage {
    number: usize,
    stage: &'static str,
    about: &'static str,
    operations: Vec<&'static str>,
    include: Option<Vec<String>>,
    exclude: Vec<String>,
    holds_back: bool,
    scope: String,
    interference: String,
    state: String,
    files: String,
    options: toml::Table,
}

impl CheckedStage {
    fn new(number: usize, planned: &PlannedStage, stage: &dyn Stage) -> Self {
        let classification = stage.classification();
        let PlannedPaths { include, exclude } = planned.planned_paths.clone();
        Self {
            number,
            stage: planned.stage_type.name,
            about: planned.stage_type.about,
            operations: stage.kinds().iter().map(Kind::name).collect(),
            include,
            exclude,
            holds_back: stage.holds_back(),
            scope: classification.scope.to_string(),
            interference: classification.interference.to_string(),
            state: classification.state.to_string(),
            files: classification.meaning.to_string(),
            options: planned.options.clone(),
        }
    }
}

pub(crate) fn run(args: &CheckArgs, json: bool) -> Result<(), CommandError> {
    let configuration = read(&args.file)?;
    let stack = configuration.build().map_err(|error| refused(&args.file, &error))?;
    let stages = configuration.stages().iter().zip(stack.stages()).enumerate();
    let rows: Vec<CheckedStage> = stages
        .map(|(n, (planned, placed))| CheckedStage::new(n + 1, planned, &*placed.stage))
        .collect();
    if json {
        return Document::new(rows, Vec::new()).print();
    }
    terminal::print_fitted(&text(configuration.paths(), &rows))
}

fn text(paths: &PlannedPaths, rows: &[CheckedStage]) -> String {
    let is_default = paths.include.is_none() && paths.exclude == SYSTEM_PATHS;
    let files = if is_default {
        "all but those of the system".to_owned()
    } else {
        told(paths.include.as_deref(), &paths.exclude)
    };
    let mut text = format!("{} {files}\n", heading("Files:"));
    if rows.is_empty() {
        text.push_str("No stages: operations go to the kernel as they are.\n");
        return text;
    }
    text.push_str("An operation of the program passes\n");
    for row in rows {
        let _ = writeln!(text, "{:>3}. {}: {}", row.number, heading(row.stage), row.about);
        let operations = match row.operations.len() {
            Kind::COUNT => "all operations".to_owned(),
            _ => row.operations.join(", "),
        };
        let _ = writeln!(text, "       sees     {operations}");
        let everything = row.include.is_none() && row.exclude.is_empty();
        let files = if everything {
            "all of the above".to_owned()
        } else {
            told(row.include.as_deref(), &row.exclude)
        };
        let _ = writeln!(text, "       files    {files}");
        let _ = writeln!(
            text,
            "       is       {}; {}; {}; files {}{}",
            row.scope,
            row.interference,
            row.state,
            row.files,
            if row.holds_back {
                "; does not touch files that several processes have open"
            } else {
                ""
            },
        );
        for (name, value) in &row.options {
            let _ = writeln!(text, "       option   {name} = {value}");
        }
    }
    let _ = writeln!(text, "and then the kernel carries it out.");
    text
}

/// Files in words.
fn told(include: Option<&[String]>, exclude: &[String]) -> String {
    let included = include.map_or("all".to_owned(), |list| match list {
        [] => "none".to_owned(),
        list => list.join(", "),
    });
    match exclude {
        [] => included,
        exclude => format!("{included}; without {}", exclude.join(", ")),
    }
}

/// Keeps the text above honest about what "all operations" means.
const _: () = assert!(Kind::COUNT == Kind::ALL.len() && Kinds::ALL.has(Kind::Notice));
