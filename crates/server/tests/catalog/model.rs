//! The slow obvious twin: a catalogue in two maps, and random operations on both.

use std::collections::BTreeMap;

use proptest::prelude::*;
use striate_server::catalog::{Catalog, CatalogError, FileRecord};

/// What a catalogue should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) names: BTreeMap<String, FileRecord>,
    pub(crate) dead: BTreeMap<u64, FileRecord>,
    pub(crate) servers: Vec<String>,
    /// Files that were ever created.
    pub(crate) created: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create { name: String, servers: Vec<u32>, exclusive: bool },
    Rename { from: String, to: String, replace: bool },
    Remove { name: String },
    Bury { file: u64 },
    Record { file: u64, size: u64 },
    SetServers { count: u32, generation: u32 },
}

/// What an operation answers, in a form that both sides have.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Done,
    File(FileRecord, bool),
    Replaced(Option<FileRecord>),
    Refused(&'static str),
}

/// Few names, many of them in each other's way.
fn name() -> impl Strategy<Value = String> {
    let component = prop::sample::select(vec!["a", "b", "a-b", "ä"]);
    prop::collection::vec(component, 1..4).prop_map(|components| components.join("/"))
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let servers = Just((0..4).collect::<Vec<u32>>()).prop_shuffle();
    let servers = (servers, 0..=4usize).prop_map(|(servers, n)| servers[..n].to_vec());
    prop_oneof![
        8 => (name(), servers, any::<bool>())
            .prop_map(|(name, servers, exclusive)| Operation::Create { name, servers, exclusive }),
        4 => (name(), name(), any::<bool>())
            .prop_map(|(from, to, replace)| Operation::Rename { from, to, replace }),
        4 => name().prop_map(|name| Operation::Remove { name }),
        3 => (0..30u64).prop_map(|file| Operation::Bury { file }),
        4 => (0..30u64, any::<u64>()).prop_map(|(file, size)| Operation::Record { file, size }),
        1 => (0..6u32, 0..2u32)
            .prop_map(|(count, generation)| Operation::SetServers { count, generation }),
    ]
}

fn addresses(count: u32, generation: u32) -> Vec<String> {
    (0..count).map(|i| format!("io{i}.{generation}:7070")).collect()
}

const STRIP: u64 = 4096;

fn reason(error: &CatalogError) -> Option<&'static str> {
    Some(match error {
        CatalogError::NotFound { .. } => "not found",
        CatalogError::UnknownFile { .. } => "unknown file",
        CatalogError::Exists { .. } => "exists",
        CatalogError::NotADirectory { .. } => "not a directory",
        CatalogError::IsADirectory { .. } => "is a directory",
        CatalogError::NoServers { .. } => "no servers",
        CatalogError::UnknownServer { .. } => "unknown server",
        CatalogError::ServersInUse { .. } => "servers in use",
        CatalogError::Alive { .. } => "alive",
        _ => return None,
    })
}

impl Operation {
    /// Does it to a catalogue at the given time. `Err` if the catalogue failed rather than refused.
    pub(crate) fn run(&self, catalog: &Catalog, now: u64) -> Result<Answer, CatalogError> {
        let answer = match self {
            Self::Create { name, servers, exclusive } => catalog
                .create(name, STRIP, servers, *exclusive, now)
                .map(|(record, created)| Answer::File(record, created)),
            Self::Rename { from, to, replace } => {
                catalog.rename(from, to, *replace).map(Answer::Replaced)
            }
            Self::Remove { name } => catalog.remove(name).map(|record| Answer::File(record, false)),
            Self::Bury { file } => catalog.bury(*file).map(|()| Answer::Done),
            Self::Record { file, size } => catalog.record(*file, *size, now).map(|()| Answer::Done),
            Self::SetServers { count, generation } => {
                catalog.set_servers(&addresses(*count, *generation)).map(|()| Answer::Done)
            }
        };
        answer.or_else(|error| reason(&error).map(Answer::Refused).ok_or(error))
    }
}

impl Model {
    /// What the operation does and answers.
    pub(crate) fn run(&mut self, operation: &Operation, now: u64) -> Answer {
        self.attempt(operation, now).unwrap_or_else(Answer::Refused)
    }

    fn attempt(&mut self, operation: &Operation, now: u64) -> Result<Answer, &'static str> {
        match operation {
            Operation::Create { name, servers, exclusive } => {
                if let Some(record) = self.names.get(name) {
                    return if *exclusive {
                        Err("exists")
                    } else {
                        Ok(Answer::File(record.clone(), false))
                    };
                }
                self.check_place(name)?;
                if servers.is_empty() {
                    return Err("no servers");
                }
                if servers.iter().any(|server| *server as usize >= self.servers.len()) {
                    return Err("unknown server");
                }
                self.created += 1;
                let record = FileRecord {
                    file: self.created,
                    strip: STRIP,
                    servers: servers.clone(),
                    size: 0,
                    created_ms: now,
                    modified_ms: now,
                    truncations: 0,
                    lens: Vec::new(),
                };
                self.names.insert(name.clone(), record.clone());
                Ok(Answer::File(record, true))
            }
            Operation::Rename { from, to, replace } => {
                let record = self.names.get(from).ok_or("not found")?.clone();
                if from == to {
                    return Ok(Answer::Replaced(None));
                }
                if self.names.contains_key(to) {
                    if !replace {
                        return Err("exists");
                    }
                } else {
                    self.check_place(to)?;
                }
                self.names.remove(from);
                let replaced = self.names.insert(to.clone(), record);
                self.dead.extend(replaced.iter().map(|record| (record.file, record.clone())));
                Ok(Answer::Replaced(replaced))
            }
            Operation::Remove { name } => {
                let record = self.names.remove(name).ok_or("not found")?;
                self.dead.insert(record.file, record.clone());
                Ok(Answer::File(record, false))
            }
            Operation::Bury { file } => {
                if self.names.values().any(|record| record.file == *file) {
                    return Err("alive");
                }
                self.dead.remove(file);
                Ok(Answer::Done)
            }
            Operation::Record { file, size } => {
                let mut records = self.names.values_mut();
                let record = records.find(|record| record.file == *file).ok_or("unknown file")?;
                record.size = *size;
                record.modified_ms = now;
                Ok(Answer::Done)
            }
            Operation::SetServers { count, generation } => {
                let all = self.names.values().chain(self.dead.values());
                let used = all.flat_map(|record| &record.servers).max();
                if used.is_some_and(|used| used >= count) && (*count as usize) < self.servers.len()
                {
                    return Err("servers in use");
                }
                self.servers = addresses(*count, *generation);
                Ok(Answer::Done)
            }
        }
    }

    fn check_place(&self, name: &str) -> Result<(), &'static str> {
        if self.names.keys().any(|other| name.starts_with(&format!("{other}/"))) {
            return Err("not a directory");
        }
        if self.names.keys().any(|other| other.starts_with(&format!("{name}/"))) {
            return Err("is a directory");
        }
        Ok(())
    }

    /// What a catalogue holds, read page by page. How many files there ever were cannot be seen.
    pub(crate) fn of(catalog: &Catalog, created: u64) -> Self {
        let mut model = Self { created, ..Self::default() };
        let mut after: Option<String> = None;
        loop {
            let (entries, more) = catalog.list("", after.as_deref(), 3).unwrap();
            after = entries.last().map(|(name, _)| name.clone());
            model.names.extend(entries);
            if !more {
                break;
            }
        }
        let mut after = None;
        loop {
            let (records, more) = catalog.dead(after, 3).unwrap();
            after = records.last().map(|record| record.file);
            model.dead.extend(records.into_iter().map(|record| (record.file, record)));
            if !more {
                break;
            }
        }
        model.servers = catalog.servers().unwrap();
        let empty = model.names.is_empty() && model.dead.is_empty();
        assert_eq!(catalog.is_empty().unwrap(), empty);
        for (name, record) in &model.names {
            assert_eq!(catalog.lookup(name).unwrap(), *record);
        }
        model
    }
}
