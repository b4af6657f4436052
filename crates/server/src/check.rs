//! The check of a whole file system: metadata compared with objects.
//!
//! An [`Inventory`] has the metadata and the objects of all servers; [`Inventory::findings`]
//! compares them. It is made by a client that asks running servers, or from the data directories of
//! servers that do not run ([`Inventory::of_directories`]), which are only read.

mod directories;
mod finding;
mod read_only;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::{NonZeroU32, NonZeroU64};

use striate_layout::striping::Striping;

use crate::catalog::FileRecord;
pub use finding::Finding;

/// What the metadata and all servers say.
#[derive(Debug)]
pub struct Inventory {
    /// The I/O servers, in the order in which files number them.
    pub servers: Vec<String>,
    /// The files by their names.
    pub files: Vec<(String, FileRecord)>,
    /// The ids of dead files.
    pub dead: Vec<u64>,
    /// The objects of each server, by id with their lengths; or why they are not known.
    pub objects: Vec<Result<BTreeMap<u64, u64>, String>>,
}

/// Whether a name is one that `striate fs cp` gives to copies that are not whole: `.NAME.part-` and
/// 16 digits.
pub fn is_unfinished_copy(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    name.starts_with('.')
        && name.rsplit_once(".part-").is_some_and(|(before, number)| {
            !before.is_empty() && number.len() == 16 && number.as_bytes().iter().all(digit)
        })
}

impl Inventory {
    /// The largest id of any file, alive or dead; 0 if there is none.
    pub fn highest_file(&self) -> u64 {
        let alive = self.files.iter().map(|(_, record)| record.file);
        alive.chain(self.dead.iter().copied()).max().unwrap_or(0)
    }

    /// Number of objects that are known.
    pub fn object_count(&self) -> u64 {
        self.objects.iter().flatten().map(|objects| objects.len() as u64).sum()
    }

    /// All that is not as it should be.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (server, objects) in self.servers.iter().zip(&self.objects) {
            if let Err(why) = objects {
                findings.push(Finding::Unchecked { server: server.clone(), why: why.clone() });
            }
        }
        for (path, record) in &self.files {
            if is_unfinished_copy(path) {
                // What is there of it does not matter.
                let (path, file) = (path.clone(), record.file);
                findings.push(Finding::UnfinishedCopy { path, file });
            } else {
                self.check_file(path, record, &mut findings);
            }
        }
        self.check_objects(&mut findings);
        findings
    }

    fn check_file(&self, path: &str, record: &FileRecord, findings: &mut Vec<Finding>) {
        let FileRecord { file, size, .. } = *record;
        let path = || path.to_owned();
        let (Some(strip), Some(servers)) =
            (NonZeroU64::new(record.strip), NonZeroU32::new(record.servers.len() as u32))
        else {
            findings.push(Finding::NoLayout { path: path(), file });
            return;
        };
        let striping = Striping { strip, servers };
        // The size that follows from the objects, unless one of them is missing or not known.
        let mut computed = Some(0);
        let mut short = Vec::new();
        for (index, &server) in (0..).zip(&record.servers) {
            let Some(address) = self.servers.get(server as usize) else {
                findings.push(Finding::UnknownServer { path: path(), file, server });
                computed = None;
                continue;
            };
            let Some(Ok(objects)) = self.objects.get(server as usize) else {
                computed = None;
                continue;
            };
            let expected = striping.object_len(index, size);
            let server = address.clone();
            match objects.get(&file) {
                None => {
                    let bytes = expected;
                    findings.push(Finding::MissingObject { path: path(), file, server, bytes });
                    computed = None;
                }
                Some(&len) => {
                    computed =
                        computed.map(|computed: u64| computed.max(striping.file_len(index, len)));
                    if len < expected {
                        let path = path();
                        short.push(Finding::ShortObject { path, file, server, len, expected });
                    }
                }
            }
        }
        match computed {
            Some(computed) if computed < size => {
                findings.push(Finding::ShortFile {
                    path: path(),
                    file,
                    size: computed,
                    recorded: size,
                });
            }
            _ => findings.extend(short),
        }
    }

    /// Objects that no file, or another server's, accounts for.
    fn check_objects(&self, findings: &mut Vec<Finding>) {
        let alive: HashMap<u64, &(String, FileRecord)> =
            self.files.iter().map(|entry| (entry.1.file, entry)).collect();
        let dead: HashSet<u64> = self.dead.iter().copied().collect();
        for &file in &self.dead {
            let holds = |objects: &&BTreeMap<u64, u64>| objects.contains_key(&file);
            let objects = self.objects.iter().flatten().filter(holds).count() as u64;
            findings.push(Finding::Dead { file, objects });
        }
        for ((index, server), objects) in (0..).zip(&self.servers).zip(&self.objects) {
            let strangers = objects.iter().flatten().filter(|(id, _)| !dead.contains(id));
            for (&object, &len) in strangers {
                let server = || server.clone();
                match alive.get(&object) {
                    None => findings.push(Finding::Orphan { server: server(), object, len }),
                    Some((path, record)) if !record.servers.contains(&index) => {
                        let path = path.clone();
                        findings.push(Finding::Misplaced { server: server(), object, len, path });
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
