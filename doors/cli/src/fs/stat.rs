//! `striate fs stat`: the location and the current size of a file.

use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroU64};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::Serialize;
use striate_layout::striping::Striping;
use striate_store::rados::{RadosNamespace, RadosUrl};
use striate_store::remote::{Client, FileInfo, RemoteUrl};

use super::local::LocalDescription;
use super::objects::{self, ObjectDescription};
use super::{Location, path, shown};
use crate::document::Document;
use crate::number::bytes;
use crate::table::{Side, Table};
use crate::time::utc;
use crate::{CommandError, terminal};

/// Show the location and current size of files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs stat striate://io.example/run7/out.dat
  striate fs stat --json striate://io.example/run7/out.dat
  striate fs stat rados://pool/namespace/out.dat
  striate fs stat s3://bucket/run7/out.dat
  striate fs stat out.dat                      the file system that it lies on, and how it is used there")]
pub(crate) struct StatArgs {
    /// The files
    #[arg(required = true, value_name = "URL|PATH", value_parser = OsStringValueParser::new().try_map(Location::new))]
    files: Vec<Location>,
}

/// What is known about a file on servers.
#[derive(Debug, Serialize)]
struct FileDescription {
    url: String,
    path: String,
    file: u64,
    /// The current size, from the lengths of the objects.
    size: u64,
    /// The size at the last sync, close or truncation.
    recorded_size: u64,
    strip: u64,
    objects: Vec<Object>,
    created_ms: u64,
    modified_ms: u64,
}

/// What is known about a file in a pool of Ceph.
#[derive(Debug, Serialize)]
struct PooledFile {
    url: String,
    name: String,
    /// What its objects are called after.
    file: String,
    size: u64,
    strip: u64,
    created_ms: u64,
}

#[derive(Debug, Serialize)]
struct Object {
    server: String,
    /// Absent if the object is.
    #[serde(skip_serializing_if = "Option::is_none")]
    len: Option<u64>,
}

pub(crate) fn run(args: &StatArgs, json: bool) -> Result<(), CommandError> {
    let described = args.files.iter().map(StatRow::new).collect::<Result<Vec<_>, _>>()?;
    if json {
        return Document::new(described, Vec::new()).print();
    }
    let texts: Vec<String> = described.iter().map(StatRow::text).collect();
    terminal::print(&texts.join("\n"))
}

/// A row of the JSON document.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StatRow {
    OnServers(FileDescription),
    InPool(PooledFile),
    Object(ObjectDescription),
    Local(LocalDescription),
}

impl StatRow {
    fn new(file: &Location) -> Result<Self, CommandError> {
        Ok(match file {
            Location::Remote(url) => Self::OnServers(describe_on_servers(url)?),
            Location::Pool(url) => Self::InPool(describe_in_pool(url)?),
            Location::Object(url) => Self::Object(objects::describe(url)?),
            Location::Local(path) => Self::Local(LocalDescription::new(path)?),
        })
    }

    fn text(&self) -> String {
        match self {
            Self::OnServers(file) => file.text(),
            Self::InPool(file) => file.text(),
            Self::Object(object) => object.text(),
            Self::Local(file) => file.text(),
        }
    }
}

fn describe_in_pool(url: &RadosUrl) -> Result<PooledFile, CommandError> {
    let found = RadosNamespace::open(url)?.stat(&url.name)?;
    Ok(PooledFile {
        url: url.to_string(),
        name: found.name,
        file: found.id,
        size: found.size,
        strip: found.strip,
        created_ms: found.created_ms,
    })
}

fn describe_on_servers(url: &RemoteUrl) -> Result<FileDescription, CommandError> {
    let client = Client::shared(url)?;
    let info = client.lookup(path(url))?;
    let lens = client.object_lens(&info)?;
    let FileInfo { path, file, strip, servers, size, created_ms, modified_ms, .. } = info;
    let striping = Striping {
        strip: NonZeroU64::new(strip).unwrap_or(NonZeroU64::MIN),
        servers: NonZeroU32::new(servers.len() as u32).unwrap_or(NonZeroU32::MIN),
    };
    let ends = (0..).zip(&lens).map(|(index, len)| striping.file_len(index, len.unwrap_or(0)));
    Ok(FileDescription {
        url: client.url(&path).to_string(),
        path,
        file,
        size: ends.max().unwrap_or(0),
        recorded_size: size,
        strip,
        objects: servers
            .into_iter()
            .zip(lens)
            .map(|(server, len)| Object { server, len })
            .collect(),
        created_ms,
        modified_ms,
    })
}

impl PooledFile {
    fn text(&self) -> String {
        let mut text = format!("{}\n", terminal::heading(&shown(&self.url)));
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "  {what:<10}{value}");
        };
        line("size", bytes(self.size));
        line("strip", bytes(self.strip));
        line("file", self.file.clone());
        line("created", utc(self.created_ms));
        line("objects", format!("striate.{}.*", self.file));
        text
    }
}

impl FileDescription {
    fn text(&self) -> String {
        let mut text = format!("{}\n", terminal::heading(&shown(&self.url)));
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "  {what:<10}{value}");
        };
        line("size", bytes(self.size));
        if self.recorded_size != self.size {
            line("", format!("{} at the last sync", bytes(self.recorded_size)));
        }
        line("strip", bytes(self.strip));
        line("file", format!("{:016x}", self.file));
        line("created", utc(self.created_ms));
        line("modified", utc(self.modified_ms));
        let mut table =
            Table::new(&[("", Side::Right), ("server", Side::Left), ("object", Side::Right)]);
        for (index, object) in self.objects.iter().enumerate() {
            let len = object.len.map_or("missing".to_owned(), bytes);
            table.row([index.to_string(), shown(&object.server), len]);
        }
        text + &table.render()
    }
}
