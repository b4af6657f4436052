//! The limit on the space that the files of a replay may take, checked before any file is created.

use std::path::{Path, PathBuf};

use crate::error::ReplayError;
use crate::namespace::{FileType, Initial, StorageNeed};
use crate::options::{Options, ReplayTarget, SHARE_OF_FREE, StoreAt};

/// Refuses a recording whose files take more than they may.
pub(crate) fn check(
    initial: &[Initial],
    need: &StorageNeed,
    options: &Options,
) -> Result<(), ReplayError> {
    let need = with_initial(initial, need, options);
    let (free, place) = match (&options.onto, options.most_space) {
        (_, Some(limit)) => return compare(need, limit, None, PathBuf::new()),
        (ReplayTarget::Temporary { within, .. }, None) => {
            let place = within.clone().unwrap_or_else(std::env::temp_dir);
            (free_in(&place), place)
        }
        (
            ReplayTarget::Directory(place)
            | ReplayTarget::Store { at: StoreAt::Directory(place), .. },
            None,
        ) => (free_in(place), place.clone()),
        (ReplayTarget::Store { at: StoreAt::Memory, .. }, None) => (free_memory(), "memory".into()),
        // Servers say it when they are full.
        (ReplayTarget::Store { at: StoreAt::Servers(_), .. }, None) => return Ok(()),
    };
    match free {
        Some(free) => compare(need, free / 100 * SHARE_OF_FREE, Some(free), place),
        None => Ok(()),
    }
}

/// Adds what existed before, which is written first, unless it is there.
fn with_initial(initial: &[Initial], need: &StorageNeed, options: &Options) -> StorageNeed {
    let mut need = need.clone();
    let root = match &options.onto {
        ReplayTarget::Directory(root) => Some(root.as_path()),
        _ => None,
    };
    for Initial { path, file_type, .. } in initial {
        let FileType::File(size) = file_type else { continue };
        let here = root.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
        let there = here.and_then(|here| here.metadata().ok());
        let real = root == Some(Path::new("/"));
        if there.is_some_and(|there| real || there.len() == *size) {
            continue;
        }
        let size = size.checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        need.written = need.written.saturating_add(size);
        if size > need.largest.1 {
            need.largest = (path.clone(), size);
        }
    }
    need
}

fn compare(
    need: StorageNeed,
    limit: u64,
    free: Option<u64>,
    place: PathBuf,
) -> Result<(), ReplayError> {
    let StorageNeed { written: needed, largest } = need;
    if needed <= limit {
        return Ok(());
    }
    Err(ReplayError::Space { needed, limit, free, place, largest })
}

/// Bytes that are free where a directory is, or will be.
fn free_in(place: &Path) -> Option<u64> {
    let there = place.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let told = rustix::fs::statvfs(there).ok()?;
    Some(told.f_bavail.saturating_mul(told.f_frsize))
}

fn free_memory() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = told.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}
