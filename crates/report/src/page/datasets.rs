//! The datasets of files as tables.

use std::fmt::Write as _;

use super::html::{self, TableCell, escaped, number, path, table, word};
use crate::datasets::DatasetRow;
use crate::formatting::{grouped, size, time};
use crate::model::Model;

/// A table for each file.
pub(super) fn section(model: &Model) -> String {
    if model.datasets.is_empty() {
        return String::new();
    }
    let columns = [
        word("dataset"),
        number("read"),
        number("written"),
        number("reads"),
        number("writes"),
        number("time"),
        number("small"),
        number("unaligned"),
    ];
    let cells = |name: TableCell, one: &DatasetRow| {
        vec![
            name,
            TableCell::number(size(one.bytes_read), one.bytes_read),
            TableCell::number(size(one.bytes_written), one.bytes_written),
            TableCell::number(grouped(one.reads), one.reads),
            TableCell::number(grouped(one.writes), one.writes),
            TableCell::number(time(one.time_ns), one.time_ns),
            TableCell::number(grouped(one.small), one.small),
            TableCell::number(grouped(one.unaligned), one.unaligned),
        ]
    };
    let mut content = String::new();
    for file in &model.datasets {
        let _ = write!(content, "<h3>{}</h3>", path(&file.path));
        for note in &file.notes {
            let _ = write!(content, "<p class=\"note\">{}</p>", escaped(note));
        }
        if file.datasets.is_empty() {
            continue;
        }
        let mut rows: Vec<_> = file
            .datasets
            .iter()
            .map(|one| match one.dataset.as_str() {
                "" => cells(TableCell::text("(metadata)"), one),
                name => cells(TableCell::html(path(name)).by(name), one),
            })
            .collect();
        if file.more > 0 {
            let name = format!("({} more)", grouped(file.more));
            rows.push(cells(TableCell::text(name), &file.rest));
        }
        content.push_str(&table(&format!("Datasets of {}", file.path), &columns, rows, true));
    }
    let lead = "Which datasets of a file were accessed. Small: less than 64 KiB. Unaligned: not from a \
                multiple of 4 KiB on. An access to several datasets counts for each.";
    html::section("datasets", "Datasets", lead, &content)
}
