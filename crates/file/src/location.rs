//! [`Location`]: where a file lies: on a file system, on I/O servers, in a pool of Ceph or in an
//! object store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_store::lustre::StripingReport;
use striate_store::rados::{RadosCreation, RadosFile, RadosNamespace, RadosUrl, RadosUrlError};
use striate_store::remote::{Client, Layout, RemoteFile, RemoteOptions, RemoteUrl, UrlError};
use striate_store::s3::{S3Bucket, S3Error, S3Object, S3Url};
use striate_store::store::Store;
use striate_store::{Cause, Coherent, ErrorKind, Operation, PosixFile, PosixOptions, StoreError};

use crate::cost_model::CostModel;
use crate::hints::{Hints, Switch};
use crate::{FileError, Mode, striping};

/// A file that was opened.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn Store>,
    /// The same, if it is a local file.
    pub(crate) local: Option<Arc<PosixFile>>,
    /// Whether it can be read although it is opened for writing only.
    pub(crate) reads_back: bool,
    /// How it is striped, on Lustre.
    pub(crate) striping: Option<StripingReport>,
    /// What tells the opened version of an object from others: all ranks must have the same.
    pub(crate) version: Option<String>,
}

/// The least and the most bytes of a strip in a pool; a hint is a wish.
const RADOS_STRIPS: (u64, u64) = (4 << 10, 64 << 20);

/// Where a file lies.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    Path(PathBuf),
    Servers(RemoteUrl),
    Rados(RadosUrl),
    /// Read only.
    Object(S3Url),
}

impl Location {
    /// A path, or a URL that begins with `striate://`, `striate+tls://`, `rados://` or `s3://`.
    pub(crate) fn new(path: &Path) -> Result<Self, FileError> {
        fn bad(name: &str, error: &dyn ToString) -> FileError {
            FileError::BadName { name: name.to_owned(), reason: error.to_string() }
        }
        match path.to_str() {
            Some(text) if RemoteUrl::is_remote(text) => {
                text.parse().map(Self::Servers).map_err(|error: UrlError| bad(text, &error))
            }
            Some(text) if RadosUrl::is_rados(text) => {
                text.parse().map(Self::Rados).map_err(|error: RadosUrlError| bad(text, &error))
            }
            Some(text) if S3Url::is_s3(text) => {
                text.parse().map(Self::Object).map_err(|error| bad(text, &error))
            }
            _ => Ok(Self::Path(path.to_path_buf())),
        }
    }

    /// A hidden name in the same directory.
    pub(crate) fn hidden_sibling(&self, what: &str) -> Self {
        match self {
            Self::Path(path) => {
                let mut name = OsString::from(".");
                name.push(path.file_name().unwrap_or_default());
                name.push(format!(".{what}"));
                Self::Path(path.with_file_name(name))
            }
            Self::Servers(url) => {
                Self::Servers(RemoteUrl { path: hidden(&url.path, what), ..url.clone() })
            }
            Self::Rados(url) => Self::Rados(url.with_name(hidden(&url.name, what))),
            Self::Object(url) => Self::Object(url.with_key(hidden(&url.key, what))),
        }
    }

    /// Opens the file. One rank, the `first`, creates it if the mode says so.
    pub(crate) fn open(
        &self,
        mode: Mode,
        hints: &Hints,
        first: bool,
    ) -> Result<OpenedStore, FileError> {
        let create = first && mode.contains(Mode::CREATE);
        let exclusive = first && mode.contains(Mode::EXCLUSIVE);
        match self {
            Self::Path(path) => open_posix(path, mode, hints, create, exclusive),
            Self::Servers(url) => {
                let standard = Layout::default();
                let small = |number: Option<u64>| number.and_then(|n| u32::try_from(n).ok());
                let layout = Layout {
                    strip: hints.striping_unit.unwrap_or(standard.strip),
                    servers: small(hints.striping_factor),
                    first: small(hints.start_iodevice),
                };
                let options = RemoteOptions { create, exclusive, layout };
                let store = Arc::new(RemoteFile::open(url, &options)?);
                Ok(OpenedStore::on_network(store, None))
            }
            Self::Object(url) if mode.contains(Mode::WRITE) => {
                Err(read_only(Operation::Open, url).into())
            }
            Self::Object(url) => {
                let object = Arc::new(S3Object::open(url)?);
                let version = object.version().map(str::to_owned);
                Ok(OpenedStore::on_network(object, version))
            }
            Self::Rados(url) => {
                let standard = RadosCreation::default().strip;
                let strip =
                    hints.striping_unit.unwrap_or(standard).clamp(RADOS_STRIPS.0, RADOS_STRIPS.1);
                let creation = RadosCreation { create, exclusive, strip };
                Ok(OpenedStore::on_network(Arc::new(RadosFile::open(url, &creation)?), None))
            }
        }
    }

    /// Deletes the file.
    pub(crate) fn delete(&self) -> Result<(), FileError> {
        match self {
            Self::Path(path) => {
                std::fs::remove_file(path).map_err(|error| failed(Operation::Remove, path, error))
            }
            Self::Servers(url) => Ok(Client::shared(url)?.remove(&url.path)?),
            Self::Rados(url) => Ok(RadosNamespace::open(url)?.remove(&url.name)?),
            Self::Object(url) => Ok(S3Bucket::shared(url)?.remove(&url.key)?),
        }
    }

    /// Whether there is a file.
    pub(crate) fn exists(&self) -> Result<bool, FileError> {
        match self {
            Self::Path(path) => {
                path.try_exists().map_err(|error| failed(Operation::Ask, path, error))
            }
            Self::Servers(url) => is_found(Client::shared(url)?.lookup(&url.path)),
            Self::Rados(url) => is_found(RadosNamespace::open(url)?.stat(&url.name)),
            Self::Object(url) => is_found(S3Bucket::shared(url)?.head(&url.key)),
        }
    }

    /// Gives the file another name in the same directory or on the same servers, durably; a file of
    /// that name is replaced.
    pub(crate) fn rename(&self, to: &Self) -> Result<(), FileError> {
        match (self, to) {
            (Self::Path(from), Self::Path(to)) => {
                let renamed = std::fs::rename(from, to).and_then(|()| {
                    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
                    std::fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
                });
                renamed.map_err(|error| {
                    let names = format!("{} to {}", from.display(), to.display());
                    StoreError::system(Operation::Rename, names, error).into()
                })
            }
            (Self::Servers(from), Self::Servers(to))
                if (&from.address, from.tls) == (&to.address, to.tls) =>
            {
                Ok(Client::shared(from)?.rename(&from.path, &to.path, true)?)
            }
            (Self::Rados(from), Self::Rados(to)) if from.with_name("") == to.with_name("") => {
                Ok(RadosNamespace::open(from)?.rename(&from.name, &to.name, true)?)
            }
            (Self::Object(url), _) | (_, Self::Object(url)) => {
                let why = "object stores do not rename; copy it and remove the other";
                Err(StoreError::unsupported(Operation::Rename, url.to_string(), why).into())
            }
            _ => Err(FileError::Argument {
                call: "rename",
                reason:
                    "the two names are not in the same directory, namespace, or on the same servers"
                        .into(),
            }),
        }
    }

    /// What requests cost there.
    pub(crate) fn costs(&self, store: &dyn Store) -> CostModel {
        match self {
            Self::Path(path) => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                CostModel::measure(directory.unwrap_or(Path::new(".")))
            }
            Self::Servers(url) => CostModel::measure_servers(&url.address, store),
            Self::Rados(url) => CostModel::measure_servers(&format!("rados://{}", url.pool), store),
            Self::Object(url) => CostModel::measure_objects(&url.bucket, store),
        }
    }
}

impl OpenedStore {
    fn on_network(store: Arc<dyn Store>, version: Option<String>) -> Self {
        Self { store, local: None, reads_back: true, striping: None, version }
    }
}

/// The name hidden beside a name with slashes.
fn hidden(name: &str, what: &str) -> String {
    let (directory, last) = name.split_at(name.rfind('/').map_or(0, |at| at + 1));
    format!("{directory}.{last}.{what}")
}

/// Whether a file was found.
fn is_found<T>(found: Result<T, StoreError>) -> Result<bool, FileError> {
    match found {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn read_only(operation: Operation, url: &S3Url) -> StoreError {
    StoreError::new(operation, url.to_string(), Cause::Objects(S3Error::ReadOnly))
}

fn failed(operation: Operation, path: &Path, error: std::io::Error) -> FileError {
    StoreError::system(operation, path.display().to_string(), error).into()
}

/// Opens for reading, too, where only writing is asked for: methods that change a part of a window
/// must read the rest. Where that is not permitted, such methods are not used.
fn open_posix(
    path: &Path,
    mode: Mode,
    hints: &Hints,
    create: bool,
    exclusive: bool,
) -> Result<OpenedStore, FileError> {
    let write = mode.contains(Mode::WRITE);
    let options = PosixOptions {
        read: true,
        write,
        create,
        exclusive,
        direct: hints.direct == Switch::Enable,
        list_regions: hints.list_regions as usize,
        striping: Some(striping::request(hints)),
        ..PosixOptions::default()
    };
    let write_only = PosixOptions { read: false, ..options.clone() };
    let (file, reads_back) = match PosixFile::open(path, &options) {
        Err(_) if write && !mode.contains(Mode::READ) => {
            (PosixFile::open(path, &write_only)?, false)
        }
        opened => (opened?, true),
    };
    let striping = file.striping().cloned();
    if file.is_close_to_open() {
        // What waits in the memory of a node would not be seen by others.
        let store = Arc::new(Coherent::new(file));
        return Ok(OpenedStore { store, local: None, reads_back, striping, version: None });
    }
    let file = Arc::new(file);
    Ok(OpenedStore {
        store: Arc::clone(&file) as _,
        local: Some(file),
        reads_back,
        striping,
        version: None,
    })
}
