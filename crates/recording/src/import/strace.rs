//! The output of `strace -f -ttt -T`, with `-y` or without.
//!
//! Calls of all tasks are mixed, and a call that another one interrupts is in two lines. The files
//! of descriptors follow from the calls that open, duplicate, inherit and close them. A file that
//! was open before is known by the path that `-y` prints; without it, calls on it are counted as
//! elsewhere.

mod calls;
mod kernel;
mod line;
mod values;

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use striate_trace::{Function, Header, Origin, Record, RecordedCall};

use self::kernel::{Kernel, Shares};
use self::line::{Body, FinishedCall, Returned, StraceLine, Time};
use super::parts::Parts;
use super::{Imported, next_line};
use crate::error::RecordingError;

/// Lines of a task that are kept until it is known which of several calls made it.
const MOST_WAITING: usize = 1000;
/// The number of the only task of a file without numbers.
const ONLY: u32 = 1;

/// Whether a line is one of strace.
pub(super) fn is_line(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    match StraceLine::new(&text) {
        Some(StraceLine { body: Body::Call(call), .. }) => FinishedCall::new(call).is_some(),
        Some(StraceLine { body: Body::Unfinished(_), time, .. }) => time != Time::Unknown,
        _ => false,
    }
}

pub(super) fn import(
    input: &mut dyn BufRead,
    name: &Path,
    directory: Option<&Path>,
    parts: &mut Parts,
) -> Result<Imported, RecordingError> {
    let mut importer = StraceImporter::new(parts);
    importer.kernel.directory = directory.map(Path::to_path_buf);
    let mut line = Vec::new();
    while next_line(input, &mut line).map_err(|error| RecordingError::read(name, error))? {
        importer.imported.lines += 1;
        let number = importer.imported.lines;
        importer.line(number, &line)?;
    }
    importer.finish()
}

/// A call that has begun.
#[derive(Debug)]
struct UnfinishedCall {
    start: u64,
    text: String,
}

#[derive(Debug)]
struct StraceImporter<'p> {
    imported: Imported,
    parts: &'p mut Parts,
    kernel: Kernel,
    /// The time of the line before.
    now: u64,
    begun: HashMap<u32, UnfinishedCall>,
    /// Lines of tasks of which it is not known yet which call made them.
    waiting: HashMap<u32, Vec<(u64, Vec<u8>)>>,
    /// The number of the task that has none in some lines.
    nameless: Option<u32>,
    /// When a process was first seen.
    started: HashMap<u32, u64>,
}

impl<'p> StraceImporter<'p> {
    fn new(parts: &'p mut Parts) -> Self {
        Self {
            imported: Imported::default(),
            parts,
            kernel: Kernel::default(),
            now: 0,
            begun: HashMap::new(),
            waiting: HashMap::new(),
            nameless: None,
            started: HashMap::new(),
        }
    }

    fn line(&mut self, number: u64, bytes: &[u8]) -> Result<(), RecordingError> {
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Ok(());
        }
        let Some(line) = StraceLine::new(&text) else {
            self.imported.malformed(number, bytes);
            return Ok(());
        };
        let time = match line.time {
            Time::At(time) => time,
            Time::After(time) => self.now.saturating_add(time),
            // The order is all that is known.
            Time::Unknown => self.now.saturating_add(1000),
        };
        if line.body == Body::Note && line.task.is_none() {
            return Ok(());
        }
        self.now = time;
        if let (Body::Resumed(name, _), Some(id)) = (line.body, line.task) {
            self.resumes_only(name, id);
        }
        let Some(task) = self.task(line.task, number, bytes) else { return Ok(()) };
        self.body(task, time, line.body, number, bytes)
    }

    /// The task of a line; `None` if the line has to wait.
    fn task(&mut self, told: Option<u32>, number: u64, bytes: &[u8]) -> Option<u32> {
        let Some(id) = told else {
            // Lines without a number are of the first task.
            let id = self.nameless.unwrap_or(ONLY);
            if !self.kernel.tasks.contains_key(&id) {
                self.appear(id);
            }
            return Some(id);
        };
        if self.nameless == Some(id) || self.kernel.tasks.contains_key(&id) {
            return Some(id);
        }
        let makers = self.begun.iter().filter(|(_, begun)| shares(&begun.text).is_some());
        let mut makers: Vec<u32> = makers.map(|(maker, _)| *maker).collect();
        makers.sort_unstable();
        match makers[..] {
            [] => {
                let only = self.kernel.tasks.len() == 1 && self.kernel.tasks.contains_key(&ONLY);
                if only && self.nameless.is_none() && id != ONLY {
                    // The first task has a number now that there are others.
                    self.rename_only(id);
                } else {
                    self.appear(id);
                }
            }
            [maker] => self.child(maker, id),
            [maker, ..] => {
                let lines = self.waiting.entry(id).or_default();
                if lines.len() < MOST_WAITING {
                    lines.push((number, bytes.to_vec()));
                    return None;
                }
                self.child(maker, id);
            }
        }
        Some(id)
    }

    fn appear(&mut self, id: u32) {
        self.kernel.appear(id);
        self.started.insert(id, self.now);
    }

    /// A call that began without a number goes on with one.
    fn resumes_only(&mut self, name: &str, id: u32) {
        let only = self.begun.get(&ONLY).is_some_and(|begun| begun.text.starts_with(name));
        if only && self.nameless.is_none() && id != ONLY && !self.kernel.tasks.contains_key(&id) {
            self.rename_only(id);
        }
    }

    fn rename_only(&mut self, id: u32) {
        self.nameless = Some(id);
        if let Some(mut task) = self.kernel.tasks.remove(&ONLY) {
            task.process = id;
            self.kernel.tasks.insert(id, task);
        }
        if let Some(process) = self.kernel.processes.remove(&ONLY) {
            self.kernel.processes.insert(id, process);
        }
        for process in self.kernel.processes.values_mut().filter(|process| process.parent == ONLY) {
            process.parent = id;
        }
        if let Some(begun) = self.begun.remove(&ONLY) {
            self.begun.insert(id, begun);
        }
        let started = self.started.remove(&ONLY).unwrap_or(self.now);
        self.started.insert(id, started);
    }

    /// A task that a call which has begun makes.
    fn child(&mut self, maker: u32, id: u32) {
        let shares = self.begun.get(&maker).and_then(|begun| shares(&begun.text));
        self.kernel.clone_task(maker, id, shares.unwrap_or_default());
        self.started.entry(id).or_insert(self.now);
    }

    fn body(
        &mut self,
        task: u32,
        time: u64,
        body: Body<'_>,
        number: u64,
        bytes: &[u8],
    ) -> Result<(), RecordingError> {
        match body {
            Body::Note => {}
            Body::Exited => self.exited(task)?,
            Body::Unfinished(text) => {
                let begun = UnfinishedCall { start: time, text: text.to_owned() };
                if self.begun.insert(task, begun).is_some() {
                    self.imported.unended += 1;
                }
            }
            Body::Resumed(name, rest) => {
                let begun = self.begun.remove(&task);
                let Some(begun) = begun.filter(|begun| begun.text.starts_with(name)) else {
                    self.imported.malformed(number, bytes);
                    return Ok(());
                };
                let text = format!("{} {rest}", begun.text);
                let until = Some(time);
                self.call(task, begun.start, until, &text, number, bytes)?;
            }
            Body::Call(text) => self.call(task, time, None, text, number, bytes)?,
        }
        Ok(())
    }

    fn call(
        &mut self,
        task: u32,
        start: u64,
        until: Option<u64>,
        text: &str,
        number: u64,
        bytes: &[u8],
    ) -> Result<(), RecordingError> {
        let Some(ended) = FinishedCall::new(text) else {
            self.imported.malformed(number, bytes);
            return Ok(());
        };
        if shares(text).is_some() {
            self.imported.skip(ended.name);
            return self.made(task, &ended, text);
        }
        if ended.returned == Returned::Nothing {
            // A call that does not return is not an operation on a file; others are restarted, or
            // interrupted.
            if ended.name.starts_with("exit") {
                self.imported.skip(ended.name);
            } else {
                self.imported.unended += 1;
            }
            return Ok(());
        }
        let told = until.map(|until| until.saturating_sub(start));
        let duration = ended.duration.or(told).unwrap_or(0);
        match calls::handle(&mut self.kernel, task, &ended) {
            calls::Handled::Records(records) => {
                for (function, call, outcome) in records {
                    let thread = task;
                    let known = true;
                    let record = Record { function, thread, start, duration, outcome, known, call };
                    self.record(task, &record)?;
                }
            }
            calls::Handled::Elsewhere => {
                let is_annotated = |word: &&str| word.contains('<') && !word.starts_with('"');
                self.imported.annotated |= ended.arguments.iter().any(is_annotated);
                self.imported.elsewhere(ended.name);
            }
            calls::Handled::Malformed => self.imported.malformed(number, bytes),
            calls::Handled::Skipped => self.imported.skip(ended.name),
            calls::Handled::Exec(command) => {
                self.imported.skip(ended.name);
                self.exec(task, command)?;
            }
        }
        Ok(())
    }

    /// A call that makes tasks has returned.
    fn made(
        &mut self,
        task: u32,
        ended: &FinishedCall<'_>,
        text: &str,
    ) -> Result<(), RecordingError> {
        let Returned::Value(child) = ended.returned else { return Ok(()) };
        let Some(child) = u32::try_from(child).ok().filter(|child| *child != 0) else {
            return Ok(());
        };
        if !self.kernel.tasks.contains_key(&child) {
            self.kernel.clone_task(task, child, shares(text).unwrap_or_default());
            self.started.insert(child, self.now);
        }
        for (number, bytes) in self.waiting.remove(&child).unwrap_or_default() {
            // Their time has passed; the following lines have their own times.
            let now = self.now;
            self.line(number, &bytes)?;
            self.now = now;
        }
        Ok(())
    }

    fn record(&mut self, task: u32, record: &Record) -> Result<(), RecordingError> {
        let Some(id) = self.kernel.tasks.get(&task).map(|task| task.process) else {
            return Ok(());
        };
        let directory =
            self.kernel.tasks.get(&task).and_then(|task| task.directory.borrow().clone());
        let Some(process) = self.kernel.processes.get_mut(&id) else { return Ok(()) };
        if process.growing.is_none() {
            let started = self.started.get(&id).copied().unwrap_or(record.start);
            let clock = started.min(record.start);
            let origin = Origin {
                process: id,
                parent: process.parent,
                rank: None,
                host: String::new(),
                command: process.command.clone(),
            };
            let header = Header {
                origin,
                directory: directory.unwrap_or_default(),
                began: clock,
                clock,
                label: "strace".to_owned(),
                place: 0,
            };
            process.growing = Some(self.parts.begin(&header)?);
            self.imported.processes += 1;
        }
        if let Some(growing) = &mut process.growing {
            self.parts.write(growing, record)?;
            self.imported.records += 1;
        }
        Ok(())
    }

    /// The process goes on as another program, with a trace of its own.
    fn exec(&mut self, task: u32, command: Vec<String>) -> Result<(), RecordingError> {
        let id = self.kernel.tasks.get(&task).map(|task| task.process);
        if let Some(process) = id.and_then(|id| self.kernel.processes.get_mut(&id)) {
            let preopened = std::mem::take(&mut process.preopened);
            if let Some(growing) = process.growing.take() {
                self.parts.end(growing, preopened)?;
            }
        }
        self.kernel.exec(task, command);
        if let Some(id) = id {
            self.started.insert(id, self.now);
        }
        Ok(())
    }

    fn exited(&mut self, task: u32) -> Result<(), RecordingError> {
        // A call that never ended: `exit`, or it was killed in it.
        if let Some(begun) = self.begun.remove(&task)
            && !begun.text.starts_with("exit")
        {
            self.imported.unended += 1;
        }
        if let Some(process) = self.kernel.exit(task)
            && let Some(growing) = process.growing
        {
            self.parts.end(growing, process.preopened)?;
        }
        self.started.remove(&task);
        Ok(())
    }

    fn finish(mut self) -> Result<Imported, RecordingError> {
        let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        waiting.sort_unstable_by_key(|(task, _)| *task);
        for (task, lines) in waiting {
            // The call that made it is not in the file.
            self.appear(task);
            for (number, bytes) in lines {
                self.line(number, &bytes)?;
            }
        }
        self.imported.unended += self.begun.len() as u64;
        let mut processes: Vec<_> =
            std::mem::take(&mut self.kernel.processes).into_iter().collect();
        processes.sort_unstable_by_key(|(id, _)| *id);
        for (_, process) in processes {
            if let Some(growing) = process.growing {
                self.parts.end(growing, process.preopened)?;
            }
        }
        Ok(self.imported)
    }
}

/// What a call that makes a task leaves in common; `None` if it is another call.
fn shares(text: &str) -> Option<Shares> {
    let (name, rest) = text.split_once('(')?;
    let has = |flag: &str| rest.contains(flag);
    match name {
        "fork" | "vfork" => Some(Shares::default()),
        "clone" | "clone2" | "clone3" | "__clone2" => Some(Shares {
            process: has("CLONE_THREAD"),
            descriptors: has("CLONE_FILES"),
            directory: has("CLONE_FS"),
        }),
        _ => None,
    }
}

/// What a call becomes.
type ConvertedCall = (Function, RecordedCall, Result<u64, i32>);
