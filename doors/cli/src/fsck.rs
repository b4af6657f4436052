//! `striate fsck`: checks the consistency of names and objects, on running servers or in their
//! directories.
//!
//! Running servers are looked at while files come and go, in an order in which what is well cannot
//! look otherwise: objects first, then names, then dead files. A file that is renamed or created at
//! the wrong moment can still be missed, so only what is there at a second look counts.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::Serialize;
use striate_server::ServerError;
use striate_server::catalog::FileRecord;
use striate_server::check::{Finding, Inventory};
use striate_store::remote::{Client, RemoteUrl};
use striate_store::{ErrorKind, StoreError};

use crate::document::Document;
use crate::fs::supervised::{spinner, steps, supervised};
use crate::fs::{Location, ask_each};
use crate::number::{counted, counted_as, grouped};
use crate::unfinished::is_in_use;
use crate::{CommandError, terminal};

/// How long files that are being made or removed have until the second look.
const PAUSE: Duration = Duration::from_secs(1);

/// Check the consistency of names and data of a file system
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fsck striate://io.example                  check running servers
  striate fsck --repair striate://io.example         also remove objects of no file
  striate fsck /srv/meta /srv/io1 /srv/io2           check servers that do not run

It looks for files whose objects are missing or too short, for objects of no file, for copies and removals
that were interrupted, and for servers that do not answer. Directories are given in the order in which
the metadata server lists its servers, and are only read. The contents of files are not verified, since
there is no second copy.

Exit status: 0 no problems, or all repaired; 1 problems were found; 2 wrong usage.")]
pub(crate) struct FsckArgs {
    /// Remove objects of no file, files of interrupted copies and objects of interrupted removals;
    /// other files are not touched
    #[arg(long)]
    repair: bool,

    /// The URL of the file system, or the data directories of all servers
    #[arg(required = true, value_name = "URL|DIR", value_parser = OsStringValueParser::new().try_map(Location::new))]
    targets: Vec<Location>,
}

/// Something that was found; a row of the JSON document.
#[derive(Debug, Serialize)]
struct FindingRow {
    #[serde(flatten)]
    finding: Finding,
    /// The finding in words.
    text: String,
    repaired: bool,
    /// Why it was not repaired although that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

impl FindingRow {
    fn new(finding: Finding) -> Self {
        Self { text: finding.to_string(), finding, repaired: false, left: None }
    }
}

pub(crate) fn run(args: &FsckArgs, json: bool) -> Result<(), CommandError> {
    let repaired = AtomicU64::new(0);
    let interrupted = || {
        let changed = match repaired.load(Ordering::SeqCst) {
            0 => "nothing was changed".to_owned(),
            count => format!("{} repaired", counted_as(count, "finding is", "findings are")),
        };
        let why = format!("it was interrupted; {changed}");
        CommandError::failed("the check is not complete", why, "")
    };
    let (inventory, rows) = supervised(interrupted, |stop| match &args.targets[..] {
        [Location::Remote(url)] => {
            let checked = check_servers(url, args.repair, stop, &repaired)?;
            checked.ok_or_else(interrupted)
        }
        targets => {
            let looking = spinner("reading the directories");
            let inventory = directories(targets, args.repair);
            looking.finish_and_clear();
            let inventory = inventory?;
            let rows = inventory.findings().into_iter().map(FindingRow::new).collect();
            Ok((inventory, rows))
        }
    })?;
    let well = rows.iter().all(|row| row.repaired);
    if json {
        Document::new(rows, Vec::new()).print()?;
    } else {
        terminal::print(&text(&inventory, &rows))?;
    }
    if well { Ok(()) } else { Err(CommandError::NotWell) }
}

fn text(inventory: &Inventory, rows: &[FindingRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let outcome = match (&row.left, row.repaired) {
            (_, true) => ": repaired".to_owned(),
            (Some(left), false) => format!(": left, {left}"),
            (None, false) => String::new(),
        };
        let _ = writeln!(text, "{}{outcome}", row.text);
    }
    let repaired = rows.iter().filter(|row| row.repaired).count();
    let found = match (rows.len(), repaired) {
        (0, _) => "all is well".to_owned(),
        (found, 0) => {
            format!("{} found", counted_as(found as u64, "thing was", "things were"))
        }
        (found, repaired) => format!(
            "{} found, {} of them repaired",
            grouped(found as u64),
            grouped(repaired as u64)
        ),
    };
    let _ = writeln!(
        text,
        "{found}: {}, {}, {}",
        counted(inventory.files.len() as u64, "file"),
        counted(inventory.object_count(), "object"),
        counted(inventory.servers.len() as u64, "server"),
    );
    text
}

fn directories(targets: &[Location], repair: bool) -> Result<Inventory, CommandError> {
    let path = |target: &Location| match target {
        Location::Local(path) => Ok(path.clone()),
        Location::Object(url) => Err(CommandError::usage(
            format!("{url} is in an object store, which checks its own consistency"),
            "'striate fs rm --unfinished' removes what interrupted uploads have left",
        )),
        Location::Remote(url) => Err(CommandError::usage(
            format!("{url} cannot be checked together with directories or other URLs"),
            "give one URL, or the directories of all servers",
        )),
        Location::Pool(url) => Err(CommandError::usage(
            format!("{url} is in a pool of Ceph, which checks and repairs itself"),
            "'striate fs rm --dead URL' finishes removals that were interrupted",
        )),
    };
    let paths = targets.iter().map(path).collect::<Result<Vec<PathBuf>, _>>()?;
    if repair {
        return Err(CommandError::usage(
            "directories are only read, not repaired",
            "start the servers, and repair with their URL",
        ));
    }
    Inventory::of_directories(&paths).map_err(|error| match error {
        ServerError::Settings(text) => {
            let hint = "'striate fsck --help' says which directories are needed";
            CommandError::usage(text, hint)
        }
        ServerError::InUse { .. } => CommandError::failed(
            "cannot check the directories",
            error,
            "end the servers first, or check them by their URL while they run",
        ),
        other => CommandError::failed("cannot check the directories", other, ""),
    })
}

/// What is found on running servers; `None` if it was interrupted.
fn check_servers(
    url: &RemoteUrl,
    repair: bool,
    stop: &AtomicBool,
    repaired: &AtomicU64,
) -> Result<Option<(Inventory, Vec<FindingRow>)>, CommandError> {
    let client = Client::shared(url)?;
    let inventory = |message| {
        let looking = spinner(message);
        let inventory = take_inventory(&client);
        looking.finish_and_clear();
        inventory
    };
    let first = inventory("asking the servers for names and objects")?;
    let suspected = first.findings();
    if suspected.is_empty() {
        return Ok(Some((first, Vec::new())));
    }
    let pause = Instant::now();
    while pause.elapsed() < PAUSE {
        if stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        std::thread::sleep(PAUSE / 50);
    }
    let second = inventory("asking once more, since something was found")?;
    let confirmed = |finding: &Finding| suspected.iter().any(|other| finding.is_same(other));
    let findings = second.findings().into_iter().filter(confirmed);
    let findings = findings.filter(|finding| !is_being_copied(&client, finding));
    let mut rows: Vec<FindingRow> = findings.map(FindingRow::new).collect();
    if repair {
        let highest = first.highest_file();
        let bar = steps(rows.len() as u64);
        for row in &mut rows {
            if stop.load(Ordering::SeqCst) {
                return Ok(None);
            }
            bar.set_message(row.text.clone());
            repair_orphan(&client, highest, row);
            remove_copy(&client, row);
            repaired.fetch_add(row.repaired.into(), Ordering::SeqCst);
            bar.inc(1);
        }
        bury_dead(&client, &mut rows);
        bar.finish_and_clear();
    }
    Ok(Some((second, rows)))
}

/// Whether a process writes a copy that is not finished.
fn is_being_copied(client: &Client, finding: &Finding) -> bool {
    let Finding::UnfinishedCopy { path, .. } = finding else { return false };
    // One that no longer exists was renamed to its name, or removed.
    let Ok(file) = client.lookup(path) else { return true };
    is_in_use(client, &file)
}

/// Removes what is left of a copy, unless it has got its name or a process writes it.
fn remove_copy(client: &Client, row: &mut FindingRow) {
    let Finding::UnfinishedCopy { path, .. } = &row.finding else { return };
    if is_being_copied(client, &row.finding) {
        row.left = Some("since a process writes it".into());
        return;
    }
    match client.remove(path) {
        Ok(()) => row.repaired = true,
        Err(error) if error.kind() == ErrorKind::NotFound => row.repaired = true,
        Err(error) => row.left = Some(format!("since the servers did not remove it: {error}")),
    }
}

fn take_inventory(client: &Client) -> Result<Inventory, StoreError> {
    let servers = client.servers()?;
    // A file has its name before its objects: an object without one is listed before names are.
    let objects = ask_each(&servers, |server| client.objects(server));
    let objects = objects.into_iter().map(|answer| match answer {
        Ok(objects) => Ok(objects.into_iter().collect()),
        Err(error) => Err(error.to_string()),
    });
    let objects = objects.collect();
    let number: HashMap<&String, u32> = servers.iter().zip(0..).collect();
    let record = |file: striate_store::remote::FileInfo| {
        let servers = file.servers.iter();
        let record = FileRecord {
            file: file.file,
            strip: file.strip,
            servers: servers.map(|server| number.get(server).map_or(u32::MAX, |n| *n)).collect(),
            size: file.size,
            created_ms: file.created_ms,
            modified_ms: file.modified_ms,
            truncations: file.truncations,
            lens: Vec::new(),
        };
        (file.path, record)
    };
    let files = client.list("")?.into_iter().map(record).collect();
    let dead = client.dead()?;
    Ok(Inventory { files, dead, objects, servers })
}

/// Removes an object of no file. Not one whose id no file may have had yet: one may get it now.
fn repair_orphan(client: &Client, highest: u64, row: &mut FindingRow) {
    let Finding::Orphan { server, object, .. } = &row.finding else { return };
    if *object >= highest {
        row.left =
            Some("since it may belong to a file that is being created; try again later".into());
        return;
    }
    match client.remove_orphan(server, *object) {
        Ok(true) => row.repaired = true,
        Ok(false) => row.left = Some("since a file has this id after all".into()),
        Err(error) => row.left = Some(format!("since the server did not remove it: {error}")),
    }
}

fn bury_dead(client: &Client, rows: &mut [FindingRow]) {
    let is_dead = |row: &&mut FindingRow| matches!(row.finding, Finding::Dead { .. });
    let mut rows: Vec<&mut FindingRow> = rows.iter_mut().filter(is_dead).collect();
    if rows.is_empty() {
        return;
    }
    let buried =
        client.bury_dead().map_err(|error| format!("since not all objects are gone: {error}"));
    for row in &mut rows {
        match &buried {
            Ok(_) => row.repaired = true,
            Err(why) => row.left = Some(why.clone()),
        }
    }
}
