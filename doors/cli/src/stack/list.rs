//! `striate stack list`: the stages there are, and what sort of optimisation each is.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use striate_stack::stages::{SORTS, Sort};

use crate::document::Document;
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// List the stages there are, and what sort of optimisation each is
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack list
  striate stack list --markdown    the table of docs/stack.md

scope: what a stage touches. interference: how much has to pass through it.
state: whether it remembers anything. files: whether they become what they would be without it (kept),
do so later (deferred), or not (changed).")]
pub(crate) struct ListArgs {
    /// As a table for documents
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// A stage; a row of the JSON document.
#[derive(Debug, Serialize)]
struct Row {
    stage: &'static str,
    about: &'static str,
    scope: String,
    interference: String,
    state: String,
    files: String,
}

impl From<&Sort> for Row {
    fn from(sort: &Sort) -> Self {
        let classification = sort.classification;
        Self {
            stage: sort.name,
            about: sort.about,
            scope: classification.scope.to_string(),
            interference: classification.interference.to_string(),
            state: classification.state.to_string(),
            files: classification.meaning.to_string(),
        }
    }
}

pub(crate) fn run(args: &ListArgs, json: bool) -> Result<(), CommandError> {
    let rows: Vec<Row> = SORTS.iter().map(Row::from).collect();
    if json {
        return Document::new(rows, Vec::new()).print();
    }
    terminal::print(&if args.markdown { markdown(&rows) } else { text(&rows) })
}

fn text(rows: &[Row]) -> String {
    let headings = ["stage", "scope", "interference", "state", "files", "what it does"];
    let mut table = Table::new(&headings.map(|heading| (heading, Side::Left)));
    for row in rows {
        table.row([
            row.stage.to_owned(),
            row.scope.clone(),
            row.interference.clone(),
            row.state.clone(),
            row.files.clone(),
            row.about.to_owned(),
        ]);
    }
    table.render()
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| stage | what it does | scope | interference | state | files |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for Row { stage, about, scope, interference, state, files } in rows {
        let _ = writeln!(
            text,
            "| **{stage}** | {about} | {scope} | {interference} | {state} | {files} |"
        );
    }
    text
}
