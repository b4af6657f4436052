//! [`RadosNamespace`]: the files of a namespace, by their names.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::attributes::MAX_STRIP;
use super::catalogue::{Catalogue, RadosFileInfo};
use super::error::RadosError;
use super::head::Head;
use super::library::RadosSpace;
use super::library::cluster::{Cluster, PoolHandle};
use super::options::RadosOptions;
use super::url::RadosUrl;
use crate::error::{Operation, StoreError};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadosCreation {
    /// Make it if it does not exist.
    pub create: bool,
    /// Fail if it exists.
    pub exclusive: bool,
    /// Bytes of a strip of a new file, at most 64 MiB.
    pub strip: u64,
}

impl Default for RadosCreation {
    fn default() -> Self {
        Self { create: false, exclusive: false, strip: 4 << 20 }
    }
}

/// The files of a namespace of a pool. Clones share their connection.
#[derive(Clone, Debug)]
pub struct RadosNamespace {
    pool: Arc<PoolHandle>,
    /// With an empty name.
    url: RadosUrl,
    options: RadosOptions,
}

impl RadosNamespace {
    /// The namespace of a URL, through the connection of this process.
    pub fn open(url: &RadosUrl) -> Result<Self, StoreError> {
        let failed = |error| StoreError::rados(Operation::Open, url.to_string(), error);
        let cluster = Cluster::shared(url.user.as_deref()).map_err(failed)?;
        let pool = PoolHandle::open(&cluster, &url.pool, &url.namespace).map_err(failed)?;
        let options = cluster.options().clone();
        Ok(Self { pool: Arc::new(pool), url: url.with_name(""), options })
    }

    /// The same, with another number or size of the operations that are under way at a time.
    #[must_use]
    pub fn with_window(mut self, depth: usize, extents: usize) -> Self {
        self.options.depth = depth.max(1);
        self.options.extents = extents.max(1);
        self
    }

    /// The URL of a name.
    pub fn url(&self, name: &str) -> RadosUrl {
        self.url.with_name(name)
    }

    fn catalogue(&self) -> Catalogue<'_> {
        Catalogue { pool: &self.pool, options: &self.options }
    }

    fn failed(&self, operation: Operation, name: &str) -> impl Fn(RadosError) -> StoreError {
        let url = self.url(name).to_string();
        move |error| StoreError::rados(operation, url.clone(), error)
    }

    pub(super) fn head(&self, name: &str, creation: &RadosCreation) -> Result<Head, StoreError> {
        let failed = self.failed(Operation::Open, name);
        if name.is_empty() {
            let why = "the URL names no file: the name after the pool is missing";
            return Err(StoreError::unsupported(Operation::Open, self.url(name).to_string(), why));
        }
        if !creation.create {
            return self.catalogue().open(name).map_err(failed);
        }
        let strip = NonZeroU64::new(creation.strip).filter(|strip| strip.get() <= MAX_STRIP);
        let strip = strip.ok_or_else(|| {
            let why = format!("strips have 1 to {MAX_STRIP} bytes, not {}", creation.strip);
            StoreError::unsupported(Operation::Open, self.url(name).to_string(), why)
        })?;
        self.catalogue().create(name, strip, creation.exclusive).map_err(failed)
    }

    /// Finds a file.
    pub fn stat(&self, name: &str) -> Result<RadosFileInfo, StoreError> {
        let head = self.head(name, &RadosCreation::default())?;
        Ok(RadosFileInfo::new(name, &head.id, &head.known()))
    }

    /// The files whose names begin with `prefix`, in the order of the names' bytes.
    pub fn list(&self, prefix: &str) -> Result<Vec<RadosFileInfo>, StoreError> {
        let mut files: Vec<RadosFileInfo> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let (page, more) = self.list_page(prefix, after.as_deref(), u64::MAX)?;
            after = page.last().map(|file| file.name.clone());
            files.extend(page);
            // A page without progress would be asked for again for ever.
            if !more || after.is_none() {
                return Ok(files);
            }
        }
    }

    /// A part of what [`RadosNamespace::list`] finds: up to `most` files after the name `after`,
    /// and whether there are more.
    pub fn list_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        most: u64,
    ) -> Result<(Vec<RadosFileInfo>, bool), StoreError> {
        let listed = self.catalogue().list(prefix, after, most);
        listed.map_err(self.failed(Operation::List, prefix))
    }

    /// Gives a file another name in the namespace; a file of that name is replaced, or an error.
    pub fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), StoreError> {
        let renamed = self.catalogue().rename(from, to, replace);
        renamed.map_err(|error| {
            let what = format!("{} to {to}", self.url(from));
            StoreError::rados(Operation::Rename, what, error)
        })
    }

    /// Removes a file and its objects.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.catalogue().remove(name).map_err(self.failed(Operation::Remove, name))
    }

    /// Finishes removals that were interrupted; returns how many.
    pub fn bury_dead(&self) -> Result<u64, StoreError> {
        self.catalogue().bury_dead().map_err(self.failed(Operation::Remove, ""))
    }

    /// How full the cluster is.
    pub fn space(&self) -> Result<RadosSpace, StoreError> {
        let failed = |errno| {
            let error = RadosError::new(errno, self.options.patience);
            StoreError::rados(Operation::Ask, self.url("").to_string(), error)
        };
        self.pool.cluster().space().map_err(failed)
    }
}
