//! Recovery of files of `path-rewrite` that did not reach their destination.

use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Fate, Recovered, Report, Wanted};
use crate::path_rewrite::claim::{Base, Claim};
use crate::path_rewrite::fast_place::FastPlace;
use crate::path_rewrite::journal::{Course, Journal};
use crate::path_rewrite::moving::{Refused, is_obsolete, move_claimed};
use crate::trust;

/// Looks for what is beneath a fast place.
pub(super) fn recover_in(place: &Arc<FastPlace>, wanted: Wanted, report: &mut Report) {
    if let Err(distrust) = place.check() {
        return report.unreadable.push(distrust.into_parts());
    }
    let all = match Base::all(place) {
        Ok(all) => all,
        Err(error) => return report.unreadable.push((place.to().to_path_buf(), error)),
    };
    for base in all {
        match Claim::alone(&base) {
            Ok(Some(claim)) => recover_file(&base, claim, wanted, report),
            Ok(None) => {}
            Err(Errno::AGAIN) => report.in_use.push(base.lock()),
            Err(error) => {
                // Why, if it is because of whose it is.
                let reason = trust::open_file(&base.lock(), OFlags::RDONLY).err();
                report.unreadable.push((base.lock(), reason.unwrap_or_else(|| error.into())));
            }
        }
    }
    if wanted == Wanted::Finish {
        Base::clean(place);
    }
}

fn recover_file(base: &Base, claim: Claim, wanted: Wanted, report: &mut Report) {
    let found = Journal::read(base).map(|journal| {
        let length = std::fs::metadata(base.data()).map(|data| data.len()).ok();
        journal.zip(length).filter(|(journal, _)| !is_obsolete(base, journal))
    });
    let found = match found {
        Ok(found) => found,
        Err(error) => return report.unreadable.push((base.journal(), error)),
    };
    let fate = match wanted {
        Wanted::List => Fate::Found,
        Wanted::Finish => match move_claimed(base, claim, None) {
            Ok(()) => Fate::Finished,
            Err(Refused::Changed(_)) => Fate::Failed(io::Error::other(
                "something else is there now, or was written to it; the file is left where it is",
            )),
            Err(Refused::Outside(sources)) => Fate::Failed(io::Error::other(format!(
                "it is not below a directory that the stack has a rule for ({sources}), so it is not trusted"
            ))),
            Err(Refused::Distrusted(distrust)) => Fate::Failed(io::Error::other(distrust)),
            Err(refused) => Fate::Failed(refused.errno().into()),
        },
    };
    // Without both, it was moved, or not yet made, or removed: there is only something to clean up.
    if let Some((journal, length)) = found {
        report.files.push(Recovered {
            destination: journal.destination,
            source: base.data(),
            length,
            closed: matches!(journal.course, Course::Closed | Course::Naming),
            fate,
        });
    }
}
