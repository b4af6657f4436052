//! [`Reserve`]: whether a name may be added, so that names can still be removed afterwards.
//!
//! A removal takes new pages before it gives back old ones. The database finds them among its free
//! pages, or it doubles. So a name is added only if the database could double without more of the
//! disk, or has many free pages; otherwise there is no space left for names. Removals, and the
//! changes that a start makes, are always permitted.

use std::io;
use std::sync::{Mutex, PoisonError};

use redb::WriteTransaction;

use super::CatalogError;
use super::extent::{Extent, PAGE};

/// Free pages that a change leaves to those that remove something. Each of these takes a new page
/// for every level of each of the database's trees, ten to thirty together, most of which the next
/// but one can use again.
const KEPT: u64 = 128;

/// Pages by which a change makes the database larger at most, generously: each of its trees may
/// split at every level.
const STEP: u64 = 16;

/// Bytes that a small catalogue holds, where the disk has them: as long as its pages are few, the
/// database gives back so many that the rest would not do.
const LEAST: u64 = 3 << 20;

/// Bytes with which a database of `used` bytes can double, and to spare.
pub(super) fn enough_for(used: u64) -> u64 {
    (used.saturating_mul(2) + (64 << 10)).max(LEAST)
}

/// Holds what a small catalogue should have, of a disk of so many bytes. Without it, the catalogue
/// does with less.
pub(super) fn hold_least(extent: &Extent, disk: u64) {
    let _ = extent.hold(LEAST.min(disk / 8));
}

/// What is known of the database's free pages.
#[derive(Debug, Default)]
pub(super) struct Reserve(Mutex<FreePages>);

/// Pages that were free at least when the database had so many bytes: counting them again would
/// read all pages.
#[derive(Debug, Default)]
struct FreePages {
    used: u64,
    free: u64,
}

impl Reserve {
    /// Whether this transaction may add something.
    pub(super) fn check(
        &self,
        extent: &Extent,
        writing: &WriteTransaction,
    ) -> Result<(), CatalogError> {
        let used = extent.used();
        let double = used.saturating_mul(2) + (64 << 10);
        if extent.held() >= double {
            return Ok(());
        }
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.used == used && counted.free >= KEPT + STEP {
            counted.free -= STEP;
            return Ok(());
        }
        let pages = writing.stats()?.allocated_pages();
        // The first page is the header.
        let free = (used / PAGE).saturating_sub(1 + pages);
        *counted = FreePages { used, free };
        if free >= 2 * KEPT {
            return Ok(());
        }
        match extent.hold(double) {
            Err(error) if free < KEPT => Err(full(error)),
            _ => Ok(()),
        }
    }
}

fn full(error: io::Error) -> CatalogError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            CatalogError::Full { source: error }
        }
        _ => redb::Error::Io(error).into(),
    }
}
