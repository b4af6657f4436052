//! The datasets of files as tables.

use std::fmt::Write as _;

use super::{Style, plain, row, table};
use crate::datasets::DatasetRow;
use crate::formatting::{cut_path, grouped, size, time};
use crate::model::Model;

/// A table for each file.
pub(super) fn tables(style: &Style, out: &mut String, model: &Model) {
    for file in &model.datasets {
        let name = plain(&cut_path(&file.path, style.width.saturating_sub(12).max(20)));
        let _ = writeln!(out, "\n{}", style.heading(&format!("Datasets of {name}")));
        for note in &file.notes {
            style.wrap(out, "  ! ", &plain(note));
        }
        if file.datasets.is_empty() {
            continue;
        }
        let head =
            ["dataset", ">read", ">written", ">reads", ">writes", ">time", ">small", ">unaligned"];
        let mut rows = vec![row(&head)];
        let room = style.width.saturating_sub(66).max(20);
        let cells = |name: String, one: &DatasetRow| {
            vec![
                name,
                size(one.bytes_read),
                size(one.bytes_written),
                grouped(one.reads),
                grouped(one.writes),
                time(one.time_ns),
                grouped(one.small),
                grouped(one.unaligned),
            ]
        };
        for one in &file.datasets {
            let name = match one.dataset.as_str() {
                "" => "(metadata)".to_owned(),
                path => plain(&cut_path(path, room)),
            };
            rows.push(cells(name, one));
        }
        if file.more > 0 {
            rows.push(cells(format!("({} more)", grouped(file.more)), &file.rest));
        }
        out.push_str(&table(&rows, Some(style.width)));
    }
    if model.datasets.iter().any(|file| !file.datasets.is_empty()) {
        let note = "Small: less than 64 KiB. Unaligned: not from a multiple of 4 KiB on. An access \
                    to several datasets counts for each.";
        style.wrap(out, "  ", note);
    }
}
