//! [`Cluster`], a connection, and [`PoolHandle`], a namespace of a pool.
//!
//! The connections of a process are shared by all that is opened, and live until it exits: to
//! connect takes longer than to open a file. They are shut down at exit, before the destructors of
//! librados, which its threads would not survive.

use std::collections::HashMap;
use std::env;
use std::ffi::{CString, OsString, c_int};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;

use super::{Library, Raw, RawSpace};
use crate::rados::error::RadosError;
use crate::rados::options::RadosOptions;

/// The space of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadosSpace {
    /// Bytes in all, replicas included.
    pub total: u64,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Objects.
    pub objects: u64,
}

/// A connection to a cluster.
#[derive(Debug)]
pub(in crate::rados) struct Cluster {
    pub(super) library: &'static Library,
    raw: Raw,
    options: RadosOptions,
    /// The process that connected: a child after `fork` has none of its threads.
    process: u32,
}

// SAFETY: librados says that a cluster handle may be used by many threads at once.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: the handle was made by `create2`, and pools and operations keep the cluster
            // alive.
            unsafe { (self.library.shutdown)(self.raw) };
        }
    }
}

/// What a connection depends on: the process, the user, and what librados reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClusterKey {
    process: u32,
    user: String,
    configuration: Option<PathBuf>,
    variables: [Option<OsString>; 2],
}

/// What [`use_configuration`] was told.
static CONFIGURATION: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Makes this process read the configuration of the cluster from a file, instead of that of
/// `CEPH_CONF` or the usual places, for what it opens from now on.
pub fn use_configuration(path: Option<&Path>) {
    *CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner) = path.map(Path::to_path_buf);
}

static CLUSTERS: Mutex<Option<HashMap<ClusterKey, Arc<Cluster>>>> = Mutex::new(None);

static AT_EXIT: Once = Once::new();

/// How long a shutdown waits for threads that give back leases.
const AT_EXIT_LIMIT: Duration = Duration::from_millis(500);

extern "C" fn shut_down() {
    // A thread that is connecting to a cluster that does not answer does not delay the exit.
    let clusters = match CLUSTERS.try_lock() {
        Ok(mut clusters) => clusters.take(),
        Err(_) => return,
    };
    let begin = Instant::now();
    for cluster in clusters.into_iter().flat_map(HashMap::into_values) {
        while Arc::strong_count(&cluster) > 1 && begin.elapsed() < AT_EXIT_LIMIT {
            sleep(Duration::from_millis(5));
        }
    }
}

/// The result of a function as a number or an error.
pub(super) fn outcome(result: c_int) -> Result<c_int, Errno> {
    if result < 0 { Err(Errno::from_raw(-result)) } else { Ok(result) }
}

/// The user that `CEPH_ARGS` names, as programs of Ceph take it.
fn user_of_arguments(arguments: &str) -> Option<String> {
    let mut words = arguments.split_whitespace();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        let value = match option {
            "--id" | "--user" | "-i" | "--name" | "-n" => value.or_else(|| words.next())?,
            _ => continue,
        };
        return Some(value.strip_prefix("client.").unwrap_or(value).to_owned());
    }
    None
}

impl Cluster {
    /// The connection of this process as the user, or as the one that `CEPH_ARGS` names, or as
    /// `admin`.
    pub(in crate::rados) fn shared(user: Option<&str>) -> Result<Arc<Self>, RadosError> {
        let arguments = env::var("CEPH_ARGS").unwrap_or_default();
        let user = user.map(str::to_owned).or_else(|| user_of_arguments(&arguments));
        let user = format!("client.{}", user.as_deref().unwrap_or("admin"));
        let configuration = CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let variables = ["CEPH_CONF", "CEPH_ARGS"].map(env::var_os);
        let key = ClusterKey { process: std::process::id(), user, configuration, variables };
        // Another thread that needs the same connection waits for this one, not longer than its
        // time limit.
        let mut clusters = CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let clusters = clusters.get_or_insert_with(HashMap::new);
        if let Some(cluster) = clusters.get(&key) {
            return Ok(Arc::clone(cluster));
        }
        let cluster = Arc::new(Self::connect(&key)?);
        clusters.insert(key, Arc::clone(&cluster));
        AT_EXIT.call_once(|| {
            // SAFETY: the function takes and returns nothing, and does not unwind: it waits, and
            // drops what it takes.
            let _ = unsafe { libc::atexit(shut_down) };
        });
        Ok(cluster)
    }

    fn connect(key: &ClusterKey) -> Result<Self, RadosError> {
        let user = key.user.as_str();
        let library = super::get()?;
        let options = RadosOptions::from_environment()?;
        let connect =
            |reason| RadosError::Connect { user: user.to_owned(), reason: Box::new(reason) };
        let name = c_string(user)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the strings end with a zero; the handle is written.
        let created =
            unsafe { (library.create2)(&raw mut raw, c"ceph".as_ptr(), name.as_ptr(), 0) };
        outcome(created).map_err(|errno| connect(RadosError::new(errno, options.patience)))?;
        let cluster = Self { library, raw, options, process: std::process::id() };
        // What fails is reported by errors. The configuration may say otherwise.
        cluster.set("log_to_stderr", "false")?;
        cluster.set("err_to_stderr", "false")?;
        let path = key.configuration.as_ref().map(|path| c_string(&path.to_string_lossy()));
        let path = path.transpose()?;
        let file = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: the path ends with a zero, or null stands for CEPH_CONF and the usual places.
        match outcome(unsafe { (library.conf_read_file)(raw, file) }) {
            // The arguments may have all that is needed.
            Err(Errno::ENOENT) if env::var_os("CEPH_ARGS").is_some() => {}
            read => drop(read.map_err(|errno| {
                RadosError::Configuration {
                    what:
                        "the configuration of the Ceph cluster (CEPH_CONF, or /etc/ceph/ceph.conf)"
                            .into(),
                    source: errno.into(),
                }
            })?),
        }
        // SAFETY: null stands for CEPH_ARGS.
        let parsed = unsafe { (library.conf_parse_env)(raw, ptr::null()) };
        let what = || "CEPH_ARGS".to_owned();
        outcome(parsed)
            .map_err(|errno| RadosError::Configuration { what: what(), source: errno.into() })?;
        let limit = cluster.options.seconds().to_string();
        for option in ["client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout"] {
            cluster.set(option, &limit)?;
        }
        // SAFETY: the handle is configured and not connected.
        let connected = unsafe { (library.connect)(raw) };
        outcome(connected)
            .map_err(|errno| connect(RadosError::new(errno, cluster.options.patience)))?;
        Ok(cluster)
    }

    fn set(&self, option: &str, value: &str) -> Result<(), RadosError> {
        let (name, text) = (c_string(option)?, c_string(value)?);
        // SAFETY: the strings end with a zero.
        let set = unsafe { (self.library.conf_set)(self.raw, name.as_ptr(), text.as_ptr()) };
        let what = || format!("the option {option} of librados");
        outcome(set)
            .map_err(|errno| RadosError::Configuration { what: what(), source: errno.into() })?;
        Ok(())
    }

    pub(in crate::rados) fn options(&self) -> &RadosOptions {
        &self.options
    }

    /// How full the cluster is.
    pub(in crate::rados) fn space(&self) -> Result<RadosSpace, Errno> {
        let mut raw = RawSpace::default();
        // SAFETY: the structure is writable.
        outcome(unsafe { (self.library.cluster_stat)(self.raw, &raw mut raw) })?;
        let bytes = |kb: u64| kb.saturating_mul(1024);
        Ok(RadosSpace {
            total: bytes(raw.kb),
            used: bytes(raw.kb_used),
            free: bytes(raw.kb_avail),
            objects: raw.objects,
        })
    }
}

/// A namespace of a pool.
#[derive(Debug)]
pub(in crate::rados) struct PoolHandle {
    pub(super) cluster: Arc<Cluster>,
    pub(super) raw: Raw,
}

// SAFETY: operations through one handle may be started by many threads; only its settings, which
// are made before it is shared, may not change meanwhile.
unsafe impl Send for PoolHandle {}
// SAFETY: as above.
unsafe impl Sync for PoolHandle {}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `ioctx_create`, and every operation under way keeps it
        // alive.
        unsafe { (self.cluster.library.ioctx_destroy)(self.raw) };
    }
}

impl PoolHandle {
    pub(in crate::rados) fn open(
        cluster: &Arc<Cluster>,
        pool: &str,
        namespace: &str,
    ) -> Result<Self, RadosError> {
        let (name, namespace) = (c_string(pool)?, c_string(namespace)?);
        let mut raw = ptr::null_mut();
        // SAFETY: the cluster is connected, the string ends with a zero, the handle is written.
        let created =
            unsafe { (cluster.library.ioctx_create)(cluster.raw, name.as_ptr(), &raw mut raw) };
        outcome(created).map_err(|errno| match errno {
            Errno::ENOENT => RadosError::NoPool(pool.to_owned()),
            other => RadosError::new(other, cluster.options.patience),
        })?;
        let handle = Self { cluster: Arc::clone(cluster), raw };
        // SAFETY: the handle is not shared yet, and the string ends with a zero.
        unsafe { (cluster.library.ioctx_set_namespace)(raw, namespace.as_ptr()) };
        Ok(handle)
    }

    pub(in crate::rados) fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

/// A text for C; one with a zero inside names nothing that could exist.
fn c_string(text: &str) -> Result<CString, RadosError> {
    CString::new(text).map_err(|_| RadosError::System(Errno::EINVAL.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_arguments() {
        let user = |text: &str| user_of_arguments(text);
        assert_eq!(user("--id alice").as_deref(), Some("alice"));
        assert_eq!(user("-m host --name=client.bob").as_deref(), Some("bob"));
        assert_eq!(user("-n client.c --keyring k").as_deref(), Some("c"));
        assert_eq!(user("--keyring k"), None);
        assert_eq!(user("--id"), None);
    }
}
