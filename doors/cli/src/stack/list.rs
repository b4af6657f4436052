//! `striate stack list`: the stages, the kind of optimisation of each, and the built-in stacks.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use striate_stack::StageType;
use striate_stages::STAGE_TABLE;

use super::named::{NamedStack, STACKS};
use crate::document::Document;
use crate::table::{Side, Table};
use crate::terminal::heading;
use crate::{CommandError, terminal};

/// List the stages, the kind of optimisation of each, and the built-in stacks
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack list
  striate stack list --markdown    the table of stages in docs/stack.md
  striate run --stack combine -- ./simulation    a stack by its name

scope: what a stage touches. interference: how much of a program's I/O must pass through it.
state: whether it keeps state between operations. files: whether their contents are as without the
stage (kept), become so later (deferred), or differ (changed).")]
pub(crate) struct ListArgs {
    /// As a table for documents
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// A stage; a row of the JSON document.
#[derive(Debug, Serialize)]
struct StageRow {
    stage: &'static str,
    about: &'static str,
    scope: String,
    interference: String,
    state: String,
    files: String,
}

/// A stack that comes along; a row of the JSON document, behind those of the stages.
#[derive(Debug, Serialize)]
struct StackRow {
    stack: &'static str,
    about: String,
    /// Whether its paths have to be changed before it is used.
    has_paths: bool,
}

impl From<&NamedStack> for StackRow {
    fn from(stack: &NamedStack) -> Self {
        Self { stack: stack.name, about: stack.about(), has_paths: stack.has_paths }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AnyRow {
    Stage(StageRow),
    Stack(StackRow),
}

impl From<&StageType> for StageRow {
    fn from(sort: &StageType) -> Self {
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
    let rows: Vec<StageRow> = STAGE_TABLE.types.iter().map(StageRow::from).collect();
    let stacks: Vec<StackRow> = STACKS.iter().map(StackRow::from).collect();
    if json {
        let stacks = stacks.into_iter().map(AnyRow::Stack);
        let rows = rows.into_iter().map(AnyRow::Stage).chain(stacks).collect();
        return Document::new(rows, Vec::new()).print();
    }
    if args.markdown {
        return terminal::print(&markdown(&rows));
    }
    terminal::print_fitted(&(text(&rows) + &stacks_text(&stacks)))
}

fn text(rows: &[StageRow]) -> String {
    let headings = ["stage", "scope", "interference", "state", "files", "what it does"];
    let mut table = Table::new(&headings.map(|heading| (heading, Side::Left)));
    table = table.spare(&["interference", "scope", "state"]);
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
    format!("{}\n{}", heading("Stages"), table.render())
}

fn stacks_text(stacks: &[StackRow]) -> String {
    let mut table = Table::new(&[("stack", Side::Left), ("what it is for", Side::Left)]);
    for row in stacks {
        let more = if row.has_paths { " (change its paths first)" } else { "" };
        table.row([row.stack.to_owned(), format!("{}{more}", row.about)]);
    }
    format!(
        "\n{}\n{}'striate stack show NAME' prints one; 'striate run --stack NAME -- PROGRAM' uses it.\n",
        heading("Built-in stacks"),
        table.render()
    )
}

fn markdown(rows: &[StageRow]) -> String {
    let mut text = String::from(
        "| stage | what it does | scope | interference | state | files |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for StageRow { stage, about, scope, interference, state, files } in rows {
        let _ = writeln!(
            text,
            "| **{stage}** | {about} | {scope} | {interference} | {state} | {files} |"
        );
    }
    text
}
