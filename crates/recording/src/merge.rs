//! Merging: the traces of a recording in one file.
//!
//! Blocks are copied unchanged. Damage in a trace is recorded in the result.

use std::path::Path;

use striate_process::part_file::{Existing, PartFile, remove_parts};
use striate_trace::{MultiProcessWriter, Part};

use crate::error::RecordingError;
use crate::recording::Recording;

/// Puts all traces of a recording into one new file.
pub fn merge(recording: &Recording, into: &Path) -> Result<(), RecordingError> {
    refuse_within(recording, into)?;
    written(into, |writer| {
        for process in recording.processes() {
            let failed = |error| RecordingError::write(into, error);
            // Preopened files were written before damage, if there is any.
            let preopened = process.preopened().unwrap_or_default();
            let part = Part {
                header: process.header(),
                source: process.source(),
                zero: process.trace().zero(),
                preopened: &preopened,
            };
            writer.begin(&part).map_err(failed)?;
            let mut damage = process.damage().cloned();
            for block in process.blocks().iter().chain(process.layer_blocks()) {
                if recording.progress().is_stopped() {
                    return Err(RecordingError::Interrupted);
                }
                recording.progress().add(block.count.into());
                match process.trace().stored(block) {
                    Ok(stored) => writer.copy(&stored).map_err(failed)?,
                    Err(found) => {
                        damage.get_or_insert(found);
                        break;
                    }
                }
            }
            if let Some(damage) = damage {
                writer.set_damage(damage);
            }
        }
        Ok(())
    })
}

/// A result in the directory of a recording would be taken for a part of it.
pub(crate) fn refuse_within(recording: &Recording, into: &Path) -> Result<(), RecordingError> {
    let parent = into.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok();
    let is_trace = into.extension().is_some_and(|ending| ending == "trace");
    if is_trace && parent.is_some() && recording.path().canonicalize().ok() == parent {
        return Err(RecordingError::Within(into.to_path_buf()));
    }
    Ok(())
}

/// Makes a file of several traces, of which nothing is left if that fails.
pub(crate) fn written(
    path: &Path,
    fill: impl FnOnce(&mut MultiProcessWriter) -> Result<(), RecordingError>,
) -> Result<(), RecordingError> {
    let failed = |error| RecordingError::write(path, error);
    if path.symlink_metadata().is_ok() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    // It has its name when it is whole.
    remove_parts(path);
    let part = PartFile::create(path).map_err(failed)?;
    let file = part.file().try_clone().map_err(failed)?;
    let mut writer = MultiProcessWriter::on(file, part.path().to_path_buf()).map_err(failed)?;
    fill(&mut writer)?;
    writer.finish().and_then(|()| part.finish(path, Existing::Refuse)).map_err(failed)
}
