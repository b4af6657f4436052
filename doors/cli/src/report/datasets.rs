//! Which datasets a recorded program accessed, of the files that are still there.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use striate_recording::Recording;
use striate_report::Model;
use striate_report::datasets::file_datasets;

use crate::nc::dataset_map;

/// Files whose datasets are shown.
const FILES: usize = 12;
/// Ranges of all of them, 24 bytes each.
const RANGES: usize = 1 << 20;
/// Clocks of files and recordings agree to this.
const SLACK: Duration = Duration::from_secs(2);
/// What names of files in these formats end with.
const ENDINGS: [&str; 9] = ["nc", "nc4", "cdf", "h5", "hdf5", "hdf", "he5", "h5nc", "nc3"];

/// Adds to a model which datasets of files were accessed.
pub(super) fn add(model: &mut Model, recording: &Recording, stop: &mut dyn FnMut() -> bool) {
    let ended = model.recording.began_ns.saturating_add(model.recording.length_ns);
    let ended = UNIX_EPOCH + Duration::from_nanos(ended) + SLACK;
    let mut maps = Vec::new();
    let mut room = RANGES;
    let moved = model.files.iter().filter(|row| row.files.is_none() && row.sums.bytes() > 0);
    for row in moved {
        if maps.len() == FILES || stop() {
            break;
        }
        let path = Path::new(&row.path);
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_named = ending.is_some_and(|ending| ENDINGS.contains(&ending));
        let found = match fs::metadata(path) {
            Ok(known) if known.is_file() => known,
            Err(_) if is_named => {
                let why = "the file is not there any more, so its datasets are not known";
                maps.push((row.path.clone(), Err(why.to_owned())));
                continue;
            }
            Ok(_) | Err(_) => continue,
        };
        let map = match dataset_map::dataset_map(path, room) {
            Ok(Some(mut map)) => {
                if found.modified().is_ok_and(|modified| modified > ended) {
                    map.notes.push(
                        "the file was changed after the recording: datasets may have been elsewhere"
                            .into(),
                    );
                }
                room -= map.ranges.len().min(room);
                Ok(map)
            }
            Err(error) if is_named => Err(error.to_string()),
            Ok(None) | Err(_) => continue,
        };
        maps.push((row.path.clone(), map));
    }
    model.datasets = file_datasets(recording, maps, stop);
}
